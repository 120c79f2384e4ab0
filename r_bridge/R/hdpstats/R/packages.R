# Methods for generics of other packages, registered when those are loaded; no package is needed.

augment.dp_result <- function(x, data = NULL, newdata = NULL, ...) {
  .no_more("augment", ...)
  rows <- if (is.null(newdata)) data else newdata
  if (!is.data.frame(rows)) .refuse("newdata must be given, public rows: a result holds no rows", sys.call())
  found <- .link_with_errors(x, rows, sys.call())
  rows$.fitted <- found$fit
  rows$.se.fit <- found$se.fit
  rows
}

# So that autoplot(fit) is found without attaching ggplot2.
autoplot <- function(object, ...) {
  if (!requireNamespace("ggplot2", quietly = TRUE)) .refuse("autoplot needs the package ggplot2; plot() works without", sys.call())
  ggplot2::autoplot(object, ...)
}

autoplot.dp_result <- function(object, level = 0.95, exponentiate = FALSE, labels = NULL, terms = NULL, scale = c("unit", "sd"),
                               estimates = FALSE, over = NULL, ...) {
  .no_more("autoplot", ...)
  found <- .coefficient_rows(object, level, exponentiate, labels, terms, match.arg(scale), over, sys.call())
  table <- found$table
  columns <- c("estimate", "conf.low", "conf.high")
  if (exponentiate) table[columns] <- exp(table[columns])
  table$term <- factor(.wrapped(table$term), rev(unique(.wrapped(table$term))))
  table$label <- factor(table$label, unique(table$label))
  table$text <- .limits_text(table$estimate, table$conf.low, table$conf.high)
  aes <- function(...) do.call(ggplot2::aes, lapply(c(...), as.name))
  sources <- nlevels(table$label)
  beside <- ggplot2::position_nudge(y = 0.5 * ((sources + 1) / 2 - as.integer(table$label)) / sources)
  drawn <- ggplot2::ggplot(table, aes(x = "estimate", y = "term", xmin = "conf.low", xmax = "conf.high", colour = "label")) +
    ggplot2::geom_vline(xintercept = as.numeric(exponentiate), colour = "grey50") +
    ggplot2::geom_pointrange(position = beside) +
    ggplot2::labs(x = found$label, y = NULL, colour = NULL)
  if (sources <= length(.colours)) drawn <- drawn + ggplot2::scale_colour_manual(values = .theme_palette())
  if (sources == 1L) drawn <- drawn + ggplot2::guides(colour = "none")
  if (exponentiate) drawn <- drawn + ggplot2::scale_x_log10(breaks = .ratio_ticks, labels = .plain)
  if (!estimates) return(drawn)
  drawn + ggplot2::geom_text(aes(label = "text"), x = Inf, hjust = -0.05, size = 3, position = beside, show.legend = FALSE) +
    ggplot2::coord_cartesian(clip = "off") +
    ggplot2::theme(plot.margin = ggplot2::margin(5.5, 6 * max(nchar(table$text)), 5.5, 5.5), legend.position = "top")
}

xtable.dp_result <- function(x, caption = NULL, label = NULL, align = NULL, digits = NULL, display = NULL, auto = FALSE, ...) {
  xtable.summary.dp_result(summary(x), caption = caption, label = label, align = align, digits = digits, display = display, auto = auto, ...)
}

xtable.summary.dp_result <- function(x, caption = NULL, label = NULL, align = NULL, digits = NULL, display = NULL, auto = FALSE, ...) {
  table <- as.data.frame(x$coefficients)
  table[[4L]] <- .shown_p(table[[4L]], x$least)
  xtable::xtable(table, caption = caption, label = label, align = align, digits = digits, display = display, auto = auto, ...)
}

# marginaleffects: coefficients, their covariances, and predictions with others in their place. It adds rows of its own to
# those it is given, with the levels of factors that these lack, and knows them by their rowid: each row keeps its own.
get_coef.dp_result <- function(model, ...) model$coefficients

get_vcov.dp_result <- function(model, vcov = NULL, ...) {
  if (isFALSE(vcov)) return(NULL)
  if (is.null(vcov) || isTRUE(vcov)) return(unclass(model$vcov))
  if (!is.matrix(vcov) || !identical(dimnames(vcov), dimnames(model$vcov))) {
    .refuse("vcov must be TRUE, FALSE, or a matrix named as vcov(fit): robust covariances would need private rows", sys.call())
  }
  unclass(vcov)
}

set_coef.dp_result <- function(model, coefs, ...) {
  changed <- .py("with_coefficients", list(json = model$json, coefficients = unname(coefs)))
  model$json <- changed$json
  model$coefficients[] <- coefs
  model
}

get_predict.dp_result <- function(model, newdata, type = "response", ...) {
  predicted <- .on_scale(model, newdata, type, sys.call())
  rowid <- if ("rowid" %in% names(newdata)) newdata$rowid else seq_len(nrow(newdata))
  if (!is.data.frame(predicted)) return(data.frame(rowid = rowid, estimate = unname(predicted)))
  levels <- names(predicted) # of a multinomial model
  data.frame(rowid = rep(rowid, length(levels)), group = factor(rep(levels, each = length(rowid)), levels),
             estimate = unlist(predicted, use.names = FALSE))
}

.on_scale <- function(model, newdata, type, call) {
  known <- if (inherits(model, "dp_hazard")) c("lp", "link", "risk") else c("response", if (inherits(model, "dp_logit")) "link")
  if (!isTRUE(type %in% known)) {
    also <- if (inherits(model, "dp_hazard")) "; dp_average_effects() has risks and survival at given times"
    .refuse(paste0("type must be ", paste0("\"", known, "\"", collapse = ", "), also), call)
  }
  if (inherits(model, "dp_logit")) return(predict(model, newdata, type = type))
  if (inherits(model, "dp_hazard")) return(predict(model, newdata, type = if (type == "link") "lp" else type))
  predict(model, newdata)
}

# insight and parameters.
get_df.dp_result <- function(x, ...) Inf

# The public rows of the study that the call names; nothing where there is none.
get_data.dp_result <- function(x, ...) tryCatch(.complete_rows(x, NULL, sys.call()), dp_argument_error = function(e) NULL)

model_parameters.dp_result <- function(model, ci = 0.95, exponentiate = FALSE, ...) {
  table <- dp_tidy(model, conf.int = TRUE, conf.level = ci, exponentiate = exponentiate)
  found <- data.frame(
    Parameter = table$term, Coefficient = table$estimate, SE = table$std.error, CI = ci, CI_low = table$conf.low,
    CI_high = table$conf.high, z = table$statistic, df_error = Inf, p = table$p.value
  )
  structure(found, class = c("parameters_model", "see_parameters_model", "data.frame"), ci = ci, exponentiate = exponentiate,
            coefficient_name = "Coefficient", model_class = class(model), digits = 2, ci_digits = 2, p_digits = 3, show_summary = FALSE)
}

# What insight and performance would compute from rows of the study, or without any, in place of the private ones.
.no_rows <- function(...) {
  .not_released(Filter(function(given) inherits(given, "dp_result"), list(...))[[1L]], .OF_ALL_ROWS, .COMPARE)
}

# Variance inflation of covariates (Fox and Monette 1992), by the covariances of their coefficients: of hazards without the
# baseline, as for survival::coxph().
vif.dp_result <- function(mod, ...) {
  .no_more("vif", ...)
  known <- .terms_of(mod)
  if (known$parts > 1L) .refuse("vif() is for one linear predictor: each cause, or level, has one of its own", sys.call())
  kept <- known$assign > 0L
  places <- known$covariates[kept]
  own <- known$assign[kept]
  numbers <- unique(own)
  if (length(numbers) < 2L) .refuse("vif() compares at least two terms, and the model has fewer", sys.call())
  correlations <- stats::cov2cor(unclass(mod$vcov)[places, places])
  inflation <- vapply(numbers, function(number) {
    here <- own == number
    det(correlations[here, here, drop = FALSE]) * det(correlations[!here, !here, drop = FALSE]) / det(correlations)
  }, 0)
  df <- tabulate(own)[numbers]
  names(inflation) <- attr(.plain_terms(mod), "term.labels")[numbers]
  if (all(df == 1L)) inflation else cbind(GVIF = inflation, Df = df, `GVIF^(1/(2*Df))` = inflation^(1 / (2 * df)))
}

check_collinearity.dp_result <- function(x, ...) {
  known <- .terms_of(x)
  if (known$loss == "hazard" || known$parts > 1L) {
    .refuse("check_collinearity() knows models with one intercept only: car::vif() knows those of hazards", sys.call())
  }
  NextMethod()
}

standardize_parameters.dp_result <- function(model, ...) .refits("standardize_parameters")

# broom.helpers, by which gtsummary::tbl_regression() knows a model: what its coefficients are, and that the rows of the
# study, which are public, are not those that a private fit counts.
model_get_coefficients_type.dp_result <- function(model) {
  known <- .terms_of(model)
  switch(paste(known$loss, known$link),
    "logistic logit" = , "bernoulli logit" = "logistic",
    "hazard logit" = "logistic", "hazard cloglog" = "prop_hazard", "poisson log" = "poisson", "generic"
  )
}

model_get_n.dp_result <- function(model) NULL

model_get_assign.dp_result <- function(model) {
  design <- stats::model.matrix(model)
  structure(attr(design, "assign"), model_matrix = design)
}

get_statistic.dp_result <- function(x, ...) {
  structure(data.frame(Parameter = names(x$coefficients), Statistic = unname(x$coefficients / x$bse)), statistic = "z-statistic")
}
