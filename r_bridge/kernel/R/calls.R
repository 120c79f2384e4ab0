# Calls as text for messages. What do.call() or a loop put into a call may be data, so only constants that somebody typed
# into the cell are shown.

as_text <- function(call) {
  if (!is.call(call) || identical(call, .TOP)) return("")
  text <- deparse(without_values(call), width.cutoff = 120L, nlines = 2L)
  if (length(text) > 1L) paste0(trimws(text[[1L]]), " ...") else text
}

without_values <- function(call) {
  for (i in seq_along(call)) {
    part <- call[[i]]
    if (missing(part) || is.name(part) || is.pairlist(part)) next
    if (is.call(part)) call[[i]] <- without_values(part)
    else if (!is_typed(part)) call[[i]] <- if (i == 1L) quote(f) else quote(...)
  }
  attributes(call) <- attributes(call)["names"]
  call
}

is_typed <- function(value) any(vapply(state$typed, identical, NA, value))

constants <- function(code) {
  if (is.call(code) || is.expression(code)) {
    found <- list()
    for (i in seq_along(code)) {
      part <- code[[i]]
      if (!missing(part)) found <- c(found, constants(part))
    }
    found
  } else if (is.atomic(code) && length(code) == 1L) list(code) else list()
}
