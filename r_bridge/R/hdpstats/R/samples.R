# Weighted public samples: two functions spend epsilon and return them, the others describe them and cost nothing. A
# sample carries its JSON text: it outlives the session and the Python that made it.

dp_hybrid_weights <- function(study, columns, epsilon, ..., select = NULL, model = NULL,
                              projection = c("simplex", "clip", "none"), share = 0.1, distance_share = 0,
                              description = NULL, replicate = 1) {
  .check_weights(study, epsilon, sys.call())
  .py("hybrid_weights", list(
    study = study, columns = .columns(columns, sys.call()), epsilon = epsilon, select = select,
    model = .formula_text(model, sys.call()), projection = .first(projection, c("simplex", "clip", "none")),
    share = share, distance_share = distance_share, description = description, replicate = replicate, ...
  ))
}

dp_importance_weights <- function(study, formula, epsilon, ..., delta = 0, ridge = NULL,
                                  mechanism = c("auto", "objective", "output"), description = NULL, replicate = 1) {
  .check_weights(study, epsilon, sys.call())
  .py("importance_weights", list(
    study = study, formula = .formula_text(formula, sys.call()), epsilon = epsilon, delta = delta, ridge = ridge,
    mechanism = .first(mechanism, c("auto", "objective", "output")), description = description, replicate = replicate, ...
  ))
}

.check_weights <- function(study, epsilon, call) {
  .check_study(study, call)
  if (missing(epsilon) || is.null(epsilon)) {
    .refuse("epsilon must be given: what the weights may cost each person", call)
  }
}

# Names of columns, from text or from a one-sided formula of names.
.columns <- function(columns, call) {
  if (!inherits(columns, "formula")) return(columns)
  names <- attr(.one_sided(columns, call), "variables")[-1L]
  if (!all(vapply(names, is.name, NA))) .refuse("columns must be names: ~ size + grade; groups of a description are by = \"arm\"", call)
  vapply(names, as.character, "")
}

.one_sided <- function(formula, call) {
  terms <- tryCatch(stats::terms(formula), error = function(e) .refuse(conditionMessage(e), call))
  if (length(formula) != 2L || any(attr(terms, "order") > 1L)) {
    .refuse("the formula must have one side and no interactions: ~ age + size", call)
  }
  terms
}

# Numbers per row of what was asked for: names of columns, a one-sided formula, or a function of the rows. A factor is a
# column of zeros and ones for each level.
.features <- function(x, of, call) {
  .check_sample(x, call)
  found <- tryCatch(.evaluated(x$frame, of, call), dp_error = stop, error = function(e) .refuse(conditionMessage(e), call))
  columns <- unlist(Map(.numbers, found, names(found)), recursive = FALSE, use.names = FALSE)
  values <- lapply(columns, `[[`, "values")
  if (!length(values) || any(lengths(values) != nrow(x$frame))) .refuse("of must give one number per row", call)
  structure(values, names = vapply(columns, `[[`, "", "name"), class = "data.frame", row.names = seq_len(nrow(x$frame)))
}

.evaluated <- function(frame, of, call) {
  if (is.function(of)) return(list(`function` = of(frame)))
  if (inherits(of, "formula")) {
    variables <- attr(.one_sided(of, call), "variables")[-1L]
    found <- lapply(variables, eval, frame, environment(of))
    return(stats::setNames(found, vapply(variables, function(each) paste(deparse(each), collapse = " "), "")))
  }
  if (!is.character(of) || length(of) > ncol(frame)) { # the values of a column are not names, and not quoted
    .refuse("of must be names of columns, a formula such as ~ age, or a function of the rows", call)
  }
  unknown <- setdiff(of, names(frame))
  if (length(unknown)) {
    .refuse(paste0("there is no column '", unknown[[1L]], "'; the columns are ", paste(names(frame), collapse = ", ")), call)
  }
  as.list(frame[of])
}

.numbers <- function(values, name) {
  if (is.character(values)) values <- factor(values)
  if (!is.factor(values)) return(list(list(name = name, values = as.numeric(values))))
  lapply(levels(values), function(level) list(name = paste0(name, level), values = as.numeric(values == level)))
}

.check_sample <- function(x, call) {
  if (!inherits(x, "dp_weighted_sample")) {
    .refuse("x must be a sample, as of dp_hybrid_weights() or dp_importance_weights()", call)
  }
}

dp_sample_mean <- function(x, of, level = 0.95) {
  frame <- .features(x, of, sys.call())
  .broom_names(.py("sample_mean", list(sample = x, frame = frame, alpha = 1 - level)))
}

dp_sample_quantile <- function(x, of, q = 0.5, level = 0.95) {
  frame <- .features(x, of, sys.call())
  .broom_names(.py("sample_quantile", list(sample = x, frame = frame, probabilities = q, alpha = 1 - level)))
}

dp_sample_table <- function(x, columns, level = 0.95) {
  .check_sample(x, sys.call())
  table <- .py("sample_table", list(sample = x, columns = .columns(columns, sys.call()), alpha = 1 - level))
  own <- seq_along(table) > ncol(table) - 5L # not the names of the columns themselves
  names(table)[own] <- gsub("_", ".", names(table)[own], fixed = TRUE)
  table
}

dp_sample_balance <- function(x, level = 0.95) {
  .check_sample(x, sys.call())
  .broom_names(.py("sample_balance", list(sample = x, alpha = 1 - level)))
}

dp_sample_fit <- function(x, formula, model = NULL, ...) {
  .check_sample(x, sys.call())
  model <- if (is.null(model)) .model(formula, NULL, sys.call()) else model
  result <- .py("sample_fit", list(sample = x, formula = .formula_text(formula, sys.call()), model = model, ...))
  result$call <- .without_data(match.call())
  result
}

dp_write_sample <- function(x, path) {
  .check_sample(x, sys.call())
  .py("to_json", list(result = x, path = .path(path)))
  invisible(x)
}

dp_read_sample <- function(path) .py("sample_from_json", list(path_or_text = .path(path)))

as.data.frame.dp_weighted_sample <- function(x, row.names = NULL, optional = FALSE, ...) x$frame

weights.dp_weighted_sample <- function(object, ...) object$frame[[object$weight_name]]

print.dp_weighted_sample <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("weighted public sample, ", x$guarantee, "\n\n", sep = "")
  columns <- if (is.null(x$formula)) paste(x$columns, collapse = ", ") else x$formula
  cat("Columns: ", columns, "\n", sep = "")
  cat(strwrap(paste("Method:", x$method), exdent = 2L), sep = "\n")
  cat("\n", nrow(x$frame), " public rows for ", if (is.null(x$records)) "private" else x$records, " private records\n",
      "effective size ", format(x$effective_size, digits = digits), ", overlap ", format(x$overlap, digits = digits),
      ", largest weight ", format(100 * x$max_weight, digits = digits), "% of the total\n", sep = "")
  invisible(x)
}

summary.dp_weighted_sample <- function(object, ...) {
  facts <- c("effective_size", "overlap", "max_weight", "notes")
  structure(
    c(unclass(object)[facts], list(text = .py("summary_text", list(result = object)), of = object)),
    class = "summary.dp_weighted_sample"
  )
}

plot.dp_weighted_sample <- function(x, which = c("weights", "balance"), level = 0.95, xlab = NULL, ...) {
  switch(match.arg(which), weights = .draw_weights(x, xlab, ...), balance = .draw_balance(x, level, xlab, ...))
  invisible(x)
}

.draw_weights <- function(x, xlab, ...) {
  weights <- weights.dp_weighted_sample(x)
  relative <- weights / mean(weights)
  old <- .par()
  on.exit(graphics::par(old))
  graphics::hist(relative, breaks = min(60, max(10, length(weights) %/% 10)), col = .palette()[[1L]], border = NA,
                 xlab = if (is.null(xlab)) "weight over mean weight" else xlab, ylab = "public rows", las = 1,
                 main = sprintf("effective size %.0f of %d public rows", x$effective_size, length(weights)), ...)
  graphics::abline(v = 1, col = "grey50")
}

.draw_balance <- function(x, level, xlab, ...) {
  table <- dp_sample_balance(x, level = level)
  if (!nrow(table)) .refuse("there is no column whose public values differ: nothing to balance", sys.call(-1L))
  called <- .py("sample_labels", list(sample = x, terms = table$feature))
  table <- cbind(data.frame(label = "difference", term = as.character(called), estimate = table$difference),
                 table[c("conf.low", "conf.high")])
  if (is.null(xlab)) xlab <- paste0("private (estimated) minus public mean, in public SD (", 100 * level, "% interval)")
  .draw_coefficients(table, exponentiate = FALSE, level = level, xlab = xlab, ...)
}
