# A paper's table of regressions: fits side by side, with reference levels, ratios, and what they cost. It costs nothing.

dp_regression_table <- function(results, labels = NULL, events = NULL, conf.level = 0.95) {
  if (inherits(results, "dp_result")) results <- list(results)
  of_rows <- is.data.frame(labels)
  if (of_rows) labels <- .labels_of(labels)
  made <- list(results = results, events = events, conf_level = conf.level)
  found <- .py("regression_table", c(made, list(labels = labels, of_rows = of_rows)))
  found$table <- .broom_names(found$table)
  found$cells <- stats::setNames(found$cells, found$headers)
  found$made <- made
  structure(found, class = "dp_regression_table")
}

# The texts that attr(column, "label") holds, as haven and labelled write them; NULL where there are none.
.labels_of <- function(rows) {
  if (!is.data.frame(rows)) return(NULL)
  found <- lapply(rows, attr, "label", exact = TRUE)
  unlist(Filter(function(label) is.character(label) && length(label) == 1L, found))
}

print.dp_regression_table <- .print_text

# Table 1 alone, for a paper.
dp_first_table <- function(x, labels = NULL, conf.level = 0.95) {
  if (!inherits(x, "dp_description")) .refuse("x must be a description, as of dp_describe()", sys.call())
  of_rows <- is.data.frame(labels)
  if (of_rows) labels <- .labels_of(labels)
  found <- .py("first_table", list(description = x, labels = labels, conf_level = conf.level, of_rows = of_rows))
  found$cells <- stats::setNames(found$cells, found$headers)
  found$made <- list(description = x, conf_level = conf.level)
  structure(found, class = "dp_first_table")
}

print.dp_first_table <- .print_text

as.data.frame.dp_first_table <- function(x, row.names = NULL, optional = FALSE, ...) x$cells

as.data.frame.dp_regression_table <- function(x, row.names = NULL, optional = FALSE, ...) x$table

knit_print.dp_regression_table <- function(x, ...) {
  if (knitr::is_latex_output()) return(knitr::asis_output(paste0("\n\n", x$latex, "\n\n")))
  if (knitr::is_html_output() || is.null(knitr::pandoc_to())) return(.knit_page(x))
  knitr::asis_output(paste0("\n\n", paste(knitr::kable(x$cells, format = "pipe"), collapse = "\n"), "\n\n"))
}

knit_print.dp_first_table <- knit_print.dp_regression_table
