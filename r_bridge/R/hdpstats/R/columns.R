# What the custodian declares about a column. Python checks each declaration at once.

dp_continuous <- function(lower, upper, missing = NULL, complete = FALSE) {
  .column(list(kind = "continuous", lower = lower, upper = upper, missing = missing, complete = complete))
}

dp_binary <- function(labels = NULL, missing = NULL, complete = FALSE) {
  .column(list(kind = "binary", labels = labels, missing = missing, complete = complete))
}

dp_categorical <- function(levels, other = NULL, missing_level = NULL, complete = FALSE) {
  .column(list(kind = "categorical", levels = levels, other = other, missing_level = missing_level, complete = complete))
}

dp_duration <- function(horizon, unit = NULL, missing = NULL, complete = FALSE) {
  .column(list(kind = "duration", horizon = horizon, unit = unit, missing = missing, complete = complete))
}

dp_weight <- function(max, missing = NULL, complete = FALSE) {
  .column(list(kind = "weight", max = max, missing = missing, complete = complete))
}

dp_offset <- function(lower, upper, missing = NULL, complete = FALSE) {
  .column(list(kind = "offset", lower = lower, upper = upper, missing = missing, complete = complete))
}

.column <- function(declared) structure(.py("column", declared, call = sys.call(-1L)), class = "dp_column")

print.dp_column <- function(x, ...) {
  entries <- vapply(unclass(x), function(value) paste(value, collapse = " | "), "")
  cat(paste0(names(entries), ": ", entries), sep = "\n")
  invisible(x)
}
