# Arguments that are columns in glm(): a bare name is that of a column, an expression over columns is refused by its name,
# before anything is evaluated.

# What became of the expressions that were given: texts for columns; others are left out.
.column_names <- function(given, data, call) {
  given <- Filter(Negate(is.null), given)
  for (name in intersect(names(given), names(.SELECTIONS))) .refuse(paste0(name, " is no argument: ", .SELECTIONS[[name]]), call)
  given <- Filter(function(part) is.name(part) || is.call(part), given)
  read <- unlist(lapply(given, all.vars))
  if (!length(read) || !inherits(data, "dp_study")) return(list())
  columns <- .py("study_columns", list(study = data), call)
  found <- list()
  for (name in names(given)) {
    part <- given[[name]]
    if (is.name(part) && as.character(part) %in% columns) found[[name]] <- as.character(part)
    else if (is.call(part) && any(all.vars(part) %in% columns)) {
      .refuse(paste0(
        name, " must be the name of a column: an expression is not computed from private rows; add the column to the rows ",
        "before, and declare it by dp_", sub("s$", "", name), "()"
      ), call)
    }
  }
  found
}

.SELECTIONS <- c(
  subset = paste("who counts is decided where the rows are: give dp_study() the rows of those people only, or put the",
                 "condition into the formula as a term"),
  na.action = "rows with missing cells are left out, unless the schema fills them in (missing = )",
  contrasts = "factors have the levels of the schema, the first one is the reference"
)

# Evaluate arguments as R does, but for columns.
.given_options <- function(given, data, frame, call) {
  named <- .column_names(given[intersect(names(given), c("weights", "offset", names(.SELECTIONS)))], data, call)
  rest <- lapply(given[setdiff(names(given), c(names(named), ""))], eval, frame)
  if (length(given) && (is.null(names(given)) || any(names(given) == ""))) .refuse("arguments after data must have names", call)
  c(rest, named)
}
