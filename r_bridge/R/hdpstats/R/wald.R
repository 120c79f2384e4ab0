# Tests of terms by their coefficients and covariances: nothing is fitted again, and nothing is spent.

anova.dp_result <- function(object, ...) {
  others <- list(...)
  if (length(others)) {
    .refuse(paste0(
      "anova() of several results would compare likelihoods, which no release has: anova(fit) tests each term, ",
      "given all others, by a Wald test; nothing was spent"
    ), sys.call())
  }
  .wald_table(object, sys.call())
}

Anova.dp_result <- function(mod, type = c("III", "II", 3, 2), test.statistic = c("Chisq", "Wald"), ...) {
  .no_more("Anova", ...)
  type <- match.arg(as.character(type)[[1L]], c("III", "II", "3", "2"))
  match.arg(test.statistic)
  if (type %in% c("II", "2") && any(attr(.plain_terms(mod), "order") > 1L)) {
    .refuse("type must be 3: the model has interactions, and its terms are tested given all others", sys.call())
  }
  .wald_table(mod, sys.call())
}

# A Wald test of each term given all others: type III, with the coefficients as they are coded.
.wald_table <- function(object, call) {
  known <- .terms_of(object, call)
  labels <- attr(.plain_terms(object), "term.labels")
  numbers <- sort(unique(known$assign))
  tests <- lapply(numbers, function(number) {
    places <- known$covariates[known$assign == number]
    rows <- diag(length(object$coefficients))[places, , drop = FALSE]
    found <- .py("wald_test", c(list(result = object), .constraints(object, rows, 0, call)), call)
    c(length(places), found$statistic, found$p_value)
  })
  table <- as.data.frame(do.call(rbind, tests))
  dimnames(table) <- list(c("(Intercept)", labels)[numbers + 1L], c("Df", "Chisq", "Pr(>Chisq)"))
  heading <- c("Wald tests of terms, each given all others\n", paste0("Model: ", object$kind, ", ", object$formula),
               if (!is.null(object$guarantee)) "Statistics and p-values count privacy noise; reference distributions are those of drawn errors\n")
  called <- .called(object, rownames(table), call)
  structure(table, heading = heading, called = called, least = .py("p_floor", list(result = object), call), class = c("dp_anova", "anova", "data.frame"))
}

print.dp_anova <- function(x, ...) {
  NextMethod(eps.Pvalue = .shown_floor(attr(x, "least")))
}
