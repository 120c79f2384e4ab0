# Models: formulas cross as text and meet one parser; only the functions with an epsilon spend.

dp_logit <- function(formula, data, epsilon, ..., weights = NULL, offset = NULL, row_norm = NULL, delta = 0,
                     mechanism = "auto", se_share = 0, replicate = 1) {
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  .fit("logit", formula, data, match.call(), list(
    epsilon = epsilon, weights = weights, offset = offset, row_norm = row_norm, delta = delta, mechanism = mechanism,
    se_share = se_share, replicate = replicate, ...
  ))
}

dp_hazard <- function(formula, data, epsilon, ..., intervals = 24, baseline = c("spline", "dummies"), df = 3,
                      knots = NULL, link = c("logit", "cloglog", "probit"), cap = NULL, weights = NULL, offset = NULL,
                      row_norm = NULL, delta = 0, mechanism = "auto", se_share = 0, replicate = 1) {
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  .fit("hazard", formula, data, match.call(), list(
    epsilon = epsilon, intervals = intervals, baseline = baseline[[1L]], df = df, knots = knots, link = link[[1L]],
    cap = cap, weights = weights, offset = offset, row_norm = row_norm, delta = delta, mechanism = mechanism,
    se_share = se_share, replicate = replicate, ...
  ))
}

dp_fit_public <- function(formula, data, ..., model = NULL) {
  .check_data(data, sys.call())
  .fit(paste0(.model(formula, model), "_public"), formula, data, match.call(), list(...))
}

dp_plan <- function(formula, data, epsilon = c(0.1, 0.5, 1, 3), ..., n = NULL, se_share = 0, model = NULL) {
  .check_data(data, sys.call())
  .py(paste0(.model(formula, model), "_plan"), list(
    formula = .formula_text(formula), data = data, epsilon = epsilon, n = n, se_share = se_share, ...
  ))
}

.fit <- function(name, formula, data, call, options) {
  result <- .py(name, c(list(formula = .formula_text(formula), data = data), options), call = call)
  result$call <- .without_data(call)
  result
}

# The text of a formula; one that is text already stays as it is.
.formula_text <- function(formula) {
  if (is.character(formula)) formula else paste(deparse(formula, width.cutoff = 500L), collapse = " ")
}

# The model that a formula asks for: a response Surv(...) is one of hazards.
.model <- function(formula, model) {
  if (!is.null(model)) return(match.arg(model, c("logit", "hazard")))
  if (grepl("^\\s*(survival::)?Surv\\s*\\(", .formula_text(formula))) "hazard" else "logit"
}

.check_data <- function(data, call) {
  if (!inherits(data, "dp_study")) {
    .refuse("data must be a study: dp_study(private = , public = , schema = , budget = )", call)
  }
}

.check_epsilon <- function(epsilon, call) {
  if (missing(epsilon) || is.null(epsilon)) {
    .refuse("epsilon must be given: what the release may cost each person; dp_fit_public() fits to public rows for free", call)
  }
}

print.dp_plan <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

as.data.frame.dp_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)
