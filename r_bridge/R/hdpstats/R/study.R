# A study: private records behind an account, public records, and the schema that both obey.

dp_budget <- function(epsilon, delta = 0) .py("budget", list(epsilon = epsilon, delta = delta))

dp_study <- function(private = NULL, public = NULL, schema = NULL, ledger = NULL, budget = NULL,
                     relation = c("replace_one", "add_or_remove_one"), unit = NULL, max_rows_per_unit = NULL,
                     n_max = NULL, ...) {
  if (is.name(substitute(private)) && identical(substitute(private), substitute(public))) {
    .refuse("public must be other records than private, not the same object", sys.call())
  }
  .py("study", list(
    private = .path(private),
    public = public, schema = schema, ledger = ledger, budget = budget,
    relation = .first(relation, c("replace_one", "add_or_remove_one")), unit = unit,
    max_rows_per_unit = max_rows_per_unit, n_max = n_max, ...
  ))
}

# Raise what Python would raise for an argument.
.refuse <- function(message, call) {
  .fail(list(classes = c("dp_argument_error", "dp_error"), message = message, fields = list()), .without_data(call))
}

# Refuse what a generic's dots let through.
.no_more <- function(generic, ...) {
  if (...length() == 0L) return(invisible())
  method <- sys.function(sys.parent())
  unknown <- c(setdiff(names(list(...)), ""), "of that position")[[1L]]
  takes <- setdiff(names(formals(method)), c("object", "..."))
  text <- paste0(generic, " has no argument '", unknown, "'; it takes ", paste(takes, collapse = ", "))
  .refuse(text, sys.call(sys.parent()))
}

print.dp_budget <- function(x, ...) {
  cat("budget: ", x$text, "\n", sep = "")
  invisible(x)
}

print.dp_study <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}
