# Methods of results. A result carries its JSON text: it outlives the session and the Python that made it.

print.dp_result <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat(x$kind, if (is.null(x$guarantee)) ", fitted to public rows" else paste0(", ", x$guarantee), "\n", sep = "")
  if (is.null(x$call)) cat("\nFormula: ", x$formula, "\n", sep = "") else cat("\nCall:\n", .shown(x$call), "\n", sep = "")
  if (length(x$sites$site) > 1L) {
    cat("\nSites: ", paste0(x$sites$site, ifelse(x$sites$status == "answered", "", paste0(" (", x$sites$status, ")")), collapse = ", "),
        "\n", sep = "")
  }
  cat("\nCoefficients:\n")
  print(cbind(Estimate = x$coefficients, `Std. Error` = x$bse), digits = digits)
  invisible(x)
}

.shown <- function(call) paste(deparse(call), collapse = "\n")

coef.dp_result <- function(object, ...) object$coefficients

vcov.dp_result <- function(object, ...) object$vcov

nobs.dp_result <- function(object, ...) object$nobs

# The formula is made by the parser alone: nothing of a result that came from elsewhere is evaluated.
formula.dp_result <- function(x, ...) {
  parsed <- str2lang(x$formula)
  if (!is.call(parsed) || !identical(parsed[[1L]], quote(`~`))) .refuse("this result has no formula that R can read", sys.call())
  structure(parsed, class = "formula", .Environment = globalenv())
}

confint.dp_result <- function(object, parm, level = 0.95, ...) {
  .no_more("confint", ...)
  limits <- .py("confint", list(result = object, level = level))[names(object$coefficients), , drop = FALSE]
  tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
  colnames(limits) <- paste(format(100 * tails, trim = TRUE, scientific = FALSE, digits = 3), "%")
  if (missing(parm)) return(limits)
  if (is.character(parm) && !all(parm %in% rownames(limits))) {
    .refuse(paste("parm must be among", paste0("'", rownames(limits), "'", collapse = ", ")), sys.call())
  }
  limits[parm, , drop = FALSE]
}

# Fit again with another formula or other arguments. Each fit costs privacy: only the user may do that, and gives
# the epsilon. Functions that call update() for themselves are refused, whether or not they evaluate what they get.
update.dp_result <- function(object, formula., ..., epsilon, evaluate = TRUE) {
  call <- object$call
  if (is.null(call)) .refuse("update needs the call of a fit, which this result has not kept", sys.call())
  free <- grepl("(^|:)dp_(fit_public|sample_fit)$", paste(deparse(call[[1L]]), collapse = ""))
  if (!free && (missing(epsilon) || is.null(epsilon))) {
    .refuse(paste0(
      "update() fits again, and every fit costs privacy: give its epsilon, as in update(fit, . ~ . - age, epsilon = 1). ",
      "Functions that call update() themselves, such as lmtest::waldtest() or sandwich::vcovBS(), would spend without ",
      "notice; tests of coefficients need no new fit: summary(), confint(), or coef() with vcov()"
    ), quote(update()))
  }
  call <- .without_epsilon(call)
  if (!missing(formula.)) call$formula <- .new_formula(object, formula.)
  extras <- match.call(expand.dots = FALSE)$...
  for (name in names(extras)) call[[name]] <- extras[[name]]
  if (!missing(epsilon)) call$epsilon <- epsilon
  if (evaluate) eval(call, parent.frame()) else call
}

.new_formula <- function(object, formula.) {
  changed <- stats::update.formula(formula(object), formula.)
  attr(changed, ".Environment") <- NULL
  structure(changed, class = NULL)
}

# Case weights are private; which column holds them is not.
weights.dp_result <- function(object, ...) {
  .refuse("weights() would read private rows: a result has none; the column of weights is an argument of its call", sys.call())
}

# What fits again, or reads the rows of a fit, under other names.
.refits <- function(generic) {
  .refuse(paste0(
    generic, "() would fit again to private rows, or read them: nothing was spent. Fit what you want to compare by ",
    "update(fit, ..., epsilon = ), or use summary(), confint() and vcov()"
  ), call(generic))
}

add1.dp_result <- function(object, scope, ...) .refits("add1")

drop1.dp_result <- function(object, scope, ...) .refits("drop1")

extractAIC.dp_result <- function(fit, scale, k = 2, ...) .refits("extractAIC")

profile.dp_result <- function(fitted, ...) .refits("profile")

simulate.dp_result <- function(object, nsim = 1, seed = NULL, ...) .refits("simulate")

# What would need the private rows does not exist, and must not be NULL silently.
.not_released <- function(object, reason, instead) {
  generic <- sub("[.]dp_result$", "", deparse(sys.call(-1L)[[1L]])[[1L]])
  text <- if (is.null(object$guarantee)) "a result holds no rows. Instead: fit the model to the public rows by stats::glm() or the like"
  else paste0(reason, ". Instead: ", instead)
  .refuse(paste0(generic, "() has no value here: ", text), sys.call(-1L))
}

.PER_PERSON <- "it has a number for each person, and no noise of a sensible size would hide a person in it"
.OF_ALL_ROWS <- "it is computed from the private rows, and was not released"
.COMPARE <- "compare models by confint(), or by predict(fit, newdata = ) on public rows with the outcome"

residuals.dp_result <- function(object, ...) {
  .not_released(object, .PER_PERSON, "predict(fit, newdata = ) predicts for public rows; a function that wants degrees of freedom takes df = Inf")
}

fitted.dp_result <- function(object, ...) .not_released(object, .PER_PERSON, "predict(fit, newdata = ) predicts for public rows")

logLik.dp_result <- function(object, ...) .not_released(object, .OF_ALL_ROWS, .COMPARE)

deviance.dp_result <- function(object, ...) .not_released(object, .OF_ALL_ROWS, .COMPARE)
