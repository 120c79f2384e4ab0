# Joint tests, contrasts and average effects: what follows from a release and public rows. Nothing is spent. P-values and
# limits are those of the drawn errors of each contrast, whose tails are heavier than the normal distribution's.

dp_wald_test <- function(object, hypothesis = NULL, rhs = 0, estimate = NULL) {
  asked <- c(list(result = object, estimate = estimate), .constraints(object, hypothesis, rhs, sys.call()))
  .broom_names(.py("wald_test", asked))
}

dp_contrast <- function(object, hypothesis = NULL, rhs = 0, term = NULL, adjust = "hs", conf.level = 0.95, cause = NULL,
                        estimate = NULL) {
  if (is.null(hypothesis) == is.null(term)) {
    .refuse("give hypothesis, such as \"size>50 - size20-50 = 0\" or a matrix, or term, a factor; one of the two", sys.call())
  }
  asked <- list(result = object, conf_level = conf.level, estimate = estimate)
  if (!is.null(term)) {
    if (!isTRUE(adjust %in% c(names(.ADJUSTMENTS), .ADJUSTMENTS, "none"))) {
      .refuse(paste("adjust must be \"none\" or one of", paste(names(.ADJUSTMENTS), collapse = ", ")), sys.call())
    }
    method <- if (adjust %in% names(.ADJUSTMENTS)) .ADJUSTMENTS[[adjust]] else if (adjust != "none") adjust
    found <- .broom_names(.py("pairwise", c(asked, list(term = term, adjust = method, cause = cause))))
    if (adjust == "none") found$adj.p.value <- found$p.value
    return(found)
  }
  .broom_names(.py("contrasts", c(asked, .constraints(object, hypothesis, rhs, sys.call()))))
}

# Names of p.adjust(), and what Python calls them.
.ADJUSTMENTS <- c(hs = "hs", holm = "holm", sidak = "sidak", bonferroni = "bonferroni", hochberg = "simes-hochberg",
                  hommel = "hommel", BH = "fdr_bh", fdr = "fdr_bh", BY = "fdr_by")

dp_average_effects <- function(object, variable, over = NULL, values = NULL, times = NULL, cause = NULL, weights = NULL,
                               conf.level = 0.95, estimate = NULL) {
  needed <- is.null(over) || inherits(over, "dp_description")
  study <- if (needed) .study_of(object, sys.call(), "over")
  if (needed && is.null(study)) {
    .refuse(paste0(
      "over must be given, public rows as a data frame or a study: a result holds no rows, and the study that its call names, ",
      "whose public rows would be taken, is not there"
    ), sys.call())
  }
  found <- .py("average_effects", list(
    result = object, variable = variable, over = over, study = study, values = values, times = times, cause = cause,
    weights = weights, conf_level = conf.level, estimate = estimate
  ))
  said <- found[c("epsilon", "delta", "guarantee", "statement")]
  do.call(structure, c(list(.broom_names(found$table)), said[!vapply(said, is.null, NA)]))
}

dp_methods_text <- function(object) .py("methods_text", list(result = object))

# A text, several of them, or a matrix of numbers whose columns are the coefficients in the order of coef().
.constraints <- function(object, hypothesis, rhs, call) {
  if (is.null(hypothesis)) return(list())
  if (is.character(hypothesis)) return(list(hypothesis = paste(hypothesis, collapse = ", ")))
  if (is.numeric(hypothesis) && is.null(dim(hypothesis))) hypothesis <- matrix(hypothesis, nrow = 1L)
  if (!is.matrix(hypothesis) || !is.numeric(hypothesis)) {
    .refuse("hypothesis must be text, such as \"size>50 - size20-50 = 0\", or a matrix of numbers", call)
  }
  list(frame = as.data.frame(unname(cbind(hypothesis, rhs))))
}
