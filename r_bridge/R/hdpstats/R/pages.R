# What notebooks (IRkernel, "R (hdpstats)") and documents (R Markdown, Quarto) show of objects: one page in both, which
# Python writes, and a table that R has made or changed in the same look. A front end without HTML shows what print() does.

# The page of an object as HTML.
.page <- function(x) {
  if (inherits(x, "dp_check") && length(x$said)) paste0(x$html, .py("table_page", list(frame = data.frame(remark = x$said), title = "Codes of missing cells")))
  else if (is.list(x) && !is.data.frame(x) && !is.null(x$html)) x$html
  else if (inherits(x, c("dp_table", "dp_anova"))) .page_of_table(x)
  else if (inherits(x, "dp_accounts")) paste(vapply(unclass(x), .page, ""), collapse = "\n")
  else if (inherits(x, "dp_account")) .page_of_account(x)
  else if (inherits(x, "dp_column")) .py("table_page", list(frame = .entries(x), title = "Declaration of a column", named = TRUE))
  else if (inherits(x, "dp_budget")) .py("table_page", list(frame = .entries(x[c("epsilon", "delta")]), title = "Budget", named = TRUE))
  else if (is.null(x$of)) .py("page", list(x = x))
  else .py("page", list(x = x$of, alpha = if (!is.null(x$level)) 1 - x$level))
}

# An object whose session has ended has no page, and is shown as text.
.repr_html <- function(obj, ...) tryCatch(.page(obj), dp_argument_error = function(e) NULL)

# Raw HTML, which pandoc leaves as it is; a document that is no web page gets a table where print() shows one.
.knit_page <- function(x, ...) {
  html <- if (knitr::is_html_output()) .repr_html(x)
  # errors empty the frames of this package's functions, see .forget()
  if (!exists("x", inherits = FALSE)) return(knitr::asis_output("(an object of a session that has ended: make it again)\n"))
  if (!is.null(html)) return(knitr::asis_output(paste0("\n\n```{=html}\n", html, "\n```\n\n")))
  if (is.null(knitr::pandoc_to()) && !knitr::is_latex_output()) return(knitr::normal_print(x))
  parts <- if (inherits(x, c("dp_result", "summary.dp_result"))) .document_of_result(x)
  else if (is.data.frame(x)) .document_of_table(x)
  if (is.null(parts)) knitr::normal_print(x) else knitr::asis_output(paste0("\n\n", paste(parts, collapse = "\n\n"), "\n\n"))
}

# All that print() shows, as Markdown: what was fitted, the coefficients, what it cost and guarantees, the notes.
.document_of_result <- function(x) {
  if (inherits(x, "dp_result")) x <- summary(x)
  table <- formatC(x$coefficients, digits = 4L, format = "g", flag = "#")
  table[, 4L] <- .shown_p(x$coefficients[, 4L], x$least)
  shown <- paste(knitr::kable(table, align = "r", format = "pipe"), collapse = "\n")
  c(.knit_pairs(x$head), shown, .knit_pairs(x$privacy), .knit_text(x$notes))
}

.document_of_table <- function(x) {
  shown <- as.data.frame(x)
  least <- attr(x, "least")
  for (name in names(shown)) {
    if (grepl("p.value|^Pr\\(", name)) shown[[name]] <- .shown_p(shown[[name]], least)
    else if (is.numeric(shown[[name]])) shown[[name]] <- formatC(shown[[name]], digits = 4L, format = "g")
  }
  c(paste(knitr::kable(shown, format = "pipe"), collapse = "\n"), .knit_text(attr(x, "notes")))
}

# Names and values, a line each; values without a name go on with the one before.
.knit_pairs <- function(pairs) {
  named <- nzchar(pairs$name)
  values <- vapply(split(pairs$value, cumsum(named)), paste, "", collapse = "; ")
  paste0("**", .knit_text(pairs$name[named]), "** ", .knit_text(values), collapse = "  \n")
}

# A text in Markdown: no sign in it is taken for markup.
.knit_text <- function(text) gsub("([][\\\\`*_{}<>#|~^$])", "\\\\\\1", text)

# ---- Tables ---------------------------------------------------------------------------------------------------------

# A data frame that says what it is: pages and documents show its title, its guarantee and its notes.
.table <- function(table, class, title, guarantee = NULL, notes = NULL, least = NULL) {
  said <- list(title = title, guarantee = guarantee, notes = notes, least = least)
  do.call(structure, c(list(table, class = c(class, "dp_table", "data.frame")), said[!vapply(said, is.null, NA)]))
}

.page_of_table <- function(x) {
  shown <- as.data.frame(x)
  heading <- attr(x, "heading")
  named <- is.character(attr(shown, "row.names"))
  if (named) shown <- cbind(term = rownames(shown), shown)
  called <- attr(x, "called")
  names_rows <- is.character(shown[[1L]])
  if (names_rows && any(shown[[1L]] %in% names(called))) {
    labels <- unname(called[shown[[1L]]])
    shown <- cbind(label = ifelse(is.na(labels), shown[[1L]], labels), shown)
  }
  names(shown) <- sub("^Pr\\(.*\\)$", "p.value", names(shown))
  title <- if (!is.null(attr(x, "title"))) attr(x, "title") else if (length(heading)) trimws(heading[[1L]]) else "Table"
  floor <- attr(x, "least")
  .py("table_page", list(
    frame = shown, title = title, badges = attr(x, "guarantee"), notes = c(attr(x, "notes"), trimws(heading[-1L])),
    p_floor = if (!is.null(floor)) floor else 0, named = named || is.character(shown[[1L]])
  ))
}

.page_of_account <- function(x) {
  sums <- rbind(total = x$total, spent = x$spent, remaining = x$remaining)
  frame <- data.frame(amount = rownames(sums), sums)
  .py("table_page", list(frame = frame, title = strsplit(x$text, "\n", fixed = TRUE)[[1L]][[1L]], named = TRUE))
}

.entries <- function(x) {
  x <- Filter(Negate(is.null), unclass(x))
  data.frame(name = names(x), value = vapply(x, function(value) paste(format(value, digits = 7L), collapse = " | "), ""))
}
