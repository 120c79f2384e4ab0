# What the custodian declares about a column. Python checks each declaration at once.

dp_continuous <- function(lower, upper, missing = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "continuous", lower = lower, upper = upper, missing = missing, complete = complete, label = label))
}

dp_binary <- function(labels = NULL, missing = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "binary", labels = labels, missing = missing, complete = complete, label = label))
}

dp_categorical <- function(levels, other = NULL, missing_level = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "categorical", levels = levels, other = other, missing_level = missing_level, complete = complete, label = label))
}

dp_duration <- function(horizon, unit = NULL, missing = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "duration", horizon = horizon, unit = unit, missing = missing, complete = complete, label = label))
}

dp_weight <- function(max, missing = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "weight", max = max, missing = missing, complete = complete, label = label))
}

dp_offset <- function(lower, upper, missing = NULL, complete = FALSE, label = NULL) {
  .column(list(kind = "offset", lower = lower, upper = upper, missing = missing, complete = complete, label = label))
}

.column <- function(declared) structure(.py("column", declared, call = sys.call(-1L)), class = "dp_column")

# The label of a declaration may be given as that of a column of a data frame: attr(column, "label") <- "Age (years)".
.with_label <- function(column) {
  label <- attr(column, "label", exact = TRUE)
  if (inherits(column, "dp_column") && is.character(label) && length(label) == 1L) column$label <- label
  column
}

print.dp_column <- function(x, ...) {
  entries <- vapply(unclass(x), function(value) paste(value, collapse = " | "), "")
  cat(paste0(names(entries), ": ", entries), sep = "\n")
  invisible(x)
}
