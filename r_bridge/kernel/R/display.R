# What a value looks like: text as R prints it, HTML where a table is easier to read.

describe <- function(value) attempt(list(value = bundle(value)))

bundle <- function(value) {
  page <- if (inherits(value, "help_files_with_topic")) help_bundle(value)
  if (!is.null(page)) return(page)
  text <- with_limits(utils::capture.output(if (isS4(value)) methods::show(value) else print(value)), value)
  others <- represented(value)
  html <- if (is.null(others[["text/html"]])) tryCatch(as_html(value), error = function(e) NULL)
  if (length(text) == 0L && is.null(html) && !length(others)) return(list())
  c(list(`text/plain` = paste(text, collapse = "\n")), if (!is.null(html)) list(`text/html` = html), others)
}

# What other packages show of objects of theirs: their methods for the generics of package repr, which IRkernel calls.
represented <- function(value) {
  kinds <- setdiff(as.character(attr(value, "class")), c("data.frame", "tbl_df", "tbl", "matrix", "factor", "table"))
  kinds <- kinds[!startsWith(kinds, "dp_")]
  if (!length(kinds) || !requireNamespace("repr", quietly = TRUE)) return(NULL)
  found <- lapply(c(
    `text/html` = "repr_html", `text/markdown` = "repr_markdown", `text/latex` = "repr_latex", `image/svg+xml` = "repr_svg",
    `application/json` = "repr_json"
  ), function(generic) {
    methods <- lapply(kinds, utils::getS3method, f = generic, optional = TRUE, envir = asNamespace("repr"))
    method <- Find(Negate(is.null), methods)
    text <- if (!is.null(method)) tryCatch(method(value), error = function(e) NULL)
    if (is.character(text) && length(text) == 1L && !is.na(text)) as.character(text)
  })
  Filter(Negate(is.null), found)
}

# Long tables are cut as text where they are cut as HTML.
with_limits <- function(action, value) {
  if (is.data.frame(value) && nrow(value) > limit("rows")) {
    old <- options(max.print = limit("rows") * max(1L, ncol(value)))
    on.exit(options(old))
  }
  action
}

# An object of hdpstats has its page, as in IRkernel.
as_html <- function(value) {
  if (any(grepl("^(summary[.])?dp_", class(value)))) {
    page <- tryCatch(asNamespace("hdpstats")$.repr_html(value), error = function(e) NULL)
    if (!is.null(page)) return(page)
  }
  if (is.data.frame(value) || is.matrix(value) && (is.atomic(value))) as_table(value)
}

escape <- function(text) {
  for (pair in list(c("&", "&amp;"), c("<", "&lt;"), c(">", "&gt;"))) text <- gsub(pair[1L], pair[2L], text, fixed = TRUE)
  text
}
