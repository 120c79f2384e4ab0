# Methods of results. A result carries its JSON text: it outlives the session and the Python that made it.

print.dp_result <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat(x$model, if (is.null(x$guarantee)) ", fitted to public rows" else paste0(", ", x$guarantee), "\n", sep = "")
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
  limits <- .py("confint", list(result = object, level = level))
  tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
  colnames(limits) <- paste(format(100 * tails, trim = TRUE, scientific = FALSE, digits = 3), "%")
  if (missing(parm)) limits else limits[parm, , drop = FALSE]
}

summary.dp_result <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  table <- .py("tidy", list(result = object))
  columns <- c(Estimate = "estimate", `Std. Error` = "std_error", `z value` = "statistic", `Pr(>|z|)` = "p_value")
  coefficients <- as.matrix(table[columns])
  dimnames(coefficients) <- list(table$term, names(columns))
  text <- .py("summary_text", list(result = object, alpha = 1 - level))
  structure(list(call = object$call, coefficients = coefficients, text = text), class = "summary.dp_result")
}

print.summary.dp_result <- function(x, ...) {
  if (!is.null(x$call)) cat("Call:\n", .shown(x$call), "\n\n", sep = "")
  cat(x$text, "\n", sep = "")
  invisible(x)
}

# What would need the private rows does not exist, and must not be NULL without a word.
residuals.dp_result <- function(object, ...) .py("refused", list(result = object, name = "resid"))

fitted.dp_result <- function(object, ...) .py("refused", list(result = object, name = "fittedvalues"))

logLik.dp_result <- function(object, ...) .py("refused", list(result = object, name = "llf"))

deviance.dp_result <- function(object, ...) .py("refused", list(result = object, name = "deviance"))

df.residual.dp_result <- function(object, ...) .py("refused", list(result = object, name = "df_resid"))
