# The schema: what is declared about all columns, never learned from private rows.

dp_schema <- function(...) .py("schema", list(columns = lapply(list(...), .with_label)))

dp_schema_from_public <- function(frame, ...) {
  .py("schema_from_public", list(frame = frame, columns = .declared(...), labels = .labels_of(frame)))
}

# Other labels of columns: the schema declares the same, has the same hash, and no fit becomes a new question.
dp_with_labels <- function(schema, ..., labels = NULL) {
  if (is.data.frame(labels)) labels <- .labels_of(labels[intersect(names(labels), schema$columns)])
  given <- c(as.list(labels), list(...))
  given[vapply(given, is.null, NA)] <- NA_character_
  .py("with_labels", list(schema = schema, labels = given))
}

dp_read_schema <- function(path) .py("schema_from_yaml", list(path = .path(path)))

dp_write_schema <- function(schema, path) {
  .py("schema_to_yaml", list(schema = schema, path = .path(path)))
  invisible(schema)
}

# Invented rows, to try code on; marked, so that a study of them is charged to no account of a data set.
dp_synthetic <- function(schema, n, public = NULL, unit = NULL, max_rows_per_unit = 1, follow_up = NULL, seed = 0) {
  found <- .py("synthetic", list(
    schema = schema, n = n, public = public, unit = unit, max_rows_per_unit = max_rows_per_unit,
    follow_up = follow_up, seed = seed
  ))
  attr(found, "hdpstats") <- "invented"
  found
}

# For the custodian who holds the rows: what the file has that the schema does not expect.
dp_check <- function(frame, schema, unit = NULL) {
  if (is.character(frame)) frame <- if (length(frame) == 1L) .path(frame) else lapply(frame, .path)
  found <- .py("rows_check", list(frame = frame, schema = schema, unit = unit))
  said <- .user_missing(frame)
  found$advice <- c(as.character(found$advice), said)
  found$text <- paste(c(found$text, unlist(lapply(said, strwrap, width = 78L))), collapse = "\n")
  found$said <- said
  structure(found, class = "dp_check")
}

# Codes that a file of SPSS declares to be missing and haven has left as they are: they would count as values.
.user_missing <- function(frame) {
  if (!is.data.frame(frame)) return(character())
  said <- lapply(names(frame), function(name) {
    cells <- frame[[name]]
    codes <- attr(cells, "na_values")
    range <- attr(cells, "na_range")
    if (!inherits(cells, "haven_labelled_spss") || (is.null(codes) && is.null(range))) return(NULL)
    plain <- if (is.character(cells)) as.vector(unclass(cells)) else as.numeric(unclass(cells))
    missing <- plain %in% codes
    if (!is.null(range)) missing <- missing | (!is.na(plain) & plain >= range[[1L]] & plain <= range[[2L]])
    declared <- c(if (!is.null(codes)) paste(codes, collapse = ", "), if (!is.null(range)) paste(range, collapse = " to "))
    paste0("column '", name, "': ", sum(missing), " cells are codes that its file declares to be missing (",
           paste(declared, collapse = "; "), "), and would count as values: read the file by haven::read_sav(user_na = FALSE), or use ",
           "haven::zap_missing()")
  })
  as.character(unlist(said))
}

print.dp_check <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

as.data.frame.dp_check <- function(x, row.names = NULL, optional = FALSE, ...) x$table

.declared <- function(...) if (...length() > 0L) lapply(list(...), .with_label)
