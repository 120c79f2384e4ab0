# The schema: what is declared about all columns, never learned from private rows.

dp_schema <- function(...) .py("schema", list(columns = list(...)))

dp_schema_from_public <- function(frame, ...) .py("schema_from_public", list(frame = frame, columns = .declared(...)))

dp_read_schema <- function(path) .py("schema_from_yaml", list(path = .path(path)))

dp_write_schema <- function(schema, path) {
  .py("schema_to_yaml", list(schema = schema, path = .path(path)))
  invisible(schema)
}

# For the custodian who holds the rows: what the file has that the schema does not expect.
dp_check <- function(frame, schema, unit = NULL) {
  found <- .py("rows_check", list(frame = frame, schema = schema, unit = unit))
  found$advice <- as.character(found$advice)
  structure(found, class = "dp_check")
}

print.dp_check <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

as.data.frame.dp_check <- function(x, row.names = NULL, optional = FALSE, ...) x$table

.declared <- function(...) if (...length() > 0L) list(...)
