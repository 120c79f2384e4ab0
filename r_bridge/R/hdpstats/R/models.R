# Models: formulas cross as text and meet one parser; only the functions with an epsilon spend.

dp_logit <- function(formula, data, epsilon, ..., weights = NULL, offset = NULL, row_norm = NULL, delta = 0,
                     mechanism = "auto", se_share = "auto", replicate = 1, description = NULL, describe = TRUE,
                     correlation = "person", weighting = NULL) {
  .fit("logit", formula, data, epsilon, match.call(), list(
    weights = weights, offset = offset, row_norm = row_norm, delta = delta, mechanism = mechanism,
    se_share = se_share, replicate = replicate, description = description, describe = describe,
    correlation = correlation, weighting = weighting, ...
  ))
}

dp_hazard <- function(formula, data, epsilon, ..., intervals = 24, baseline = c("log_spline", "spline", "dummies"),
                      df = NULL, knots = NULL, link = "logit", cap = NULL, weights = NULL, offset = NULL,
                      row_norm = NULL, delta = 0, mechanism = "auto", se_share = "auto", replicate = 1,
                      description = NULL, describe = TRUE, weighting = NULL) {
  .fit("hazard", formula, data, epsilon, match.call(), list(
    intervals = intervals, baseline = .first(baseline, c("log_spline", "spline", "dummies")), df = df,
    knots = knots, link = link, cap = cap, weights = weights, offset = offset,
    row_norm = row_norm, delta = delta, mechanism = mechanism, se_share = se_share, replicate = replicate,
    description = description, describe = describe, weighting = weighting, ...
  ))
}

dp_distribution <- function(formula, data, epsilon, family, ..., ranges = NULL, delta = 0, mechanism = "auto", replicate = 1) {
  if (missing(family)) {
    .refuse("family must be given: \"bernoulli\", \"poisson\", \"normal\", \"exponential\" or \"gamma\"", sys.call())
  }
  .fit("distribution", formula, data, epsilon, match.call(), list(
    family = family, ranges = ranges, delta = delta, mechanism = mechanism, replicate = replicate, ...
  ))
}

dp_fit_public <- function(formula, data, ..., model = NULL) {
  if (!missing(formula) && inherits(formula, "dp_study")) return(.study_second(match.call(), formula, parent.frame()))
  .check_data(data, sys.call())
  options <- .given_options(match.call(expand.dots = FALSE)$..., data, parent.frame(), sys.call())
  .made(paste0(.model(formula, model, sys.call()), "_public"), formula, data, match.call(), options)
}

dp_plan <- function(formula, data, epsilon = if (is.null(std_error)) c(0.1, 0.5, 1, 3), ..., std_error = NULL,
                    n = NULL, delta = 0, mechanism = "auto", se_share = "auto", description = NULL, describe = TRUE, model = NULL) {
  if (!missing(formula) && inherits(formula, "dp_study")) return(.study_second(match.call(), formula, parent.frame()))
  if (inherits(formula, "dp_curves_request")) {
    .only(match.call(), c("formula", "epsilon", "n"), sys.call())
    return(do.call(dp_survfit_plan, c(unclass(formula), list(epsilon = if (missing(epsilon)) c(0.1, 0.3, 1) else epsilon, n = n))))
  }
  if (inherits(formula, c("dp_description_request", "dp_balance_request"))) return(.plan_of_request(formula, epsilon, n, missing(epsilon), match.call(), sys.call()))
  if (inherits(formula, "dp_effect_request")) {
    .only(match.call(), c("formula", "epsilon", "n"), sys.call())
    return(dp_effect_plan(formula, epsilon = if (missing(epsilon)) c(0.1, 0.3, 1) else epsilon, n = n))
  }
  .check_data(data, sys.call())
  if (identical(model, "survfit")) {
    .only(match.call(), c("formula", "data", "epsilon", "n", "model", "times", "weights", "recorded"), sys.call())
    return(dp_survfit_plan(formula, data, epsilon = if (missing(epsilon)) c(0.1, 0.3, 1) else epsilon, n = n, ...))
  }
  options <- .given_options(match.call(expand.dots = FALSE)$..., data, parent.frame(), sys.call())
  .py(paste0(.model(formula, model, sys.call()), "_plan"), c(list(
    formula = .formula_text(formula), data = data, epsilon = epsilon, std_error = std_error, n = n, delta = delta,
    mechanism = mechanism, se_share = if (!identical(se_share, "auto")) se_share, description = description,
    describe = if (!isTRUE(describe)) describe
  ), options))
}

# Call a function of (formula, data) again that was given the study first, as in study |> dp_plan(outcome ~ terms).
.study_second <- function(call, study, frame) {
  if (is.null(call$data)) .refuse("formula must be given beside the study: outcome ~ terms", call)
  held <- new.env(parent = frame)
  held$.study <- study
  call$formula <- call$data
  call$data <- quote(.study)
  eval(call, held)
}

# A request for a description is planned as it is: its columns and groups are in it.
.plan_of_request <- function(request, epsilon, n, default, call, user) {
  .only(call, c("formula", "epsilon", "n"), user)
  dp_describe_plan(request, epsilon = if (default) c(0.1, 0.3, 1) else epsilon, n = n)
}

.only <- function(call, known, user) {
  unknown <- setdiff(names(call)[-1L], known)
  if (length(unknown)) .refuse(paste0(unknown[[1L]], " is no argument of this plan; it takes ", paste(known, collapse = ", ")), user)
}

# A fit that costs epsilon. What is not given is refused before anything else.
.fit <- function(name, formula, data, epsilon, call, options) {
  if (!missing(formula) && !missing(data) && inherits(formula, "dp_study")) { # study |> dp_logit(outcome ~ terms, epsilon = 1)
    study <- formula
    formula <- data
    data <- study
    call[c("formula", "data")] <- call[c("data", "formula")]
  }
  .check_data(data, sys.call(-1L))
  .check_epsilon(epsilon, sys.call(-1L))
  frame <- parent.frame() # the options are evaluated there, after this
  named <- .column_names(as.list(call)[c("weights", "offset", "subset", "na.action", "contrasts")], data, sys.call(-1L))
  list2env(named, frame)
  .made(name, formula, data, call, c(list(epsilon = epsilon), options))
}

.made <- function(name, formula, data, call, options) {
  result <- .py(name, c(list(formula = .formula_text(formula, call), data = data), options), call = call)
  result$call <- .without_epsilon(.without_data(call))
  result
}

# The call that a result keeps: without its epsilon, so that no function that evaluates it again, of any package, can
# spend.
.without_epsilon <- function(call) {
  call$epsilon <- NULL
  call
}

# The text of a formula, with backticks around names beyond ASCII, which R itself takes for plain ones. One that is text
# already stays as it is; values in its place are refused here.
.formula_text <- function(formula, call = NULL) {
  if (is.null(formula) || (is.character(formula) && length(formula) == 1L)) return(formula)
  if (!is.call(formula) || !.is_code(formula)) {
    .refuse("formula must be a formula or its text, without values in it: outcome ~ terms", call)
  }
  odd <- Filter(function(name) any(utf8ToInt(enc2utf8(name)) > 127L), unique(all.names(formula)))
  stand_ins <- sprintf(".hdpstats_name_%d.", seq_along(odd))
  plain <- do.call(substitute, list(formula, stats::setNames(lapply(stand_ins, as.name), odd)))
  text <- paste(deparse(plain, width.cutoff = 500L), collapse = " ")
  for (i in seq_along(odd)) text <- gsub(stand_ins[[i]], paste0("`", odd[[i]], "`"), text, fixed = TRUE)
  text
}

# Whether a call consists of names and single constants.
.is_code <- function(call) {
  all(vapply(as.list(call), function(part) {
    if (is.call(part)) .is_code(part) else is.name(part) || is.null(part) || (is.atomic(part) && length(part) == 1L)
  }, NA))
}

# The first of the choices that a function offers, where the user has made none.
.first <- function(x, choices) if (identical(x, choices)) choices[[1L]] else x

.models <- c("logit", "hazard", "linear", "quantile", "mestimate", "poisson", "multinomial", "distribution")

# The model that a formula asks for: a response Surv(...) is one of hazards.
.model <- function(formula, model, call = NULL) {
  if (!is.null(model)) return(match.arg(model, .models))
  if (grepl("^\\s*(survival::)?Surv\\s*\\(", .formula_text(formula, call))) "hazard" else "logit"
}

# NULL is for Python to refuse, as anywhere else.
.check_data <- function(data, call) {
  if (missing(data) || !(is.null(data) || inherits(data, "dp_study"))) {
    .refuse("data must be a study: dp_study(private = , public = , schema = , budget = )", call)
  }
}

.check_epsilon <- function(epsilon, call) {
  if (missing(epsilon) || is.null(epsilon)) {
    .refuse("epsilon must be given: what the release may cost each person; dp_fit_public() fits to public rows for free", call)
  }
}

as.data.frame.dp_plan <- function(x, row.names = NULL, optional = FALSE, ...) .broom_names(x$frame)
