# Help pages as text and as HTML: those of installed packages, and of this one, which is attached from its source.
# NULL where there is no page.
help_bundle <- function(value) {
  page <- if (length(value)) utils:::.getHelpFile(value[[1L]]) else own_page(attr(value, "topic"))
  if (!is.null(page)) list(`text/plain` = page_text(page), `text/html` = page_html(page), page = "")
}

help_text <- function(topic) {
  found <- utils::help((topic), help_type = "text")
  page <- if (length(found)) utils:::.getHelpFile(found[[1L]]) else own_page(topic)
  if (!is.null(page)) page_text(page)
}

# The page of a topic in the source of the package.
own_page <- function(topic) {
  for (file in list.files(file.path(getNamespaceInfo("hdpstats", "path"), "man"), "[.]Rd$", full.names = TRUE)) {
    aliases <- grep("^\\\\alias\\{", readLines(file, encoding = "UTF-8"), value = TRUE)
    if (paste0("\\alias{", topic, "}") %in% aliases) return(tools::parse_Rd(file, encoding = "UTF-8"))
  }
}

page_text <- function(page) {
  lines <- utils::capture.output(tools::Rd2txt(page, options = list(underline_titles = FALSE)))
  paste(gsub("_\b", "", lines), collapse = "\n")
}

page_html <- function(page) {
  lines <- utils::capture.output(tools::Rd2HTML(page))
  inside <- seq.int(grep("<body", lines)[1L] + 1L, rev(grep("</body>", lines))[1L] - 1L)
  paste(lines[inside], collapse = "\n")
}
