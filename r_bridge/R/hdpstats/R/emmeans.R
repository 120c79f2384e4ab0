# Estimated marginal means by the package emmeans, with the design of the fit.

recover_data.dp_result <- function(object, data = NULL, ...) {
  frame <- model.frame.dp_result(object, data)[.terms_of(object)$columns]
  call <- if (is.null(object$call)) call("dp_result", formula = formula(object)) else object$call
  plain <- .by_columns(stats::delete.response(terms(object)))
  call$formula <- stats::update(stats::formula(object), stats::formula(plain))
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
  misc <- if (known$loss == "hazard") list(tran = "log", inv.lbl = "exp.effect")
  else if (known$link != "identity") list(tran = known$link, inv.lbl = if (known$link == "log") "rate" else "prob")
  list(X = unname(parts$design), bhat = unname(parts$coefficients), nbasis = matrix(NA), V = unname(parts$vcov),
       dffun = function(k, dfargs) Inf, dfargs = list(), misc = if (is.null(misc)) list() else misc)
}

# emmeans::qdrg() codes the factors of the data it is given by their own levels, computes knots from them, and leaves out
# without a word what it does not find: its numbers would be wrong where the data differ from the schema.
.not_for_qdrg <- function() {
  if (!isNamespaceLoaded("emmeans")) return(invisible())
  for (number in seq_len(sys.nframe())) {
    if (identical(sys.function(number), getExportedValue("emmeans", "qdrg"))) {
      .refuse("qdrg() does not know the coding of this fit: use emmeans(fit, ~ term, data = public rows)", quote(qdrg()))
    }
  }
}
