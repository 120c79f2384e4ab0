# Sites in other processes, several sites in one study, and results in groups of groups.

dp_connect <- function(url, token, ca = NULL, cert = NULL, timeout = 600) {
  call <- quote(dp_connect()) # without what was given: a message is no place for a token
  if (!is.null(cert) && length(cert) != 2L) .refuse("cert must name two files: your certificate and its key", call)
  .py("connect", list(
    url = url, token = token, ca = .path(ca), timeout = timeout,
    cert = if (!is.null(cert)) c(.path(cert[[1L]]), .path(cert[[2L]]))
  ), call = call)
}

dp_dummy <- function(site, n = 100, seed = 0) {
  if (!inherits(site, "dp_site")) .refuse("site must be what dp_connect() returned", sys.call())
  found <- .py("dummy", list(site = site, rows = n, seed = seed))
  attr(found, "hdpstats") <- "invented"
  found
}

dp_request <- function(model, formula, data, epsilon, path, ...) {
  if (!missing(model) && inherits(model, "dp_study")) { # study |> dp_request("logit", event3 ~ age, ...)
    study <- model
    model <- formula
    formula <- data
    data <- study
  }
  .check_study(data, sys.call())
  described <- identical(model, "describe") && !inherits(formula, "formula")
  .py("request_file", list(
    model = model, data = data, epsilon = epsilon, path = .path(path), ...,
    formula = if (!described) .formula_text(formula, sys.call()),
    columns = if (described) .columns(formula, sys.call())
  ))
  invisible(path)
}

dp_sites <- function(x) {
  if (!inherits(x, "dp_result")) .refuse("x must be a result, as of dp_logit() or dp_hazard()", sys.call())
  x$sites
}

dp_aggregate <- function(results, between = NULL, interval = c("model", "across_sites"), name = "all") {
  made <- list(results = results, between = between, interval = .first(interval, c("model", "across_sites")), name = name)
  found <- .py("aggregate", made)
  structure(c(unclass(found), made), class = "dp_aggregate") # what it was made of, so that it outlives the session
}

coef.dp_aggregate <- coef.dp_result

vcov.dp_aggregate <- vcov.dp_result

confint.dp_aggregate <- confint.dp_result

as.data.frame.dp_aggregate <- function(x, row.names = NULL, optional = FALSE, conf.level = 0.95, ...) {
  .broom_names(.py("aggregate_table", list(aggregate = x, conf_level = conf.level)))
}

tidy.dp_aggregate <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  dp_tidy(x, conf.int = conf.int, conf.level = conf.level, exponentiate = exponentiate)
}

plot.dp_aggregate <- function(x, term = NULL, level = 0.95, exponentiate = FALSE, xlab = NULL, ...) {
  table <- as.data.frame.dp_aggregate(x, conf.level = level)
  table <- data.frame(label = table$name, depth = table$level, group = table$members > 0L,
                      covariate = table$term != "(Intercept)", table[c("term", "estimate", "std.error", "conf.low", "conf.high")])
  .draw_forest(table, term = term, level = level, exponentiate = exponentiate, xlab = xlab, call = sys.call(), ...)
  invisible(x)
}
