# summary(): the coefficients as R prints them, and what the fit cost.

summary.dp_result <- function(object, level = 0.95, ...) {
  .no_more("summary", ...)
  table <- .in_order(.py("tidy", list(result = object, conf_level = level)), object)
  columns <- c(Estimate = "estimate", `Std. Error` = "std_error", `z value` = "statistic", `Pr(>|z|)` = "p_value")
  coefficients <- as.matrix(table[columns])
  dimnames(coefficients) <- list(table$term, names(columns))
  about <- .py("summary_parts", list(result = object))
  structure(list(call = object$call, kind = object$kind, coefficients = coefficients, level = level,
                 head = about$head, privacy = about$privacy, least = about$least, notes = about$notes, of = object),
            class = "summary.dp_result")
}

print.summary.dp_result <- function(x, digits = max(3L, getOption("digits") - 3L), signif.stars = getOption("show.signif.stars"),
                                    ...) {
  if (!is.null(x$call)) cat("\nCall:\n", .shown(x$call), "\n", sep = "")
  cat("\n")
  .write_pairs(x$head)
  cat("\nCoefficients:\n")
  stats::printCoefmat(x$coefficients, digits = digits, signif.stars = signif.stars, eps.Pvalue = .shown_floor(x$least),
                      na.print = "NA", ...)
  cat("\n")
  .write_pairs(x$privacy)
  for (note in x$notes) cat(strwrap(note), "", sep = "\n")
  invisible(x)
}

# Names and values, wrapped at the width of the console.
.write_pairs <- function(pairs) {
  names <- format(pairs$name)
  for (i in seq_along(names)) {
    cat(strwrap(pairs$value[[i]], initial = paste0(names[[i]], " "), prefix = strrep(" ", nchar(names[[i]], "width") + 1L)), sep = "\n")
  }
}

# P-values from drawn errors are at least the share of one of them: what tables show it as, rounded up to two digits.
.shown_floor <- function(least) {
  if (!isTRUE(least > 0)) return(.Machine$double.eps)
  unit <- 10^(floor(log10(least)) - 1)
  signif(ceiling(least / unit) * unit, 2L)
}

# P-values as Python's tables show them: what is the least that draws can tell is shown as less than that.
.shown_p <- function(p, least) {
  drawn <- isTRUE(least > 0)
  text <- ifelse(p >= 1e-3, sprintf("%.3f", p), if (drawn) sprintf("%.5f", p) else "<0.001")
  if (drawn) text[!is.na(p) & p <= least * (1 + 1e-9)] <- sprintf("<%.2g", least)
  ifelse(is.na(p), "NA", text)
}
