# Regressions of outcomes that are not binary: least squares, Huber's estimate, quantiles, counts, rates.

dp_linear <- function(formula, data, epsilon, ..., loss = "squares", weights = NULL, offset = NULL, row_norm = NULL,
                      delta = 0, mechanism = "auto", se_share = 0, replicate = 1) {
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  .fit("linear", formula, data, match.call(), list(
    epsilon = epsilon, loss = loss, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, se_share = se_share, replicate = replicate, ...
  ))
}

dp_quantile <- function(formula, data, epsilon, ..., q = 0.5, width = NULL, weights = NULL, offset = NULL,
                        row_norm = NULL, delta = 0, mechanism = "auto", replicate = 1) {
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  .fit("quantile", formula, data, match.call(), list(
    epsilon = epsilon, q = q, width = width, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, replicate = replicate, ...
  ))
}

dp_mestimate <- function(formula, data, epsilon, loss, ..., weights = NULL, offset = NULL, row_norm = NULL, delta = 0,
                         mechanism = "auto", se_share = 0, replicate = 1) {
  .check_data(data, sys.call())
  .check_epsilon(epsilon, sys.call())
  if (missing(loss)) .refuse("loss must be given: \"poisson\", \"exponential\", \"huber\", or list(name = , ...)", sys.call())
  .fit("mestimate", formula, data, match.call(), list(
    epsilon = epsilon, loss = loss, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, se_share = se_share, replicate = replicate, ...
  ))
}

predict.dp_linear <- function(object, newdata, interval = c("none", "confidence"), level = 0.95, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  ci <- match.arg(interval) == "confidence"
  found <- .py("predict", list(result = object, newdata = newdata, ci = ci, alpha = 1 - level))
  if (ci) stats::setNames(found, c("fit", "lwr", "upr")) else found
}

predict.dp_quantile <- predict.dp_linear

predict.dp_mestimator <- predict.dp_linear
