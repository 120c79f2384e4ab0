# What the custodian declares about a column. Python checks each declaration at once.

dp_continuous <- function(lower, upper, missing = NULL) {
  .column(list(kind = "continuous", lower = lower, upper = upper, missing = missing))
}

dp_binary <- function(missing = 0) .column(list(kind = "binary", missing = missing))

dp_categorical <- function(levels, other = NULL) .column(list(kind = "categorical", levels = levels, other = other))

dp_duration <- function(horizon, unit = NULL, missing = NULL) {
  .column(list(kind = "duration", horizon = horizon, unit = unit, missing = missing))
}

dp_weight <- function(max, missing = NULL) .column(list(kind = "weight", max = max, missing = missing))

dp_offset <- function(lower, upper, missing = NULL) {
  .column(list(kind = "offset", lower = lower, upper = upper, missing = missing))
}

.column <- function(declared) structure(.py("column", declared, call = sys.call(-1L)), class = "dp_column")

print.dp_column <- function(x, ...) {
  entries <- vapply(unclass(x), function(value) paste(value, collapse = " | "), "")
  cat(paste0(names(entries), ": ", entries), sep = "\n")
  invisible(x)
}
