# Make a namespace from the source of a package, as loadNamespace() does from an installed one, and attach it.
function(source, dispatch) {
  name <- basename(source)
  if (!isNamespaceLoaded(name)) {
    info <- parseNamespaceFile(name, dirname(source), mustExist = TRUE)
    version <- read.dcf(file.path(source, "DESCRIPTION"), "Version")[[1L]]
    imports <- structure(new.env(parent = .BaseNamespaceEnv), name = paste0("imports:", name))
    ns <- new.env(parent = imports)
    facts <- new.env(parent = baseenv())
    facts$spec <- c(name = name, version = version)
    ns$.__NAMESPACE__. <- facts
    ns$.__S3MethodsTable__. <- new.env(parent = baseenv())
    ns$.packageName <- name
    setNamespaceInfo(ns, "path", source)
    setNamespaceInfo(ns, "exports", new.env(parent = baseenv()))
    setNamespaceInfo(ns, "imports", list(base = TRUE))
    setNamespaceInfo(ns, "lazydata", structure(new.env(parent = baseenv()), name = paste0("lazydata:", name)))
    setNamespaceInfo(ns, "dynlibs", NULL)
    setNamespaceInfo(ns, "S3methods", matrix(NA_character_, 0L, 4L))
    .Internal(registerNamespace(name, ns))
    tryCatch({
      for (wanted in info$imports) {
        if (is.character(wanted)) namespaceImport(ns, loadNamespace(wanted), from = name)
        else namespaceImportFrom(ns, loadNamespace(wanted[[1L]]), wanted[[2L]], from = name)
      }
      for (file in sort(list.files(file.path(source, "R"), pattern = "[.]R$", full.names = TRUE))) sys.source(file, ns)
      if (exists(".onLoad", ns, inherits = FALSE)) ns$.onLoad(dirname(source), name)
      registerS3methods(info$S3methods, name, ns)
      namespaceExport(ns, info$exports)
      for (pattern in info$exportPatterns) namespaceExport(ns, grep(pattern, ls(ns, all.names = TRUE), value = TRUE))
    }, error = function(e) {
      .Internal(unregisterNamespace(name))
      stop(e)
    })
    lockEnvironment(imports, TRUE)
    lockEnvironment(ns, TRUE)
  }
  ns <- asNamespace(name)
  assign("dispatch", dispatch, envir = ns$.state)
  if (!paste0("package:", name) %in% search()) attachNamespace(ns)
  invisible(NULL)
}
