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
