# The way to Python. Every function of the package goes through .py(); what answers is a function in .state$dispatch:
# Python in the same process, whichever of the two started the other.

.state <- new.env(parent = emptyenv())
.state$collect <- FALSE # whether reticulate's garbage must be collected before Python is called, see .connect()
.state$thoroughly <- TRUE # whether some of it may have survived a collection: after each top-level call

# Call the Python function `name` with a named list of arguments; NULL means Python's default.
# Python's errors and warnings become R conditions, an interrupt interrupts.
.py <- function(name, args = list(), call = sys.call(sys.parent())) {
  call <- .without_data(call)
  args <- tryCatch(args, simpleError = function(e) stop(.of_user(e, call)))
  reply <- .backend()(name, args[!vapply(args, is.null, NA)])
  if (!is.list(reply) || is.null(reply$status)) {
    .fail(list(classes = "dp_internal_error", message = "Python gave no answer", fields = list()), call)
  }
  if (nzchar(.text(reply$printed))) cat(reply$printed)
  for (text in reply$warnings) warning(warningCondition(text, class = "dp_warning", call = call))
  switch(reply$status, error = .fail(reply, call), interrupt = .interrupt(call), reply$value)
}

# An error in an argument that is evaluated here, as of the function that the user called.
.of_user <- function(e, call) {
  shown <- conditionCall(e)
  if (is.call(shown) && identical(shown[[1L]], quote(doTryCatch))) e$call <- call
  e
}

.text <- function(x) if (is.null(x)) "" else x

.backend <- function() {
  if (is.null(.state$dispatch)) .connect()
  if (.state$collect) gc(full = .state$thoroughly)
  .state$thoroughly <- FALSE
  .state$dispatch
}

.fail <- function(reply, call) {
  fields <- c(list(message = reply$message, call = call), reply$fields)
  condition <- structure(fields, class = unique(c(reply$classes, "error", "condition")))
  .forget()
  stop(condition)
}

# Empty the frames of this package's functions, which end with the error that follows: what options(error = dump.frames)
# writes down must not hold the rows they were given. A user's function goes on where somebody catches the error, as
# emmeans does, so its frame stays, also where it was defined in an environment below this namespace.
.forget <- function() {
  own <- list(topenv()) # where this package's functions are defined: the namespace, and frames of its functions
  for (number in seq_len(sys.nframe() - 2L)) {
    defined <- environment(sys.function(number))
    if (any(vapply(own, identical, NA, defined))) own <- c(own, sys.frame(number))
  }
  for (frame in own[-1L]) rm(list = ls(frame, all.names = TRUE), envir = frame)
}

# A path with ~ in full; what is none is for Python to refuse.
.path <- function(x) if (is.character(x)) path.expand(x) else x

.interrupt <- function(call) {
  signalCondition(structure(list(message = "", call = call), class = c("interrupt", "condition")))
  invokeRestart("abort")
}

# A call as the user wrote it; what do.call() put into it is left out, and a formula's environment too: neither a message
# nor a result that is saved must hold data.
.without_data <- function(call) {
  if (!is.call(call)) return(NULL)
  for (name in setdiff(names(attributes(call)), "names")) attr(call, name) <- NULL
  if (!is.name(call[[1L]]) && !is.call(call[[1L]])) call[[1L]] <- quote(dp)
  for (i in seq_along(call)) {
    part <- call[[i]]
    if (missing(part) || is.name(part) || is.pairlist(part)) next
    if (is.call(part)) call[[i]] <- .without_data(part)
    else if (!is.atomic(part) || length(part) != 1L || is.object(part)) call[[i]] <- quote(...)
  }
  call
}

# Start Python in this R process and let it use this R: reticulate runs a few lines, all data cross rpy2.
# reticulate before 1.39 finalizes its objects without Python's lock: fatal where it happens while Python, having given
# the lock away, waits for R. So its garbage, some of which every top-level call leaves, is collected before Python is
# called, and its hook, which would make more whenever Python imports a module, is not installed.
.connect <- function() {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    .no_python("the R package 'reticulate' is needed to reach Python: install.packages(\"reticulate\")")
  }
  python <- .python()
  if (nzchar(python)) {
    if (!file.exists(python)) .no_python(paste("there is no Python at", python))
    before <- Sys.getenv("RETICULATE_PYTHON", NA) # it decides before reticulate looks around in the working directory
    on.exit(if (is.na(before)) Sys.unsetenv("RETICULATE_PYTHON") else Sys.setenv(RETICULATE_PYTHON = before))
    Sys.setenv(RETICULATE_PYTHON = python)
  }
  hook <- options(reticulate.useImportHook = FALSE)
  on.exit(options(hook), add = TRUE)
  # Debian's Python passes over the hooks of editable installations when it is embedded.
  lines <- c(
    "import site as _site, sysconfig as _sysconfig",
    "_site.addsitedir(_sysconfig.get_path('purelib'))",
    "from r_bridge.package import connect as _connect",
    "_connect()"
  )
  foreign <- if (reticulate::py_available()) reticulate::py_config()$python # some other package, or the user, started it
  tryCatch(
    reticulate::py_run_string(paste(lines, collapse = "\n")),
    error = function(e) .no_python(if (is.null(foreign)) conditionMessage(e) else .foreign(foreign, e))
  )
  .state$collect <- utils::packageVersion("reticulate") < "1.39"
  if (.state$collect) addTaskCallback(function(...) .state$thoroughly <- TRUE, name = "hdpstats")
  invisible()
}

# The Python that `python -m r_bridge install` was run with, unless HDPSTATS_PYTHON names another.
.python <- function() {
  named <- Sys.getenv("HDPSTATS_PYTHON")
  file <- system.file("python.txt", package = "hdpstats")
  if (nzchar(named) || !nzchar(file)) named else readLines(file, n = 1L, warn = FALSE)
}

.foreign <- function(python, e) {
  paste0(
    "this R session has loaded ", python, " already, which has no hdpstats (", conditionMessage(e), "), and R cannot load ",
    "another Python: restart R, and call a function of hdpstats, such as dp_available(), before anything else uses Python"
  )
}

.no_python <- function(reason) {
  text <- paste0(
    reason, "\nhdpstats needs Python with the package hdpstats: in a clone of it pip install '.[r]', then python -m r_bridge install",
    " (or set HDPSTATS_PYTHON to that python)",
    if (grepl("shared library", reason)) "; R also needs Python's shared library: on Debian and Ubuntu, apt-get install libpython3-dev"
  )
  stop(structure(list(message = text, call = NULL), class = c("dp_no_python", "dp_error", "error", "condition")))
}
