# Whether Python can be reached.

dp_available <- function() {
  if (!is.null(.state$dispatch)) return(TRUE)
  tryCatch({
    .connect()
    TRUE
  }, dp_no_python = function(e) FALSE)
}

dp_versions <- function() {
  c(unlist(.py("versions")), R = paste(R.version$major, R.version$minor, sep = "."))
}

dp_warm_up <- function() {
  .py("warm_up")
  invisible(NULL)
}

dp_qualify <- function(file = NULL) {
  found <- .py("qualify", list(file = if (is.null(file)) NULL else .path(file)))
  structure(found, class = "dp_qualification")
}

print.dp_qualification <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

as.data.frame.dp_qualification <- function(x, row.names = NULL, optional = FALSE, ...) x$table
