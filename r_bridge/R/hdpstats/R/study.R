# A study: private records behind an account, public records, and the schema that both obey.

dp_budget <- function(epsilon, delta = 0) .py("budget", list(epsilon = epsilon, delta = delta))

dp_study <- function(private = NULL, public = NULL, schema = NULL, ledger = NULL, budget = NULL,
                     relation = c("replace_one", "add_or_remove_one"), unit = NULL, max_rows_per_unit = NULL,
                     n_max = NULL, row_order = c("undeclared", "arbitrary"), deadline = NULL, quorum = NULL, ...) {
  .py("study", list(
    private = .places(private), invented = .invented(private), public_invented = .invented(public),
    public = public, labels = .labels_of(public), schema = schema, ledger = ledger, budget = budget,
    relation = .first(relation, c("replace_one", "add_or_remove_one")), unit = unit,
    max_rows_per_unit = max_rows_per_unit, n_max = n_max,
    row_order = .first(row_order, c("undeclared", "arbitrary")), deadline = deadline, quorum = quorum, ...
  ))
}

# Which records are marked as invented: those of dp_synthetic() and dp_dummy().
.invented <- function(x) {
  one <- function(rows) is.data.frame(rows) && identical(attr(rows, "hdpstats"), "invented")
  if (is.list(x) && !is.object(x)) any(vapply(x, one, NA)) else one(x)
}

# Private records with paths in full; several paths are those of several sites.
.places <- function(x) {
  if (is.character(x) && (length(x) > 1L || !is.null(names(x)))) x <- as.list(x)
  if (is.list(x) && !is.object(x)) lapply(x, .path) else .path(x)
}

dp_at <- function(study, ...) {
  .check_study(study, sys.call())
  .py("study_at", list(study = study, names = as.character(c(...))))
}

.check_study <- function(study, call) {
  if (missing(study) || !(is.null(study) || inherits(study, "dp_study"))) {
    .refuse("study must be a study: dp_study(private = , public = , schema = , budget = )", call)
  }
}

# What glm() and coxph() ask of their data.
as.data.frame.dp_study <- function(x, row.names = NULL, optional = FALSE, ...) {
  .refuse("a study hands out no rows: fit by dp_logit(), dp_hazard() and the like; your public rows are the data frame you gave it", sys.call())
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
