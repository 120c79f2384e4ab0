# Run the code of a cell one expression at a time, and say what became of each.

state <- new.env(parent = emptyenv())
state$typed <- list() # the constants of the cell's code
state$warned <- list() # the warnings of the cell

read <- function(code) {
  state$typed <- list()
  attempt({
    expressions <- parse(text = code, keep.source = TRUE)
    state$typed <- unique(constants(expressions))
    list(value = expressions)
  }, class = "parse_error")
}

run <- function(expressions, i) {
  .cell <- expressions[[i]]
  reply <- attempt(withVisible(eval(.cell, globalenv())))
  if (!is.null(reply$value)) state$tools$.Last.value <- reply$value
  reply
}

.TOP <- quote(eval(.cell, globalenv()))

# Evaluate `action`. An error becomes an element `failure`, quit() an element `quit`; warnings are kept for later.
attempt <- function(action, class = NULL) {
  frames <- list()
  tryCatch(
    withCallingHandlers(action, error = function(e) frames <<- of_user(sys.calls()), warning = keep),
    error = function(e) {
      list(failure = list(
        classes = c(class, base::class(e)), message = conditionMessage(e),
        call = if (is.null(class)) as_text(conditionCall(e)) else "",
        traceback = as.character(lapply(frames, as_text))
      ))
    },
    kernel_quit = function(e) list(quit = TRUE)
  )
}

# The frames between the cell's code and the handler that asks, but those of R's own treatment of errors and of functions
# that are internal by their name.
of_user <- function(frames) {
  top <- Position(function(frame) identical(frame, .TOP), frames)
  if (is.na(top)) return(list())
  names <- vapply(frames, function(frame) if (is.name(frame[[1L]])) as.character(frame[[1L]]) else "", "")
  end <- length(frames) - if (names[length(frames) - 1L] == ".handleSimpleError") 2L else 1L
  if (names[end] == "stop") end <- end - 1L
  kept <- seq_along(frames) > top + 1L & seq_along(frames) <= end & !startsWith(names, ".")
  frames <- frames[kept]
  if (length(frames) > 20L) frames[-seq.int(11L, length(frames) - 10L)] else frames
}

# R's own treatment of a warning, by options(warn = ): an error, at once, or after the cell.
keep <- function(w) {
  if (!any(vapply(computeRestarts(w), function(restart) restart[[1L]] == "muffleWarning", NA))) return()
  level <- getOption("warn", 0L)
  if (level >= 2L) stop(simpleError(paste("(converted from warning)", conditionMessage(w)), conditionCall(w)))
  if (level == 1L) cat(warning_text(w, "Warning"), "\n", sep = "", file = stderr())
  if (level == 0L) state$warned <- c(state$warned, list(w))
  invokeRestart("muffleWarning")
}

warning_text <- function(w, title) {
  call <- as_text(conditionCall(w))
  if (title != "") title <- if (nzchar(call)) paste0(title, " in ", call, ": ") else paste0(title, ": ")
  else if (nzchar(call)) title <- paste0("In ", call, ": ")
  paste0(title, conditionMessage(w))
}

# Write the warnings of a cell as R does, and let warnings() find them.
warn <- function() {
  warned <- state$warned
  state$warned <- list()
  n <- length(warned)
  if (n == 0L) return(invisible())
  texts <- vapply(warned[seq_len(min(n, 50L))], warning_text, "", title = "")
  calls <- lapply(warned, function(w) if (!identical(conditionCall(w), .TOP)) conditionCall(w))
  state$last <- stats::setNames(calls, vapply(warned, conditionMessage, ""))
  title <- if (n == 1L) "Warning message:" else if (n <= 50L) "Warning messages:" else paste(n, "warnings, of which the first 50:")
  writeLines(c(title, if (n == 1L) texts else paste0(seq_along(texts), ": ", texts)), stderr())
}
