# Descriptions of the private cohort: one function spends, and only with an epsilon. A description carries its JSON text:
# it outlives the session and the Python that made it.

dp_describe <- function(study, columns, by = NULL, complete = FALSE, quantiles = TRUE, times = NULL, epsilon = NULL,
                        delta = 0, ..., weights = NULL, correlations = FALSE, weighting = NULL, replicate = 1) {
  if (!missing(study) && !missing(columns) && inherits(columns, "dp_study")) { # ~ age + nodes, study: as models have it
    second <- columns
    columns <- study
    study <- second
  }
  .check_study(study, sys.call())
  described <- inherits(columns, "formula") && length(columns) == 3L
  columns <- if (described) .formula_text(columns, sys.call()) else .columns(columns, sys.call())
  .py("describe", list(
    study = study, columns = columns, by = by, complete = complete, quantiles = quantiles, times = times,
    epsilon = epsilon, delta = delta, weights = weights, correlations = correlations, weighting = weighting,
    replicate = replicate, ...
  ))
}

dp_describe_plan <- function(request, epsilon = c(0.1, 0.3, 1), n = NULL) {
  .py("describe_plan", list(request = request, epsilon = epsilon, n = n))
}

dp_balance <- function(x, between = NULL, level = 0.95) {
  found <- .py("description_balance", list(description = x, between = between, alpha = 1 - level))
  .table(.broom_names(found), "dp_balance", "Standardised differences", guarantee = x$guarantee)
}

dp_correlations <- function(x, level = 0.95) {
  found <- .py("description_correlations", list(description = x, conf_level = level))
  .table(.broom_names(found), "dp_correlations", "Correlations", guarantee = x$guarantee)
}

dp_follow_up <- function(x) {
  .table(.broom_names(.py("description_follow_up", list(description = x))), "dp_follow_up", "Follow-up", guarantee = x$guarantee)
}

dp_write_docx <- function(x, path) {
  if (inherits(x, c("dp_regression_table", "dp_first_table"))) {
    .py(paste0(sub("dp_", "", class(x)[[1L]]), "_to_docx"), c(x$made, list(labels = x$labels, path = .path(path))))
    return(invisible(x))
  }
  name <- if (inherits(x, "dp_result")) "result" else "description"
  .py(paste0(name, "_to_docx"), stats::setNames(list(x, .path(path)), c(name, "path")))
  invisible(x)
}

dp_write_description <- function(x, path) {
  .py("to_json", list(result = x, path = .path(path)))
  invisible(x)
}

dp_read_description <- function(path) .py("description_from_json", list(path_or_text = .path(path)))

tidy.dp_description <- function(x, conf.level = 0.95, ...) {
  .broom_names(.py("description_tidy", list(description = x, conf_level = conf.level)))
}

as.data.frame.dp_description <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

as.data.frame.dp_description_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)

print.dp_description <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("description of the private cohort, ", x$guarantee, "\n\n", sep = "")
  print(as.data.frame.dp_description(x), digits = digits, row.names = FALSE)
  invisible(x)
}

summary.dp_description <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  structure(list(text = text, table = as.data.frame.dp_description(object), level = level, of = object),
            class = "summary.dp_description")
}

plot.dp_description <- function(x, between = NULL, level = 0.95, xlab = NULL, ...) {
  table <- dp_balance(x, between = between, level = level)
  table <- table[is.finite(table$difference), ]
  if (!nrow(table)) .refuse("no mean or share is clear of its noise: there is no difference to draw", sys.call())
  called <- .py("balance_labels", list(description = x))
  labels <- if (is.null(x$by)) "difference" else paste0(called$by, " = ", table$group)
  shown <- table$variable
  known <- shown %in% names(called$labels)
  shown[known] <- called$labels[shown[known]]
  table <- cbind(
    data.frame(label = labels, term = paste0(shown, ifelse(is.na(table$level), "", paste(" =", table$level))),
               estimate = table$difference),
    table[c("conf.low", "conf.high")]
  )
  if (is.null(xlab)) xlab <- paste0("standardised difference (", 100 * level, "% interval)")
  .draw_coefficients(table, exponentiate = FALSE, level = level, xlab = xlab, ...)
  invisible(x)
}
