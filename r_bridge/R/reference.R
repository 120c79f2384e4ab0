# R's own fits, for r_bridge.reference.
# What formulas may use beside the columns of the frame: base R and the exports of three packages, nothing of a session.
available <- new.env(parent = baseenv())
for (package in c("stats", "splines", "survival")) {
  for (name in getNamespaceExports(package)) assign(name, getExportedValue(package, name), envir = available)
}
lockEnvironment(available, bindings = TRUE)

refuse <- function(message, argument) {
  condition <- list(message = message, call = NULL, argument = argument)
  stop(structure(condition, class = c("dp_argument_error", "error", "condition")))
}

# Treatment contrasts also for ordered factors, as in hdpstats; rows with missing values drop.
settled <- function(fit) {
  old <- options(contrasts = rep("contr.treatment", 2L), na.action = "na.omit")
  on.exit(options(old))
  fit
}

read_formula <- function(text, offset = NULL) {
  found <- tryCatch(
    parse(text = text, keep.source = FALSE),
    error = function(e) refuse(paste("formula cannot be read by R:", conditionMessage(e)), "formula")
  )
  if (length(found) != 1L || !is.call(found[[1L]]) || !identical(found[[1L]][[1L]], quote(`~`)) || length(found[[1L]]) != 3L) {
    refuse("formula must be one R formula with two sides, such as 'y ~ age + factor(size)'", "formula")
  }
  formula <- eval(found[[1L]], new.env(parent = available))
  if (!is.null(offset)) formula[[3L]] <- call("+", formula[[3L]], call("offset", as.name(offset)))
  formula
}

# The columns that a formula names; all of them where it says "."
columns <- function(text, names, weights, offset) {
  named <- all.vars(read_formula(text))
  constant <- vapply(named, function(each) exists(each, baseenv()) && !is.function(get(each, baseenv())), NA)
  wanted <- c(named[!constant | named %in% names], weights, offset)
  absent <- setdiff(wanted, c(names, "."))
  if (length(absent)) {
    which <- if (absent[[1L]] %in% named) "the formula" else if (identical(absent[[1L]], weights)) "weights" else "offset"
    has <- paste(c(utils::head(names, 20L), if (length(names) > 20L) "..."), collapse = ", ")
    refuse(sprintf("the frame has no column '%s', which %s names; it has %s", absent[[1L]], which, has), "frame")
  }
  if ("." %in% wanted) names else unique(wanted)
}

tidy <- function(estimate, errors, level, df = Inf) {
  half <- stats::qt((1 + level) / 2, df) * errors
  data.frame(
    term = names(estimate), estimate = estimate, std_error = errors, statistic = estimate / errors,
    p_value = 2 * stats::pt(-abs(estimate / errors), df), conf_low = estimate - half, conf_high = estimate + half,
    row.names = NULL
  )
}

# Standard errors by the names of all coefficients: NA where one is not estimated.
errors_of <- function(estimate, variance) {
  ifelse(is.na(estimate), NA_real_, sqrt(diag(variance))[names(estimate)])
}

name_or_null <- function(column) if (!is.null(column)) as.name(column)

cox <- function(text, frame, ties, weights, offset, robust, level) settled({
  arguments <- list(
    read_formula(text, offset), data = frame, weights = name_or_null(weights), ties = ties, robust = robust,
    control = survival::coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50)
  )
  fit <- do.call(survival::coxph, Filter(Negate(is.null), arguments))
  if (inherits(fit, "coxphms")) refuse("the event has several kinds: name one, as in Surv(time, kind == 'relapse')", "formula")
  if (is.null(fit$coefficients)) refuse("formula has no covariate to fit", "formula")
  likelihood <- fit$loglik
  list(table = tidy(fit$coefficients, errors_of(fit$coefficients, stats::vcov(fit)), level), facts = list(
    nobs = fit$n, events = as.integer(fit$nevent), log_likelihood = likelihood[[length(likelihood)]],
    log_likelihood_null = likelihood[[1L]], robust = !is.null(fit$naive.var), ties = ties
  ))
})

# glm stops when the deviance does; one more step from there makes the coefficients exact.
generalised <- function(text, frame, family, link, weights, offset, level) settled({
  kind <- getExportedValue("stats", family)
  arguments <- list(
    read_formula(text, offset), data = frame, weights = name_or_null(weights),
    family = if (is.null(link)) kind() else kind(link), control = stats::glm.control(epsilon = 1e-11, maxit = 100)
  )
  arguments <- Filter(Negate(is.null), arguments)
  fit <- do.call(stats::glm, arguments)
  if (!anyNA(fit$coefficients) && fit$converged) {
    fit <- suppressWarnings(do.call(stats::glm, c(arguments, list(start = fit$coefficients))))
  }
  df <- if (fit$family$family %in% c("binomial", "poisson")) Inf else fit$df.residual
  list(table = tidy(fit$coefficients, errors_of(fit$coefficients, stats::vcov(fit)), level, df), facts = list(
    family = fit$family$family, link = fit$family$link, nobs = length(fit$y), deviance = fit$deviance,
    null_deviance = fit$null.deviance, df_residual = fit$df.residual, dispersion = summary(fit)$dispersion,
    converged = fit$converged
  ))
})

kaplan_meier <- function(text, frame, times, weights, conf_type, level) settled({
  arguments <- list(
    read_formula(text), data = frame, weights = name_or_null(weights), conf.type = conf_type, conf.int = level
  )
  fit <- do.call(survival::survfit, Filter(Negate(is.null), arguments))
  if (inherits(fit, "survfitms")) refuse("the event has several kinds: name one, as in Surv(time, kind == 'relapse')", "formula")
  found <- if (is.null(times)) summary(fit, censored = TRUE) else summary(fit, times = times, extend = TRUE)
  single <- is.null(fit$strata)
  strata <- if (single) rep("all", length(found$time)) else as.character(found$strata)
  ends <- vapply(split(fit$time, if (single) rep("all", length(fit$time)) else rep(names(fit$strata), fit$strata)), max, 0)
  table <- data.frame(
    time = found$time, n_risk = found$n.risk, n_event = found$n.event, survival = found$surv,
    std_error = found$std.err, conf_low = found$lower, conf_high = found$upper, strata = trimws(strata)
  )
  table <- table[found$time <= ends[strata], ]
  rownames(table) <- NULL
  list(table = table, facts = list(nobs = sum(fit$n), conf_type = conf_type))
})

# ---- Discrete-time hazards ------------------------------------------------------------------------------------------

# For each link: the derivative of the mean over the mean (one) and over one minus the mean (zero), and their logarithms.
links <- list(
  logit = list(
    one = function(eta) stats::plogis(-eta), zero = function(eta) stats::plogis(eta),
    log_one = function(eta) stats::plogis(eta, log.p = TRUE), log_zero = function(eta) stats::plogis(-eta, log.p = TRUE),
    of = stats::qlogis
  ),
  cloglog = list(
    one = function(eta) { e <- exp(pmax(eta, -700)); e * exp(-e) / -expm1(-e) }, zero = function(eta) exp(eta),
    log_one = function(eta) log(-expm1(-exp(eta))), log_zero = function(eta) -exp(eta),
    of = function(mean) log(-log1p(-mean))
  ),
  probit = list(
    one = function(eta) exp(stats::dnorm(eta, log = TRUE) - stats::pnorm(eta, log.p = TRUE)),
    zero = function(eta) exp(stats::dnorm(eta, log = TRUE) - stats::pnorm(-eta, log.p = TRUE)),
    log_one = function(eta) stats::pnorm(eta, log.p = TRUE), log_zero = function(eta) stats::pnorm(-eta, log.p = TRUE),
    of = stats::qnorm
  )
)

# Natural cubic spline of s / q (Nguyen and Hui 2017, section 3.2), or of the logarithm of time (Royston and Parmar 2002).
spline_basis <- function(q, knots, baseline) {
  t <- seq_len(q) / q
  if (baseline == "log_spline") {
    t <- log1p(100 * (seq_len(q) - 0.5) / q) / log(101)
    knots <- log1p(100 * knots) / log(101)
  }
  e <- length(knots)
  cubes <- pmax(outer(t, knots, "-"), 0)^3
  d <- sweep(cubes[, -e, drop = FALSE] - cubes[, e], 2L, knots[[e]] - knots[-e], "/")
  unname(cbind(1, t, d[, -(e - 1L), drop = FALSE] - d[, e - 1L]))
}

# 0 up to time 0, s in (c_{s-1}, c_s], q beyond the last cut point
interval_of <- function(time, cuts) {
  ifelse(time > 0, pmin(findInterval(time, cuts, left.open = TRUE) + 1L, length(cuts)), 0L)
}

# The people of a survival formula: when they are at risk, what ended that, covariates, weights and offsets.
people_of <- function(formula, frame, weights, intervals, horizon) {
  special <- stats::terms(formula, specials = c("strata", "cluster", "tt", "frailty"), data = frame)
  if (length(unlist(attr(special, "specials")))) {
    refuse("strata, cluster, tt and frailty are for Cox models: a hazard model takes plain covariates", "formula")
  }
  if (attr(special, "intercept") == 0L) refuse("a hazard model has a baseline: leave out - 1 and + 0", "formula")
  arguments <- list(special, data = frame, weights = name_or_null(weights))
  rows <- do.call(stats::model.frame, Filter(Negate(is.null), arguments))
  response <- stats::model.response(rows)
  if (!inherits(response, "Surv") || !attr(response, "type") %in% c("right", "counting")) {
    refuse("the left side must be Surv(time, event) or Surv(start, stop, event), with one kind of event", "formula")
  }
  right <- attr(response, "type") == "right"
  stop <- response[, if (right) "time" else "stop"]
  if (is.null(horizon)) horizon <- max(stop)
  cuts <- if (is.list(intervals)) c(horizon * seq_len(intervals$count - 1L) / intervals$count, horizon) else intervals
  entry <- if (right) rep(0L, length(stop)) else interval_of(response[, "start"], cuts)
  exit <- if (right) pmax(interval_of(stop, cuts), 1L) else interval_of(stop, cuts)
  weight <- stats::model.weights(rows)
  offset <- stats::model.offset(rows)
  if (is.null(weight)) weight <- rep(1, length(stop))
  used <- which(exit > entry & weight > 0)
  list(
    cuts = cuts, entry = entry[used], exit = exit[used],
    event = (response[, "status"] == 1 & stop <= cuts[[length(cuts)]])[used],
    X = stats::model.matrix(special, rows)[used, -1L, drop = FALSE], weight = weight[used],
    offset = (if (is.null(offset)) rep(0, length(stop)) else offset)[used], dropped = nrow(frame) - nrow(rows)
  )
}

# Iteratively reweighted least squares on the cells (person, interval), which are a sparse matrix: the person-period
# rows of glm() without their columns, of which those of a person are equal but for the interval's.
irls <- function(A, people, cells, event, link) {
  n <- length(people$exit)
  person <- cells@i + 1L
  interval <- rep(seq_len(ncol(cells)), diff(cells@p))
  weight <- people$weight[person]
  e <- ncol(A)
  sums <- function(x) {
    cells@x <- x
    cells
  }
  predictor <- function(theta) {
    within <- as.vector(people$X %*% theta[-seq_len(e)]) + people$offset
    as.vector(A %*% theta[seq_len(e)])[interval] + within[person]
  }
  deviance <- function(eta) {
    none <- -2 * sum(weight[!event] * link$log_zero(eta[!event]))
    none - 2 * sum(weight[event] * link$log_one(eta[event]))
  }
  equations <- function(eta) {
    zero <- link$zero(eta)
    one <- link$one(eta)
    residual <- sums(weight * ifelse(event, one, -zero))
    score <- c(
      as.vector(Matrix::crossprod(A, Matrix::colSums(residual))), crossprod(people$X, Matrix::rowSums(residual))
    )
    curved <- sums(weight * one * zero)
    corner <- as.matrix(Matrix::crossprod(A, Matrix::Diagonal(x = Matrix::colSums(curved)) %*% A))
    side <- as.matrix(Matrix::crossprod(A, Matrix::crossprod(curved, people$X)))
    below <- crossprod(people$X, Matrix::rowSums(curved) * people$X)
    list(score = score, information = rbind(cbind(corner, side), cbind(t(side), below)))
  }
  happened <- tabulate(interval[event], ncol(cells))
  present <- tabulate(interval, ncol(cells))
  crude <- link$of((happened + sum(happened) / sum(present)) / (present + 1))
  start <- Matrix::solve(Matrix::crossprod(A, Matrix::Diagonal(x = present) %*% A), Matrix::crossprod(A, present * crude))
  theta <- c(as.vector(start), rep(0, ncol(people$X)))
  eta <- predictor(theta)
  now <- deviance(eta)
  converged <- FALSE
  for (iteration in seq_len(100L)) {
    system <- equations(eta)
    step <- as.vector(inverse(system$information) %*% system$score)
    for (halving in 0:40) {
      next_eta <- predictor(theta + step / 2^halving)
      after <- deviance(next_eta)
      if (is.finite(after) && after <= now + 1e-9 * (abs(now) + 1)) break
    }
    theta <- theta + step / 2^halving
    eta <- next_eta
    now <- after
    converged <- sum(step * system$score) < 1e-18
    if (converged) break
  }
  surely <- pmin(link$log_one(eta), link$log_zero(eta)) < log(10 * .Machine$double.eps)
  if (!converged || any(surely)) {
    warning(if (!converged) "the fit did not converge; ", "fitted hazards numerically 0 or 1 occurred: some coefficients ",
            "and standard errors mean little", call. = FALSE)
  }
  variance <- inverse(equations(eta)$information)
  list(theta = theta, errors = sqrt(diag(variance)), deviance = now, iterations = iteration, converged = converged)
}

inverse <- function(information) {
  scale <- 1 / sqrt(diag(information))
  root <- tryCatch(chol(information * outer(scale, scale)), error = function(e) {
    refuse("the rows do not identify the baseline and the covariates together: drop terms, or take fewer intervals", "formula")
  })
  chol2inv(root) * outer(scale, scale)
}

hazard <- function(text, frame, intervals, horizon, baseline, knots, link, weights, offset, level) settled({
  people <- people_of(read_formula(text, offset), frame, weights, intervals, horizon)
  if (!any(people$event)) refuse("no row has an event within the horizon", "frame")
  q <- length(people$cuts)
  person <- rep(seq_along(people$exit), people$exit - people$entry)
  interval <- sequence(people$exit - people$entry, people$entry + 1L)
  e <- if (is.null(knots)) q else length(knots)
  estimate <- rep(NA_real_, e)
  free <- rep(TRUE, q)
  if (is.null(knots)) {  # an interval with no event, or with nothing else, has its limit for an estimate
    happened <- tabulate(people$exit[people$event], q)
    present <- tabulate(interval, q)
    estimate[happened == 0L & present > 0L] <- -Inf
    estimate[happened == present & present > 0L] <- Inf
    free <- happened > 0L & happened < present
    if (!any(free)) refuse("no interval has both people with and without the event: take fewer intervals", "intervals")
    bound <- which(!free)
    if (length(bound)) {
      warning("intervals without a finite coefficient, because nobody or everybody there has the event: ",
              paste(bound, collapse = ", "), call. = FALSE)
    }
  }
  inside <- free[interval]
  last <- (interval == people$exit[person])[inside]
  cells <- Matrix::sparseMatrix(
    i = person[inside], j = cumsum(free)[interval[inside]], x = as.numeric(last & people$event[person[inside]]),
    dims = c(length(people$exit), sum(free))
  )
  event <- cells@x == 1
  A <- if (is.null(knots)) Matrix::Diagonal(sum(free)) else spline_basis(q, knots, baseline)
  present <- unique(cells@i) + 1L
  all_terms <- colnames(people$X)
  checked <- qr(cbind(1, people$X[present, , drop = FALSE]), tol = 1e-9)
  kept <- sort(setdiff(checked$pivot[seq_len(checked$rank)], 1L)) - 1L
  people$X <- people$X[, kept, drop = FALSE]
  fit <- irls(A, people, cells, event, links[[link]])
  places <- c(if (is.null(knots)) which(free) else seq_len(e), e + kept)
  names <- c(paste0(if (is.null(knots)) "interval[" else "baseline[", seq_len(e), "]"), all_terms)
  estimate <- stats::setNames(c(estimate, rep(NA_real_, length(all_terms))), names)
  errors <- estimate * NA
  estimate[places] <- fit$theta
  errors[places] <- fit$errors
  list(table = tidy(estimate, errors, level), facts = list(
    link = link, cuts = people$cuts, nobs = length(people$exit), person_periods = length(interval),
    events = sum(people$event), dropped = people$dropped, deviance = fit$deviance, iterations = fit$iterations,
    converged = fit$converged
  ))
})
