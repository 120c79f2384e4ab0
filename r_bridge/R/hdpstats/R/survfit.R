# Survival curves of groups: one function spends. Curves carry their JSON text: they outlive the session and the Python
# that made them.

dp_survfit <- function(formula, data, epsilon = NULL, ..., times = NULL, weights = NULL, recorded = c("within", "at_ends"),
                       delta = 0, description = NULL, replicate = 1, weighting = NULL) {
  if (!missing(formula) && inherits(formula, "dp_study")) return(.study_second(match.call(), formula, parent.frame()))
  .check_data(data, sys.call())
  if (is.null(description) && is.null(epsilon)) {
    asked <- list(formula = .formula_text(formula, sys.call()), data = data, times = times, weights = weights,
                  recorded = match.arg(recorded), weighting = weighting)
    return(structure(asked, class = "dp_curves_request"))
  }
  .py("survfit", list(
    formula = .formula_text(formula, sys.call()), data = data, epsilon = epsilon, times = times, weights = weights,
    recorded = match.arg(recorded), weighting = weighting, delta = delta, description = description, replicate = replicate, ...
  ))
}

print.dp_curves_request <- function(x, ...) {
  cat("request for survival curves, ", x$formula, ": dp_plan() predicts what they would say; give epsilon to release them\n", sep = "")
  invisible(x)
}

dp_survfit_plan <- function(formula, data, epsilon = c(0.1, 0.3, 1), ..., times = NULL, weights = NULL,
                            recorded = c("within", "at_ends"), weighting = NULL, n = NULL) {
  if (!missing(formula) && inherits(formula, "dp_study")) return(.study_second(match.call(), formula, parent.frame()))
  .check_data(data, sys.call())
  .py("survfit_plan", list(
    formula = .formula_text(formula, sys.call()), data = data, epsilon = epsilon, times = times, weights = weights,
    recorded = match.arg(recorded), weighting = weighting, n = n, ...
  ))
}

dp_survfit_public <- function(formula, data, times = NULL, weights = NULL, weighting = NULL) {
  if (!missing(formula) && inherits(formula, "dp_study")) return(.study_second(match.call(), formula, parent.frame()))
  .check_data(data, sys.call())
  .py("survfit_public", list(
    formula = .formula_text(formula, sys.call()), data = data, times = times, weights = weights, weighting = weighting
  ))
}

dp_logrank_test <- function(x, method = c("logrank", "peto"), strata = NULL, source = NULL, level = 0.95) {
  found <- .py("curves_test", list(
    curves = x, method = match.arg(method), strata = strata, source = source, alpha = 1 - level
  ))
  structure(list(
    statistic = c("X-squared" = found$statistic), parameter = c(df = found$df), p.value = found$p_value,
    method = paste0(
      if (found$method == "peto") "Peto-Peto test" else "Log-rank test",
      if (length(found$strata)) paste(", stratified by", paste(found$strata, collapse = " and "))
    ),
    data.name = x$formula, events = .broom_names(found$events), hazard.ratios = .broom_names(found$hazard_ratios),
    text = found$text, html = found$html
  ), class = c("dp_logrank_test", "htest"))
}

tidy.dp_logrank_test <- function(x, ...) {
  .no_more("tidy", ...)
  data.frame(statistic = x$statistic[[1L]], p.value = x$p.value, parameter = x$parameter[[1L]], method = x$method)
}

glance.dp_logrank_test <- function(x, ...) {
  .no_more("glance", ...)
  .numbers_of(tidy.dp_logrank_test(x))
}

dp_compare_curves <- function(x, fit, over = NULL, level = 0.95) {
  if (!inherits(fit, "dp_result")) .refuse("fit must be a result, as of dp_hazard()", sys.call())
  rows <- .public_rows(fit, over, sys.call(), "over")
  .table(.broom_names(.py("curves_compare", list(curves = x, result = fit, newdata = rows, conf_level = level))),
         "dp_compare_curves", "A model's mean survival beside curves")
}

dp_restricted_mean <- function(x, upto = NULL, differences = FALSE, level = 0.95, source = NULL) {
  found <- .py("curves_restricted_mean", list(curves = x, upto = upto, differences = differences, alpha = 1 - level, source = source))
  .table(.broom_names(found), "dp_restricted_mean", "Restricted mean times", guarantee = x$guarantee)
}

dp_write_curves <- function(x, path) {
  .py("to_json", list(result = x, path = .path(path)))
  invisible(x)
}

dp_read_curves <- function(path) .py("curves_from_json", list(path_or_text = .path(path)))

tidy.dp_curves <- function(x, conf.level = 0.95, source = NULL, ...) {
  .no_more("tidy", ...)
  .broom_names(.py("curves_tidy", list(curves = x, conf_level = conf.level, source = source)))
}

as.data.frame.dp_curves <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

as.data.frame.dp_curves_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)

quantile.dp_curves <- function(x, probs = c(0.25, 0.5, 0.75), conf.level = 0.95, ...) {
  .no_more("quantile", ...)
  .broom_names(.py("curves_quantile", list(curves = x, probs = probs, alpha = 1 - conf.level)))
}

median.dp_curves <- function(x, na.rm = FALSE, ...) .broom_names(.py("curves_median", list(curves = x)))

print.dp_curves <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  guarantee <- if (x$source == "public") "public rows" else x$guarantee
  cat("survival curves of ", x$formula, ": ", guarantee, "\n\n", sep = "")
  found <- .broom_names(x$medians)
  own <- if (is.null(x$table$cause)) x$table else x$table[x$table$cause == "(event-free)", ]
  group <- if (all(is.na(own$group))) rep("all", nrow(own)) else own$group
  events <- tapply(own$events, factor(group, x$groups), sum)
  shown <- data.frame(n = round(found$people), events = as.vector(round(events)), median = found$estimate,
                      lower = found$conf.low, upper = found$conf.high, row.names = x$groups)
  names(shown)[4:5] <- c("0.95LCL", "0.95UCL")
  print(shown, digits = digits)
  if (length(x$causes) > 1L) .print_incidences(x, digits)
  invisible(x)
}

# Of several causes the incidence of each at the last time at which it is stated, as survfit() prints states.
.print_incidences <- function(x, digits) {
  own <- .broom_names(x$table)
  own <- own[own$cause != "(event-free)", ]
  own$group <- ifelse(is.na(own$group), "all", own$group)
  parts <- split(own, list(factor(own$cause, x$causes), factor(own$group, x$groups)), lex.order = FALSE)
  rows <- lapply(parts, function(part) {
    stated <- part[is.finite(part$estimate), ]
    last <- if (nrow(stated)) stated[nrow(stated), ] else part[nrow(part), ]
    data.frame(cause = last$cause, events = round(sum(part$events)), time = last$time, incidence = last$estimate,
               lower = last$conf.low, upper = last$conf.high, row.names = NULL)
  })
  shown <- do.call(rbind, rows)
  names(shown)[5:6] <- c("0.95LCL", "0.95UCL")
  groups <- rep(x$groups, each = length(x$causes))
  if (length(x$groups) > 1L) shown <- cbind(group = groups, shown)
  cat("\nincidence of each cause at the last time at which it is stated\n\n")
  print(shown, digits = digits, row.names = FALSE)
}

summary.dp_curves <- function(object, level = 0.95, times = NULL, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  table <- if (is.null(times)) .broom_names(.py("curves_tidy", list(curves = object, conf_level = level)))
  else .broom_names(.py("curves_at", list(curves = object, times = times, conf_level = level)))
  structure(list(text = text, table = table, level = level, times = times, of = object), class = "summary.dp_curves")
}

# With times a table of each group, and of each of several causes, at those times, as survival shows it.
print.summary.dp_curves <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  if (is.null(x$times)) return(.print_text(x))
  guarantee <- if (x$of$source == "public") "public rows" else x$of$guarantee
  cat("survival curves of ", x$of$formula, ": ", guarantee, "\n\n", sep = "")
  by <- intersect(c("group", "cause"), names(x$table))
  shown <- x$table[setdiff(names(x$table), by)]
  names(shown) <- sub("^conf[.]", paste0(format(100 * x$level, digits = 3), "% CI "), names(shown))
  labels <- do.call(paste, c(x$table[by], sep = ", "))
  for (label in unique(labels)) {
    if (length(unique(labels)) > 1L) cat(label, "\n", sep = "")
    print(shown[labels == label, ], digits = digits, row.names = FALSE)
    cat("\n")
  }
  invisible(x)
}
