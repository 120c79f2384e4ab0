# Joint tests, contrasts and average effects: what follows from a release and public rows. Nothing is spent. P-values and
# limits are those of the drawn errors of each contrast, whose tails are heavier than the normal distribution's.

dp_wald_test <- function(object, hypothesis = NULL, rhs = 0, estimate = NULL) {
  asked <- c(list(result = object, estimate = estimate), .constraints(object, hypothesis, rhs, sys.call()))
  title <- if (is.null(hypothesis)) "Wald tests of terms, each given all others" else "Wald test of constraints together"
  .tested(.py("wald_test", asked), object, "dp_wald_test", title)
}

# A table of tests of a result.
.tested <- function(found, object, class, title) {
  table <- .table(.broom_names(found), class, title, guarantee = object$guarantee, least = .py("p_floor", list(result = object)))
  if (is.character(table[[1L]])) attr(table, "called") <- .called(object, table[[1L]], sys.call())
  table
}

# Labels of the terms of a result that have one, by their names.
.called <- function(object, terms, call) {
  labels <- .py("term_labels", list(result = object, terms = terms), call)
  stats::setNames(labels, terms)[labels != terms]
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
    found <- .py("pairwise", c(asked, list(term = term, adjust = method, cause = cause)))
    if (adjust == "none") found$adj_p_value <- found$p_value
    return(.tested(found, object, "dp_contrast", paste("Levels of", term, "with each other")))
  }
  .tested(.py("contrasts", c(asked, .constraints(object, hypothesis, rhs, sys.call()))), object, "dp_contrast", "Contrasts")
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
  notes <- "frame.error is the standard error that the rows add where they are a sample; it is no part of the intervals."
  table <- .table(.broom_names(found$table), "dp_average_effects", paste("Average effects of", .py("term_labels", list(result = object, terms = variable))), notes = notes,
                  least = .py("p_floor", list(result = object)))
  said <- found[c("epsilon", "delta", "guarantee", "statement")]
  do.call(structure, c(list(table), said[!vapply(said, is.null, NA)]))
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
