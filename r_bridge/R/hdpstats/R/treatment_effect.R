# Treatment effects by overlap weights: a propensity model, its weights, the balance that they make, and the effect. Each
# spends only where an epsilon is given. What they return carries its JSON text: it outlives the session.

dp_propensity <- function(formula, data, epsilon, ..., description = NULL, replicate = 1) {
  if (!missing(formula) && !missing(data) && inherits(formula, "dp_study")) { # study |> dp_propensity(treatment ~ terms, 1)
    study <- formula
    formula <- data
    data <- study
  }
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  result <- .py("propensity", list(
    formula = .formula_text(formula, sys.call()), data = data, epsilon = epsilon, description = description,
    replicate = replicate, ...
  ))
  result$call <- .without_epsilon(.without_data(match.call()))
  result
}

dp_propensity_public <- function(formula, data) {
  if (!missing(formula) && !missing(data) && inherits(formula, "dp_study")) {
    study <- formula
    formula <- data
    data <- study
  }
  .check_data(data, sys.call())
  result <- .py("propensity_public", list(formula = .formula_text(formula, sys.call()), data = data))
  result$call <- .without_data(match.call())
  result
}

dp_weights <- function(x, kind = "overlap") {
  if (!inherits(x, "dp_propensity")) .refuse("x must be a propensity model, as of dp_propensity()", sys.call())
  .py("weighting", list(propensity = x, kind = kind))
}

dp_treatment_effect <- function(formula, data, weighting, epsilon = NULL, ..., replicate = 1) {
  if (!missing(formula) && !missing(data) && inherits(formula, "dp_study")) {
    study <- formula
    formula <- data
    data <- study
  }
  .check_data(data, sys.call())
  if (missing(weighting)) .refuse("weighting must be given: dp_weights() of a propensity model", sys.call())
  .py("treatment_effect", list(
    formula = .formula_text(formula, sys.call()), data = data, weighting = weighting, epsilon = epsilon,
    replicate = replicate, ...
  ))
}

dp_effect_plan <- function(request, epsilon = c(0.1, 0.3, 1), n = NULL) {
  .py("effect_plan", list(request = request, epsilon = epsilon, n = n))
}

dp_plan_effect <- function(propensity, effect, data, epsilon = c(0.3, 1, 3), shares = c(0.3, 0.4, 0.5, 0.6, 0.7), treated = NULL,
                           n = NULL) {
  if (!missing(propensity) && inherits(propensity, "dp_study")) { # study |> dp_plan_effect(treatment ~ terms, outcome ~ treatment)
    study <- propensity
    propensity <- effect
    effect <- data
    data <- study
  }
  .check_data(data, sys.call())
  .py("plan_effect", list(
    propensity = .formula_text(propensity, sys.call()), effect = .formula_text(effect, sys.call()), data = data,
    epsilon = epsilon, shares = shares, treated = treated, n = n
  ))
}

dp_effect_by_site <- function(x) .broom_names(.py("effect_by_site", list(effect = x)))

dp_with_balance <- function(x, balance) .py("effect_with_balance", list(effect = x, balance = balance))

dp_write_effect <- function(x, path) {
  .py("to_json", list(result = x, path = .path(path)))
  invisible(x)
}

dp_read_effect <- function(path) .py("effect_from_json", list(path_or_text = .path(path)))

dp_combine_effects <- function(effects, between = NULL) {
  .py("combine_effects", list(effects = effects, between = between))
}

dp_read_combined_effect <- function(path) .py("combined_effect_from_json", list(path_or_text = .path(path)))

plot.dp_propensity <- function(x, xlab = "chance of treatment", ylab = "share of people", ...) {
  if (is.null(x$overlap)) .refuse("overlap is predicted among public rows, and this model has none at hand", sys.call())
  ends <- c(x$overlap$after, utils::tail(x$overlap$until, 1L))
  arms <- names(x$overlap)[3:4]
  shares <- lapply(x$overlap[3:4], function(share) share / sum(share))
  colours <- .palette()[c(1L, 2L)]
  behind <- grDevices::adjustcolor("#767676", 0.3) # seen on light and on dark grounds
  old <- .par()
  on.exit(graphics::par(old))
  graphics::plot(NA, xlim = c(0, 1), ylim = c(0, max(unlist(shares), x$overlap$weighted)), xlab = xlab, ylab = ylab, las = 1, bty = "l", ...)
  graphics::rect(utils::head(ends, -1L), 0, ends[-1L], x$overlap$weighted, col = behind, border = NA)
  for (arm in 1:2) {
    graphics::lines(ends, c(shares[[arm]], utils::tail(shares[[arm]], 1L)), type = "s", col = colours[[arm]], lty = arm, lwd = 1.6)
  }
  graphics::legend("topright", c(paste(x$treatment, "=", arms), "after weighting"), col = c(colours, behind),
                   lty = c(1, 2, 1), lwd = c(1.6, 1.6, 8), bty = "n", text.col = graphics::par("fg"))
  invisible(x)
}

tidy.dp_treatment_effect <- function(x, conf.level = 0.95, ...) {
  .no_more("tidy", ...)
  .broom_names(.py("effect_tidy", list(effect = x, conf_level = conf.level)))
}

glance.dp_treatment_effect <- function(x, ...) {
  .no_more("glance", ...)
  data.frame(epsilon = x$epsilon, delta = x$delta, weight = x$weight, effective.share = x$effective_share)
}

as.data.frame.dp_treatment_effect <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

print.dp_treatment_effect <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("effect of ", x$treatment, " on ", x$outcome, ", ", x$guarantee, "\n\n", sep = "")
  print(as.data.frame.dp_treatment_effect(x), digits = digits, row.names = FALSE)
  invisible(x)
}

summary.dp_treatment_effect <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  structure(list(text = text, table = as.data.frame.dp_treatment_effect(object), level = level, of = object),
            class = "summary.dp_treatment_effect")
}

as.data.frame.summary.dp_treatment_effect <- as.data.frame.summary.dp_curves

plot.dp_treatment_effect <- function(x, level = 0.95, xlab = NULL, ...) {
  table <- tidy.dp_treatment_effect(x, conf.level = level)[1:3, ]
  if (!all(is.finite(table$estimate))) .refuse("an arm has too little weight for the noise: there is nothing to draw", sys.call())
  shown <- data.frame(label = "effect", term = table$effect, table[c("estimate", "conf.low", "conf.high")])
  if (is.null(xlab)) xlab <- paste0(sub(",.*", "", table$effect[[1L]]), " of ", x$outcome, " (", 100 * level, "% interval)")
  .draw_coefficients(shown, exponentiate = FALSE, level = level, xlab = xlab, numbers = TRUE, ...)
  invisible(x)
}

tidy.dp_combined_effect <- function(x, conf.level = 0.95, ...) {
  .no_more("tidy", ...)
  .broom_names(.py("combined_effect_tidy", list(effect = x, conf_level = conf.level)))
}

glance.dp_combined_effect <- function(x, ...) {
  .no_more("glance", ...)
  .broom_names(x$glance)
}

as.data.frame.dp_combined_effect <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

print.dp_combined_effect <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("effect of ", x$treatment, " on ", x$outcome, ", of ", length(x$sites), " sites\n\n", sep = "")
  print(as.data.frame.dp_combined_effect(x), digits = digits, row.names = FALSE)
  invisible(x)
}

summary.dp_combined_effect <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  structure(list(text = text, table = as.data.frame.dp_combined_effect(object), level = level, of = object),
            class = "summary.dp_combined_effect")
}

as.data.frame.summary.dp_combined_effect <- as.data.frame.summary.dp_curves

plot.dp_combined_effect <- function(x, effect = NULL, level = 0.95, xlab = NULL, ...) {
  table <- .broom_names(.py("combined_effect_forest", list(effect = x, conf_level = level)))
  table$covariate <- TRUE
  if (is.null(effect)) effect <- table$term[[1L]]
  if (is.null(xlab)) xlab <- paste0(effect, ": ", x$label, " (", 100 * level, "% interval)")
  .draw_forest(table, term = effect, level = level, exponentiate = grepl("ratio", effect, fixed = TRUE)[[1L]], xlab = xlab,
               call = sys.call(), ...)
  invisible(x)
}

as.data.frame.dp_effect_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)

tidy.dp_weighted_balance <- function(x, conf.level = 0.95, ...) {
  .no_more("tidy", ...)
  .broom_names(.py("weighted_balance_tidy", list(balance = x, conf_level = conf.level)))
}

glance.dp_weighted_balance <- function(x, ...) {
  .no_more("glance", ...)
  sizes <- tapply(abs(x$table$difference), x$table$sample, max)
  data.frame(epsilon = x$epsilon, delta = x$delta, unweighted = sizes[["unweighted"]], weighted = sizes[["weighted"]])
}

as.data.frame.dp_weighted_balance <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$table)

print.dp_weighted_balance <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("balance by ", x$treatment, ", ", x$guarantee, "\n\n", sep = "")
  print(as.data.frame.dp_weighted_balance(x), digits = digits, row.names = FALSE)
  invisible(x)
}

summary.dp_weighted_balance <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  structure(list(text = text, table = as.data.frame.dp_weighted_balance(object), level = level, of = object),
            class = "summary.dp_weighted_balance")
}

as.data.frame.summary.dp_weighted_balance <- as.data.frame.summary.dp_curves

plot.dp_weighted_balance <- function(x, level = 0.95, xlab = NULL, ...) {
  table <- tidy.dp_weighted_balance(x, conf.level = level)
  table <- table[is.finite(table$difference), ]
  if (!nrow(table)) .refuse("no mean or share is clear of its noise: there is no difference to draw", sys.call())
  term <- paste0(table$variable, ifelse(is.na(table$level), "", paste(" =", table$level)))
  shown <- data.frame(label = table$sample, term = term, estimate = table$difference, table[c("conf.low", "conf.high")])
  if (is.null(xlab)) xlab <- paste0("standardised difference (", 100 * level, "% limits)")
  .draw_coefficients(shown, exponentiate = FALSE, level = level, xlab = xlab, ...)
  invisible(x)
}
