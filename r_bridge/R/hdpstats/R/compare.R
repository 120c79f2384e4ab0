# A result beside a fit of this R session.

dp_compare <- function(fit, reference, cause = NULL, label = NULL) {
  if (!inherits(fit, "dp_result")) .refuse("fit must be a result, as of dp_logit() or dp_hazard()", sys.call())
  if (inherits(reference, "dp_result")) {
    other <- list(reference = reference)
  } else {
    other <- c(list(frame = .coefficient_table(reference, sys.call())), .kind_of_model(reference))
  }
  if (!is.null(label)) other$label <- label
  found <- .py("compare", c(list(result = fit, cause = cause), other))
  found$table <- .broom_names(found$table)
  found$result_only <- as.character(found$result_only)
  found$reference_only <- as.character(found$reference_only)
  structure(found, class = "dp_comparison")
}

# Terms, estimates and standard errors of a fitted model, or of a table in broom's shape.
.coefficient_table <- function(x, call) {
  if (is.data.frame(x)) {
    table <- as.data.frame(x)
    names(table)[names(table) == "std.error"] <- "std_error"
    wanted <- c("term", "estimate", "std_error")
    if (all(wanted %in% names(table))) return(table[wanted])
  } else {
    estimate <- tryCatch(stats::coef(x), error = function(e) NULL)
    variance <- tryCatch(stats::vcov(x), error = function(e) NULL)
    if (is.numeric(estimate) && !is.null(names(estimate)) && is.matrix(variance)) {
      errors <- sqrt(diag(variance))[match(names(estimate), colnames(variance))]
      return(data.frame(
        term = names(estimate), estimate = unname(estimate), std_error = unname(ifelse(is.na(estimate), NA, errors))
      ))
    }
  }
  .refuse("reference must be a fitted model with coef() and vcov(), or a table with columns term, estimate, std.error", call)
}

# What the table does not say: that Cox's model has no baseline, and what to call the reference.
.kind_of_model <- function(x) {
  if (is.data.frame(x)) return(NULL)
  formula <- tryCatch(.formula_text(stats::formula(x)), error = function(e) NULL)
  if (inherits(x, "coxph")) list(model = "cox", formula = formula) else list(label = class(x)[[1L]], formula = formula)
}

as.data.frame.dp_comparison <- function(x, row.names = NULL, optional = FALSE, ...) {
  x$table[setdiff(names(x$table), "baseline")]
}

plot.dp_comparison <- function(x, exponentiate = FALSE, xlab = NULL, ...) {
  kept <- !x$table$baseline & x$table$term != "(Intercept)"
  table <- if (any(kept)) x$table[kept, ] else x$table
  columns <- c("estimate", "conf.low", "conf.high")
  one_side <- function(label, prefix) {
    side <- stats::setNames(table[paste0(prefix, columns)], columns)
    cbind(data.frame(label = label, term = table$term), side)
  }
  both <- rbind(one_side("result", ""), one_side(x$label, "reference."))
  .draw_coefficients(both, exponentiate = exponentiate, level = 0.95, xlab = xlab, ...)
  invisible(x)
}
