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

as_html <- function(value) {
  if (inherits(value, "dp_account")) return(account_html(value))
  if (inherits(value, "dp_accounts")) return(paste0(vapply(value, account_html, ""), collapse = ""))
  if (inherits(value, "dp_plan")) return(plan_html(value))
  if (is.data.frame(value) || is.matrix(value) && (is.atomic(value))) as_table(value)
}

account_html <- function(account) {
  sums <- rbind(total = account$total, spent = account$spent, remaining = account$remaining)
  shown <- c("at", "mechanism", "model", "epsilon", "delta", "released")
  charges <- if (nrow(account$history) > 0L) as_table(account$history[shown])
  paste0(titled(account$text, as_table(sums)), charges)
}

plan_html <- function(plan) {
  verdicts <- paste0("<li>epsilon = ", names(plan$verdicts), ": ", escape(plan$verdicts), "</li>", collapse = "")
  known <- abs(plan$table[is.finite(plan$table) & plan$table != 0])
  decimals <- max(3, if (length(known)) 1 - floor(log10(min(known)))) # two digits of the smallest
  table <- titled(plan$text, as_table(round(plan$table, decimals)))
  paste0(table, "<ul>", verdicts, "</ul><p>", escape(plan$assumption), "</p>")
}

titled <- function(text, table) paste0("<p>", escape(strsplit(text, "\n", fixed = TRUE)[[1L]][1L]), "</p>", table)

escape <- function(text) {
  for (pair in list(c("&", "&amp;"), c("<", "&lt;"), c(">", "&gt;"))) text <- gsub(pair[1L], pair[2L], text, fixed = TRUE)
  text
}
