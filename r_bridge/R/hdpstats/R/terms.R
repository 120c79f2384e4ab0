# The terms of a model and the design of public rows: what generics of R and of other packages read in place of a model
# frame. A result holds no rows. The public rows are those that are given, or those of the study that its call names.

# What Python knows of the terms: loss, link, covariates (places of coefficients), assign, columns, levels, parts, beside.
.terms_of <- function(object, call = sys.call(sys.parent())) .py("model_terms", list(result = object), call)

# Without strata() and cluster(), which have no coefficients; with the classes of the variables, as stats::lm() has them.
terms.dp_result <- function(x, ...) {
  found <- .plain_terms(x, ...)
  made <- .py("model_variables", list(result = x))
  classes <- vapply(.variables_of(found), .class_of, "", outcome = .outcome_of(found), known = .terms_of(x), made = made)
  attr(found, "dataClasses") <- stats::setNames(classes, .variable_names(found))
  found
}

.plain_terms <- function(x, ...) {
  read <- formula(x)
  if ("." %in% all.vars(read)) {
    columns <- .terms_of(x)$columns # what the dot stands for
    found <- stats::terms(read, data = stats::setNames(as.data.frame(rep(list(0), length(columns))), columns), ...)
  } else {
    found <- stats::terms(read, ...)
  }
  labels <- attr(found, "term.labels")
  without <- grepl("^(survival::)?(strata|cluster)\\(", labels)
  if (!any(without)) return(found)
  if (all(without)) return(stats::terms(stats::update(stats::formula(found), . ~ 1)))
  stats::drop.terms(found, which(without), keep.response = TRUE)
}

df.residual.dp_result <- function(object, ...) Inf

family.dp_result <- function(object, ...) {
  known <- .terms_of(object)
  make <- switch(known$loss, logistic = , hazard = , bernoulli = stats::binomial, poisson = stats::poisson, squares = stats::gaussian)
  if (is.null(make)) .refuse(paste0("a model of this loss (", known$loss, ") has no family of stats::glm()"), sys.call())
  make(link = known$link)
}

# The variables of terms, names and calls, and what a model frame calls them.
.variables_of <- function(terms) as.list(attr(terms, "variables"))[-1L]

.variable_names <- function(terms) vapply(.variables_of(terms), deparse1, "")

# The class of a variable, as stats::.MFclass() names it.
.class_of <- function(variable, outcome, known, made) {
  if (identical(variable, outcome)) {
    if (is.call(variable)) return(paste0("nmatrix.", length(variable) - 1L))
    return(if (as.character(variable) %in% names(known$levels)) "factor" else "numeric")
  }
  own <- made[[deparse1(variable)]]
  if (is.null(own)) return(if (.is_offset(variable)) "numeric" else "other")
  if (own$kind == "matrix") paste0("nmatrix.", own$size) else own$kind
}

.is_offset <- function(variable) is.call(variable) && identical(variable[[1L]], quote(offset))

.outcome_of <- function(terms) if (attr(terms, "response")) .variables_of(terms)[[1L]]

# The public rows as the fit reads them: without rows that miss what it needs, factors with the levels of the schema. Of
# the outcome, weights, offsets and strata they have what they are given with.
.complete_rows <- function(object, data, call) {
  known <- .terms_of(object, call)
  rows <- .public_rows(object, data, call)
  absent <- setdiff(known$columns, names(rows))
  if (length(absent)) .refuse(paste0("data lacks the columns ", paste(absent, collapse = ", ")), call)
  stats::na.omit(.with_levels(rows, known)[unique(c(intersect(known$beside, names(rows)), known$columns))])
}

model.frame.dp_result <- function(formula, data = NULL, ...) {
  .no_more("model.frame", ...)
  rows <- .complete_rows(formula, data, sys.call())
  made <- .py("model_variables", list(result = formula, newdata = rows[.terms_of(formula)$columns]))
  found <- terms.dp_result(formula)
  if (!all(all.vars(.outcome_of(found)) %in% names(rows))) found <- stats::delete.response(found)
  variables <- lapply(.variables_of(found), .variable, rows = rows, made = made, outcome = .outcome_of(found))
  frame <- structure(list(), names = character(), row.names = attr(rows, "row.names"), class = "data.frame")
  frame[.variable_names(found)] <- variables
  attributes(frame)[c("terms", "na.action")] <- list(found, attr(rows, "na.action"))
  frame
}

# A variable in rows: the outcome, a column, or what a function of columns has, by the levels and knots of the fit.
.variable <- function(variable, rows, made, outcome) {
  if (identical(variable, outcome) && is.call(variable)) return(.survival_times(variable, rows))
  if (is.name(variable)) return(rows[[as.character(variable)]])
  if (.is_offset(variable)) return(rows[[all.vars(variable)]])
  own <- made[[deparse1(variable)]]
  if (is.null(own)) {
    .refuse(paste0("the formula writes ", deparse1(variable), " in two ways, or otherwise than R: write it in R's way, and fit again"), sys.call(-1L))
  }
  switch(own$kind,
    factor = factor(own$levels[own$values], own$levels), logical = drop(own$values) == 1, numeric = drop(own$values),
    matrix(own$values, nrow(rows), dimnames = list(NULL, seq_len(own$size)))
  )
}

# Surv(...) of rows; an event with two labels is the second one.
.survival_times <- function(outcome, rows) {
  if (!requireNamespace("survival", quietly = TRUE)) .refuse("times of survival need the package survival", sys.call(-1L))
  parts <- lapply(as.list(outcome)[-1L], function(part) {
    if (is.call(part)) return(rows[[as.character(part[[2L]])]] == part[[3L]])
    cells <- rows[[as.character(part)]]
    if (nlevels(cells) == 2L) as.integer(cells) - 1L else cells
  })
  do.call(survival::Surv, unname(parts))
}

# Our own design, with the columns of R's: levels, knots and centres are those of the fit, whatever the rows are.
model.matrix.dp_result <- function(object, data = NULL, ...) {
  .no_more("model.matrix", ...)
  known <- .terms_of(object)
  rows <- .complete_rows(object, data, sys.call())
  design <- .py("design", list(result = object, newdata = rows[known$columns]))
  if (!length(known$columns)) design <- matrix(1, nrow(rows), ncol(design), dimnames = list(rownames(rows), colnames(design)))
  attr(design, "assign") <- known$assign[seq_len(ncol(design))]
  classes <- attr(stats::delete.response(terms.dp_result(object)), "dataClasses")
  coded <- names(classes)[classes %in% c("factor", "logical")]
  if (length(coded)) attr(design, "contrasts") <- stats::setNames(rep(list("contr.treatment"), length(coded)), coded)
  design
}

# The design of rows, one for each of them, and the coefficients that it multiplies.
.linear <- function(object, newdata, call) {
  known <- .terms_of(object, call)
  if (known$parts > 1L) {
    .refuse("each cause, or level, has a linear predictor of its own: ask for probabilities by predict()", call)
  }
  frame <- .with_levels(newdata, known)
  design <- .py("design", list(result = object, newdata = frame[intersect(known$columns, names(frame))]), call)
  list(design = design, coefficients = object$coefficients[known$covariates], known = known,
       vcov = object$vcov[known$covariates, known$covariates, drop = FALSE])
}

.public_rows <- function(object, data, call, argument = "data") {
  if (is.data.frame(data)) return(data)
  if (is.null(data)) data <- .study_of(object, call, argument)
  rows <- if (inherits(data, "dp_study")) .py("public_rows", list(study = data), call)
  if (is.null(rows)) .refuse(paste(argument, "must be given, public rows as a data frame: a result holds no rows"), call)
  rows
}

# The study that the call names, if it has the public rows of the fit. A name is looked up; nothing else of the call is
# evaluated.
.study_of <- function(object, call, argument = "data") {
  named <- if (is.list(object)) object$call$data
  found <- if (is.name(named)) get0(as.character(named), envir = globalenv())
  if (!inherits(found, "dp_study")) return(NULL)
  if (!identical(.py("public_fingerprint", list(study = found), call), object$public_fingerprint)) {
    .refuse(paste0(
      argument, " must be given, public rows as a data frame or a study: ", named, " is now another study, with another schema or ",
      "other public rows than the fit had"
    ), call)
  }
  found
}

# Factors with the levels of the schema, as the design reads them.
.with_levels <- function(frame, known) {
  for (name in intersect(names(known$levels), names(frame))) {
    levels <- known$levels[[name]]
    cells <- as.character(frame[[name]])
    if (all(is.na(cells) | cells %in% levels)) frame[[name]] <- factor(cells, levels)
  }
  frame
}
