# Evaluate the code of a cell as if it were typed at R's prompt: visible values are printed, warnings told where they
# arise, plots drawn on files. Returns the last value, which is not printed where `hand_back` is true.
function(code, hand_back, device, arguments) {
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
      handed <- hand_back && place == length(expressions)
      if (last$visible && !handed) if (isS4(last$value)) methods::show(last$value) else print(last$value)
    }
  }
  withCallingHandlers(run(), warning = warned)
  if (last$visible) last$value
}
