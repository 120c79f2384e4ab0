# Regressions of outcomes that are not binary: least squares, Huber's estimate, quantiles, counts, rates, categories.

dp_linear <- function(formula, data, epsilon, ..., loss = "squares", weights = NULL, offset = NULL, row_norm = NULL,
                      delta = 0, mechanism = "auto", se_share = "auto", replicate = 1, description = NULL,
                      describe = TRUE, correlation = "person", weighting = NULL) {
  .fit("linear", formula, data, epsilon, match.call(), list(
    loss = loss, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, se_share = se_share, replicate = replicate,
    description = description, describe = describe, correlation = correlation, weighting = weighting, ...
  ))
}

dp_quantile <- function(formula, data, epsilon, ..., q = 0.5, width = NULL, weights = NULL, offset = NULL,
                        row_norm = NULL, delta = 0, mechanism = "auto", replicate = 1, description = NULL,
                        describe = TRUE, correlation = "person") {
  .fit("quantile", formula, data, epsilon, match.call(), list(
    q = q, width = width, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, replicate = replicate,
    description = description, describe = describe, correlation = correlation, ...
  ))
}

dp_mestimate <- function(formula, data, epsilon, loss, ..., weights = NULL, offset = NULL, row_norm = NULL, delta = 0,
                         mechanism = "auto", se_share = "auto", replicate = 1, description = NULL,
                         describe = TRUE, correlation = "person", weighting = NULL) {
  if (missing(loss)) .refuse("loss must be given: \"poisson\", \"exponential\", \"huber\", or list(name = , ...)", sys.call())
  .fit("mestimate", formula, data, epsilon, match.call(), list(
    loss = loss, weights = weights, offset = offset, row_norm = row_norm, delta = delta,
    mechanism = mechanism, se_share = se_share, replicate = replicate,
    description = description, describe = describe, correlation = correlation, weighting = weighting, ...
  ))
}

dp_poisson <- function(formula, data, epsilon, ..., cap = NULL, weights = NULL, offset = NULL, row_norm = NULL, delta = 0,
                       mechanism = "auto", se_share = "auto", replicate = 1, description = NULL,
                       describe = TRUE, correlation = "person", weighting = NULL) {
  .fit("poisson", formula, data, epsilon, match.call(), list(
    cap = cap, weights = weights, offset = offset, row_norm = row_norm, delta = delta, mechanism = mechanism,
    se_share = se_share, replicate = replicate,
    description = description, describe = describe, correlation = correlation, weighting = weighting, ...
  ))
}

dp_multinomial <- function(formula, data, epsilon, ..., weights = NULL, row_norm = NULL, delta = 0, mechanism = "auto",
                           se_share = "auto", replicate = 1, description = NULL,
                           describe = TRUE, correlation = "person") {
  .fit("multinomial", formula, data, epsilon, match.call(), list(
    weights = weights, row_norm = row_norm, delta = delta, mechanism = mechanism, se_share = se_share,
    replicate = replicate,
    description = description, describe = describe, correlation = correlation, ...
  ))
}

predict.dp_linear <- function(object, newdata, interval = c("none", "confidence"), level = 0.95, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  .predicted(object, newdata, interval = match.arg(interval), level = level)
}

predict.dp_quantile <- predict.dp_linear

predict.dp_mestimator <- predict.dp_linear
