# Results as files that R and Python both read, exact to the last bit.

dp_write_result <- function(x, path) {
  if (!inherits(x, "dp_result")) .refuse("x must be a result, as of dp_logit() or dp_hazard()", sys.call())
  .py("result_to_json", list(json = x$json, path = .path(path)))
  invisible(x)
}

dp_read_result <- function(path, request = NULL, public = NULL, key = NULL) {
  if (!is.null(request)) {
    return(.py("release_result", list(
      release = .path(path), request = .path(request), public = public, key = .path(key)
    )))
  }
  if (!is.null(public) || !is.null(key)) .refuse("public and key belong to request=, which a site answered", sys.call())
  .py("result_from_json", list(path_or_text = .path(path)))
}

dp_verify <- function(x, keys) .py("result_verify", list(result = x, keys = vapply(keys, .path, "")))

dp_disclosure <- function(x, form = NULL, statements = NULL) {
  found <- .py("disclosure", list(result = x, form = form, statements = statements))
  if (is.null(form)) found else structure(found, class = "dp_disclosure")
}

print.dp_disclosure <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

format.dp_disclosure <- function(x, ...) x$text

as.data.frame.dp_disclosure <- function(x, row.names = NULL, optional = FALSE, ...) x$points
