# Data frames and matrices as HTML tables without colours. Options of IRkernel's name say how much of them is shown.

limit <- function(what) getOption(paste0("repr.matrix.max.", what), c(rows = 60L, cols = 20L)[[what]])

as_table <- function(x) {
  rows <- seq_len(min(nrow(x), limit("rows")))
  columns <- seq_len(min(ncol(x), limit("cols")))
  part <- if (is.data.frame(x)) as.data.frame(x)[rows, columns, drop = FALSE] else unclass(x)[rows, columns, drop = FALSE]
  right <- if (is.data.frame(x)) vapply(part, is.numeric, NA) & !vapply(part, is.factor, NA) else rep(is.numeric(x), length(columns))
  named <- if (is.data.frame(x)) .row_names_info(x) > 0L else !is.null(rownames(x))
  cells <- written(part)
  if (ncol(cells) != length(right)) right <- rep(TRUE, ncol(cells)) # a matrix within a data frame has several columns
  names <- if (is.null(colnames(cells))) paste0("[,", columns, "]") else colnames(cells)
  align <- ifelse(right, "right", "left")
  heads <- paste0("<th style=\"text-align: ", align, "\">", escape(names), "</th>", collapse = "")
  head <- paste0(if (named) "<th></th>", heads)
  body <- vapply(rows, function(i) {
    paste0("<tr>", if (named) paste0("<th>", escape(rownames(part)[i]), "</th>"),
           paste0("<td style=\"text-align: ", align, "\">", escape(cells[i, ]), "</td>", collapse = ""), "</tr>")
  }, "")
  paste0("<table><thead><tr>", head, "</tr></thead><tbody>", paste(body, collapse = "\n"), "</tbody></table>", cut_note(x))
}

written <- function(part) {
  text <- format(part, digits = getOption("digits"), trim = TRUE)
  cells <- as.matrix(text)
  dim <- dim(cells)
  matrix(trimws(as.character(cells)), dim[1L], dim[2L], dimnames = list(NULL, colnames(cells)))
}

cut_note <- function(x) {
  shown <- c(rows = min(nrow(x), limit("rows")), columns = min(ncol(x), limit("cols")))
  if (all(shown == dim(x))) return("")
  count <- function(n) format(n, big.mark = ",", trim = TRUE)
  paste0("<p>", count(shown[[1L]]), " of ", count(nrow(x)), " rows, ", count(shown[[2L]]), " of ", count(ncol(x)), " columns</p>")
}
