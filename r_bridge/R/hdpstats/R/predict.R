# Predictions for public rows.

predict.dp_logit <- function(object, newdata, type = c("link", "response"), se.fit = FALSE,
                             interval = c("none", "confidence"), level = 0.95, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  type <- match.arg(type)
  if (se.fit) return(.with_errors(object, newdata, type, sys.call()))
  found <- .predicted(object, newdata, interval = match.arg(interval), level = level)
  if (type == "response") return(found)
  if (is.data.frame(found)) found[] <- lapply(found, stats::qlogis) else found <- stats::qlogis(found)
  found
}

# Linear predictors of rows with their standard errors: sampling and privacy noise together.
.link_with_errors <- function(object, newdata, call) {
  parts <- .linear(object, newdata, call)
  offset <- parts$known$offset
  moved <- if (is.null(offset)) 0 else newdata[[offset]]
  list(
    fit = drop(parts$design %*% parts$coefficients) + moved,
    se.fit = sqrt(rowSums((parts$design %*% parts$vcov) * parts$design))
  )
}

# What predict.glm(se.fit = TRUE) returns.
.with_errors <- function(object, newdata, type, call) {
  found <- .link_with_errors(object, newdata, call)
  if (type != "link") {
    scale <- stats::make.link(.terms_of(object)$link)
    found$se.fit <- found$se.fit * abs(scale$mu.eta(found$fit))
    found$fit <- scale$linkinv(found$fit)
  }
  c(found, residual.scale = 1)
}

# Predicted means with limits; of a multinomial model with limits a row for each row and level.
.predicted <- function(object, newdata, interval, level, call = sys.call(sys.parent())) {
  ci <- interval == "confidence"
  found <- .py("predict", list(result = object, newdata = newdata, ci = ci, alpha = 1 - level), call)
  if (!ci) return(found)
  names(found)[ncol(found) - 2:0] <- c("fit", "lwr", "upr")
  found
}

predict.dp_hazard <- function(object, newdata, type = c("survival", "hazard", "incidence", "median", "lp", "risk"),
                              times = NULL, conf.int = TRUE, level = 0.95, se.fit = FALSE, ...) {
  .no_more("predict", ...)
  .check_newdata(newdata, sys.call())
  type <- match.arg(type)
  if (type %in% c("lp", "risk")) return(.relative(object, newdata, type, se.fit, sys.call()))
  if (se.fit) .refuse("se.fit is for type = \"lp\" and \"risk\"; curves have limits: conf.int = TRUE", sys.call())
  timed <- type %in% c("survival", "incidence")
  if (!is.null(times) && !timed) .refuse("times are for type = \"survival\" and \"incidence\"", sys.call())
  .broom_names(.py(paste0("predict_", type), list(
    result = object, newdata = newdata, times = times, ci = if (type != "median") conf.int, alpha = 1 - level
  )))
}

# The covariates' part of the linear predictor, without the baseline: 0 where every covariate is 0; "risk" is its
# exponential, as survival::coxph() has it.
.relative <- function(object, newdata, type, se.fit, call) {
  found <- .link_with_errors(object, newdata, call)
  if (type == "risk") {
    found$fit <- exp(found$fit)
    found$se.fit <- found$se.fit * found$fit
  }
  if (se.fit) found else found$fit
}

# Curves as survival::survfit() has them, for its methods: print, plot, summary, quantile. Numbers at risk are not known.
# These methods hold a value until the next time, so that times are close to each other: hazards are constant within intervals.
survfit.dp_hazard <- function(formula, newdata, conf.int = 0.95, ...) {
  .no_more("survfit", ...)
  .check_newdata(newdata, sys.call())
  ends <- unique(predict.dp_hazard(formula, newdata, type = "survival", conf.int = FALSE)$time)
  curves <- predict.dp_hazard(formula, newdata, type = "survival", times = .fine_times(ends)[-1L], level = conf.int)
  rows <- unique(curves$row)
  times <- unique(curves$time)
  matrix_of <- function(name) {
    found <- matrix(curves[[name]], length(times), length(rows), dimnames = list(NULL, if (length(rows) > 1L) rows))
    if (length(rows) > 1L) found else drop(found)
  }
  surv <- matrix_of("survival")
  unknown <- surv
  unknown[] <- NA_real_
  spread <- (log(-log(matrix_of("conf.low"))) - log(-log(matrix_of("conf.high")))) / (2 * stats::qnorm((1 + conf.int) / 2))
  structure(list(
    n = formula$nobs, time = times, n.risk = rep(NA_real_, length(times)), n.event = rep(NA_real_, length(times)),
    n.censor = rep(NA_real_, length(times)), surv = surv, cumhaz = -log(surv), std.err = abs(spread * log(surv)),
    lower = matrix_of("conf.low"), upper = matrix_of("conf.high"), logse = TRUE, conf.int = conf.int, conf.type = "log-log",
    type = "right", call = formula$call
  ), class = c("dp_survfit", "survfitcox", "survfit"))
}

# What print() shows of survfit's objects, but for events and numbers at risk.
print.dp_survfit <- function(x, ...) {
  found <- lapply(stats::quantile(x, 0.5), as.vector)
  cat("Call: ", .shown(x$call), "\n\n", sep = "")
  limits <- paste0(format(x$conf.int), c("LCL", "UCL"))
  table <- matrix(unlist(found), ncol = 3L, dimnames = list(colnames(x$surv), c("median", limits)))
  if (is.null(rownames(table))) rownames(table) <- ""
  print(table)
  invisible(x)
}

# survival's basehaz() knows models of coxph() only; with this method, which is found where hdpstats is attached last or by
# its name, also those of dp_hazard().
basehaz <- function(fit, ...) UseMethod("basehaz")

basehaz.default <- function(fit, ...) survival::basehaz(fit, ...)

basehaz.dp_hazard <- function(fit, newdata = NULL, centered = FALSE, ...) {
  .no_more("basehaz", ...)
  if (!isFALSE(centered)) .refuse("centered must be FALSE: a result holds no rows; newdata has the values to centre at", sys.call())
  table <- dp_baseline_hazard(fit, newdata)
  groups <- table[setdiff(names(table), c("interval", "start", "stop", "hazard", "conf.low", "conf.high"))]
  group <- if (length(groups)) interaction(groups, drop = TRUE) else rep(1L, nrow(table))
  data.frame(hazard = stats::ave(-log1p(-table$hazard), group, FUN = cumsum), time = table$stop, groups)
}

.check_newdata <- function(newdata, call) {
  if (missing(newdata) || is.null(newdata)) {
    .refuse("newdata must be given: a result holds no rows for which it could predict", call)
  }
}

dp_predict_survival <- function(object, newdata, times = NULL, conf.int = TRUE, level = 0.95) {
  .check_newdata(newdata, sys.call())
  .broom_names(.py("predict_survival", list(
    result = object, newdata = newdata, times = times, ci = conf.int, alpha = 1 - level
  )))
}

dp_baseline_hazard <- function(object, newdata = NULL, level = 0.95) {
  .broom_names(.py("baseline_hazard", list(result = object, at = newdata, alpha = 1 - level)))
}
