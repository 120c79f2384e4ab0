# Estimated marginal means by the package emmeans, with the design of the fit.

recover_data.dp_result <- function(object, data = NULL, ...) {
  frame <- .complete_rows(object, data, sys.call())[.terms_of(object)$columns]
  call <- if (is.null(object$call)) call("dp_result", formula = formula(object)) else object$call
  found <- .plain_terms(object)
  plain <- .by_columns(stats::delete.response(found))
  left <- as.name(all.vars(.outcome_of(found))[[1L]]) # emmeans takes a function on the left, Surv(), for a transformation
  call$formula <- stats::reformulate(attr(plain, "term.labels"), left)
  emmeans::recover_data(call, plain, na.action = NULL, data = frame, ...)
}

# The terms with a column in place of what is computed from it: emmeans would compute knots, centres and reference levels
# anew, from the few rows of its grid. What it needs is which columns there are, and which interact; the design is ours.
.by_columns <- function(trms) {
  written <- as.list(attr(trms, "variables"))[-1L]
  plain <- vapply(written, function(part) {
    if (is.call(part) && identical(part[[1L]], quote(factor))) return(deparse1(part))
    paste(sprintf("`%s`", all.vars(part)), collapse = ":")
  }, "")
  factors <- attr(trms, "factors")
  labels <- unique(apply(factors > 0, 2L, function(has) paste(plain[has], collapse = ":")))
  stats::terms(stats::reformulate(if (length(labels)) labels else "1"))
}

emm_basis.dp_result <- function(object, trms, xlev, grid, ...) {
  parts <- .linear(object, grid, sys.call())
  known <- parts$known
  # the exponential of a hazard's coefficients means something for all links but the probit
  misc <- if (known$loss != "hazard") {
    if (known$link != "identity") list(tran = known$link, inv.lbl = if (known$link == "log") "rate" else "prob")
  } else if (known$link != "probit") list(tran = "log", inv.lbl = "exp.effect")
  list(X = unname(parts$design), bhat = unname(parts$coefficients), nbasis = matrix(NA), V = unname(unclass(parts$vcov)),
       dffun = function(k, dfargs) Inf, dfargs = list(), misc = if (is.null(misc)) list() else misc)
}

# emmeans::qdrg() codes the factors of the data it is given by their own levels, computes knots from the few rows of its
# grid, and leaves out without a word what it does not find. So covariances have a class of their own, and as.matrix(),
# by which qdrg() reads them, refuses where the design that it has made is not the one that they belong to.
as.matrix.dp_vcov <- function(x, ...) {
  other <- if (isNamespaceLoaded("emmeans")) .other_design(colnames(x))
  if (is.null(other)) unclass(x) else structure(list(text = other), class = "dp_other_design")
}

# qdrg() catches errors of as.matrix() without their message, and asks for the size next.
dim.dp_other_design <- function(x) .refuse(x$text, quote(qdrg()))

# Why the design that qdrg() has made is not that of these coefficients; NULL where it is, or qdrg() does not ask.
.other_design <- function(names) {
  basis <- get0("emm_basis.qdrg", asNamespace("emmeans"), inherits = FALSE)
  for (number in rev(seq_len(sys.nframe()))) {
    if (!identical(sys.function(number), basis)) next
    made <- sys.frame(number)
    variables <- attr(made$trms, "variables")
    called <- setdiff(all.names(variables), c("list", all.vars(variables)))
    if (identical(colnames(made$X), names) && all(called %in% .OF_SINGLE_VALUES)) return(NULL)
    return(paste0(
      "qdrg() does not know the coding of this fit (its levels and knots): use emmeans(fit, ~ term, data = public rows). ",
      "It has made the columns ", paste(colnames(made$X), collapse = ", "), "; the coefficients are ", paste(names, collapse = ", ")
    ))
  }
}

# Functions of a formula whose value at a row does not depend on other rows.
.OF_SINGLE_VALUES <- c(
  "I", "(", "+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "log", "log2", "log10", "log1p", "exp", "sqrt", "abs", "c",
  "factor"
)

# A part of a covariance matrix, with the same rows as columns, is one as well.
`[.dp_vcov` <- function(x, ...) {
  found <- NextMethod()
  if (is.matrix(found) && !is.null(rownames(found)) && identical(rownames(found), colnames(found))) class(found) <- oldClass(x)
  found
}

all.equal.dp_vcov <- function(target, current, ...) {
  all.equal(unclass(target), if (inherits(current, "dp_vcov")) unclass(current) else current, ...)
}

print.dp_vcov <- function(x, ...) {
  print(unclass(x), ...)
  invisible(x)
}
