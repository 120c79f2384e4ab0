# Estimated marginal means by the package emmeans, with the design of the fit.

recover_data.dp_result <- function(object, data = NULL, ...) {
  frame <- model.frame.dp_result(object, data)[.terms_of(object)$columns]
  call <- if (is.null(object$call)) call("dp_result", formula = formula(object)) else object$call
  call$formula <- formula(object)
  emmeans::recover_data(call, stats::delete.response(terms(object)), na.action = NULL, data = frame, ...)
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
