# The terms of a model and the design of public rows: what generics of R and of other packages read in place of a model
# frame. A result holds no rows. The public rows are those that are given, or those of the study that its call names.

# What Python knows of the terms: loss, link, covariates (places of coefficients), assign, columns, levels, parts.
.terms_of <- function(object, call = sys.call(sys.parent())) .py("model_terms", list(result = object), call)

# Without strata() and cluster(), which have no coefficients.
terms.dp_result <- function(x, ...) {
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

model.frame.dp_result <- function(formula, data = NULL, ...) {
  .no_more("model.frame", ...)
  rows <- .public_rows(formula, data, sys.call())
  needed <- .terms_of(formula)$columns
  absent <- setdiff(needed, names(rows))
  if (length(absent)) .refuse(paste0("data lacks the columns ", paste(absent, collapse = ", ")), sys.call())
  wanted <- unique(c(intersect(all.vars(stats::formula(formula)[[2L]]), names(rows)), needed))
  frame <- stats::na.omit(.with_levels(rows, formula)[wanted])
  attr(frame, "terms") <- terms.dp_result(formula)
  frame
}

# Our own design, with the columns of R's: levels, knots and centres are those of the fit, whatever the rows are.
model.matrix.dp_result <- function(object, data = NULL, ...) {
  .no_more("model.matrix", ...)
  known <- .terms_of(object)
  frame <- .with_levels(.public_rows(object, data, sys.call()), object)
  design <- .py("design", list(result = object, newdata = frame[intersect(known$columns, names(frame))]))
  if (!length(known$columns)) design <- matrix(1, nrow(frame), ncol(design), dimnames = list(rownames(frame), colnames(design)))
  design <- design[stats::complete.cases(design), , drop = FALSE]
  attr(design, "assign") <- known$assign[seq_len(ncol(design))]
  design
}

# The design of rows, one for each of them, and the coefficients that it multiplies.
.linear <- function(object, newdata, call) {
  known <- .terms_of(object, call)
  if (known$parts > 1L) {
    .refuse("each cause, or level, has a linear predictor of its own: ask for probabilities by predict()", call)
  }
  frame <- .with_levels(newdata, object)
  design <- .py("design", list(result = object, newdata = frame[intersect(known$columns, names(frame))]), call)
  list(design = design, coefficients = object$coefficients[known$covariates], known = known,
       vcov = object$vcov[known$covariates, known$covariates, drop = FALSE])
}

.public_rows <- function(object, data, call) {
  if (is.data.frame(data)) return(data)
  if (is.null(data)) data <- .study_of(object)
  rows <- if (inherits(data, "dp_study")) .py("public_rows", list(study = data), call)
  if (is.null(rows)) .refuse("data must be given, public rows as a data frame: a result holds no rows", call)
  rows
}

# The study that the call names. A name is looked up; nothing else of the call is evaluated.
.study_of <- function(object) {
  named <- if (is.list(object)) object$call$data
  found <- if (is.name(named)) get0(as.character(named), envir = globalenv())
  if (inherits(found, "dp_study")) found
}

# Factors with the levels of the schema, as the design reads them.
.with_levels <- function(frame, object) {
  levels <- .terms_of(object)$levels
  for (name in intersect(names(levels), names(frame))) {
    cells <- as.character(frame[[name]])
    if (all(is.na(cells) | cells %in% levels[[name]])) frame[[name]] <- factor(cells, levels[[name]])
  }
  frame
}
