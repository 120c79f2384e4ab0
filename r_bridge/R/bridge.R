# The functions of R that r_bridge calls, in an environment of their own, off the search path.

# ---- Calls ----------------------------------------------------------------------------------------------------------

# A call or a symbol, given as the only element of a list, such that it stays what it is among the arguments of a call.
quoted <- function(x) as.call(list(as.name("quote"), x[[1L]]))

# Call a function; errors and interrupts are part of the reply, and warnings are listed. It is called with interrupts
# suspended, so that each is seen by the function or after the reply.
guarded <- function(.function, ...) {
  warned <- character()
  caught <- function(e) {
    plain <- function(x) is.atomic(x) && length(x) == 1L && !is.null(x)
    list(
      message = conditionMessage(e), classes = class(e),
      fields = Filter(plain, unclass(e)[setdiff(names(e), c("message", "call"))])
    )
  }
  reply <- tryCatch(
    withCallingHandlers(list(value = allowInterrupts(.function(...))), warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      tryInvokeRestart("muffleWarning")
    }),
    error = caught,
    interrupt = function(e) list(interrupt = TRUE)
  )
  c(reply, list(warned = warned))
}

# The environment of the functions in an R file, or in the R files of a directory.
sourced <- function(path) {
  found <- new.env(parent = .BaseNamespaceEnv)
  files <- if (dir.exists(path)) sort(list.files(path, "[.]R$", full.names = TRUE)) else path
  for (file in files) sys.source(file, found)
  found
}

# ---- Vectors --------------------------------------------------------------------------------------------------------

part_of <- function(x, first, size) x[seq.int(first, length.out = size)]

text_bytes <- function(x) {
  x <- enc2utf8(as.vector(x))
  if (!l10n_info()[["UTF-8"]]) Encoding(x) <- "bytes" # else writeBin() would translate
  writeBin(x, raw())
}

texts_of <- function(bytes, n, ascii) {
  x <- readBin(bytes, "character", n)
  if (!ascii) Encoding(x) <- "UTF-8"
  x
}

set_missing <- function(x, places) {
  x[places] <- NA_character_
  x
}

set_attributes <- function(x, names, values) {
  for (i in seq_along(names)) attr(x, names[i]) <- values[[i]]
  x
}

# A list of columns as a data frame, without checks and copies.
as_frame <- function(x, rows, class) {
  attr(x, "row.names") <- rows
  class(x) <- class
  x
}

# ---- Handles of Python objects --------------------------------------------------------------------------------------

# An environment per handle, and the names of those that R has collected since the last question.
handles <- new.env()
handles$collected <- character()

new_handle <- function(name) {
  handle <- new.env(parent = emptyenv())
  handle$name <- name
  reg.finalizer(handle, function(e) handles$collected <- c(handles$collected, e$name))
  handle
}

collected_handles <- function() {
  found <- handles$collected
  handles$collected <- character()
  found
}

# ---- The R package, scripts and cells -------------------------------------------------------------------------------

# Let a data set of a package be read when it is first used, as LazyData does in an installed package.
lazy_data <- function(ns, file) {
  name <- sub("[.]rda$", "", basename(file))
  delayedAssign(name, {
    held <- new.env()
    load(file, held)
    held[[name]]
  }, assign.env = getNamespaceInfo(ns, "lazydata"))
}

# Make a namespace from the source of a package, as loadNamespace() does from an installed one, and attach it.
attach_package <- function(source, dispatch) {
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
      for (file in list.files(file.path(source, "data"), pattern = "[.]rda$", full.names = TRUE)) lazy_data(ns, file)
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

# Run a script as Rscript does, and return its exit status.
run_script <- function(script) {
  located <- function(what, e) {
    call <- asNamespace("hdpstats")$.without_data(conditionCall(e)) # do.call() puts whole data frames into calls
    if (is.null(call)) what else paste(what, "in", paste(deparse(call, nlines = 1L), collapse = " "))
  }
  failed <- function(e) {
    message(located("Error", e), ": ", conditionMessage(e), "\nExecution halted")
    1L
  }
  run <- function() {
    for (expression in parse(script, keep.source = TRUE)) {
      found <- withVisible(eval(expression, globalenv()))
      if (found$visible) print(found$value)
    }
    0L
  }
  warned <- function(w) {
    message(located("Warning", w), ": ", conditionMessage(w))
    tryInvokeRestart("muffleWarning")
  }
  tryCatch(withCallingHandlers(run(), warning = warned), error = failed)
}

# What %%R cells need: help as text, and no quit().
prepare_cells <- function() {
  options(help_type = "text", pager = function(files, ...) {
    for (each in files) writeLines(gsub("_\b", "", readLines(each, warn = FALSE)))
  })
  stay <- function(...) stop("R cannot quit here: it is part of Python's process", call. = FALSE)
  view <- function(x, title) if (is.data.frame(x) || is.matrix(x)) x else as.data.frame(x) # without a window
  if (!"hdpstats:cells" %in% search()) {
    attach(list(q = stay, quit = stay, View = view), name = "hdpstats:cells", warn.conflicts = FALSE)
  }
}

# Print a value as R's prompt does; a help page as text, also one of a package that is attached from its source.
shown <- function(value, help_text) {
  page <- if (inherits(value, "help_files_with_topic") && !length(value)) help_text(attr(value, "topic"))
  if (!is.null(page)) writeLines(page)
  else if (isS4(value)) methods::show(value)
  else print(value)
}

# Evaluate the code of a cell as if it were typed at R's prompt: visible values are printed, warnings are written where
# they arise, plots are drawn on files. Returns the last value, which is not printed where `returned` is true.
run_cell <- function(code, returned, device, arguments, help_text) {
  opened <- integer()
  before <- options(device = function(...) {
    do.call(getExportedValue("grDevices", device), arguments)
    opened <<- c(opened, grDevices::dev.cur())
  })
  on.exit({
    options(before)
    for (number in intersect(opened, grDevices::dev.list())) grDevices::dev.off(number)
  })
  warned <- function(w) {
    name <- conditionCall(w)
    own <- is.call(name) && is.name(name[[1L]]) && !identical(name[[1L]], quote(eval)) # eval() is the cell itself
    name <- if (own) paste(" in", name[[1L]]) else ""
    if (getOption("warn") >= 2L) stop("(converted from warning) ", conditionMessage(w), call. = FALSE)
    if (getOption("warn") >= 0L) message("Warning", name, ": ", conditionMessage(w))
    tryInvokeRestart("muffleWarning")
  }
  last <- list(value = NULL, visible = FALSE)
  run <- function() {
    expressions <- parse(text = code, keep.source = TRUE)
    for (place in seq_along(expressions)) {
      last <<- withVisible(eval(expressions[[place]], globalenv()))
      kept <- returned && place == length(expressions)
      if (last$visible && !kept) shown(last$value, help_text)
    }
  }
  withCallingHandlers(run(), warning = warned)
  if (last$visible) last$value
}
