# Completion, help, and whether code is complete.

complete <- function(line) {
  utils:::.assignLinebuffer(line)
  utils:::.assignEnd(nchar(line))
  token <- utils:::.guessTokenFromLine()
  utils:::.completeToken()
  if (is.null(token)) token <- ""
  list(token = token, matches = setdiff(as.character(utils:::.retrieveCompletions()), token))
}

# "complete", "incomplete" or "invalid". A parser that wants more complains about the line after the last one.
completeness <- function(code) {
  tryCatch({
    parse(text = code, keep.source = FALSE)
    "complete"
  }, error = function(e) {
    end <- paste0("^<text>:", length(strsplit(paste0(code, " "), "\n", fixed = TRUE)[[1L]]) + 1L, ":0:")
    if (grepl(end, conditionMessage(e)) || grepl("INCOMPLETE_STRING|raw string", conditionMessage(e))) "incomplete" else "invalid"
  })
}

# The function whose arguments are being written where the code ends, and its arguments; "" outside of a call.
inspect_call <- function(code) {
  name <- enclosing_call(code)
  value <- if (nzchar(name)) tryCatch(eval(str2lang(name), globalenv()), error = function(e) NULL)
  if (is.function(value)) inspect(name) else ""
}

# The name before the last parenthesis that is open at the end of some code; "" if there is none. Texts and comments are
# passed over.
enclosing_call <- function(code) {
  code <- gsub("\"(\\\\.|[^\"\\\\])*\"|'(\\\\.|[^'\\\\])*'", "''", code)
  signs <- strsplit(gsub("#[^\n]*", "", code), "")[[1L]]
  depth <- 0L
  for (place in rev(seq_along(signs))) {
    if (signs[[place]] %in% c(")", "]", "}")) depth <- depth + 1L
    if (signs[[place]] %in% c("(", "[", "{")) {
      if (depth == 0L && signs[[place]] == "(") {
        before <- paste(signs[seq_len(place - 1L)], collapse = "")
        return(regmatches(before, regexpr("(([[:alpha:].][[:alnum:]._]*:::?)?[[:alpha:].][[:alnum:]._]*)?$", before)))
      }
      depth <- depth - 1L
      if (depth < 0L) return("")
    }
  }
  ""
}

# What is known about a name: its kind, the arguments and the help page of a function. Never a value.
inspect <- function(name) {
  value <- tryCatch(eval(str2lang(name), globalenv()), error = function(e) NULL)
  about <- if (!is.null(value)) facts(name, value)
  topic <- sub("^.*:::?", "", name)
  page <- tryCatch(help_text(topic), error = function(e) NULL)
  paste(c(about, if (length(about) && length(page)) "", page), collapse = "\n")
}

facts <- function(name, value) {
  if (is.function(value)) {
    lines <- utils::capture.output(print(args(value)))
    return(sub("^function ", name, lines[-length(lines)]))
  }
  shape <- if (is.null(dim(value))) paste("length", length(value)) else paste(dim(value), collapse = " x ")
  columns <- if (is.data.frame(value)) paste0("  ", names(value), ": ", vapply(value, function(x) class(x)[[1L]], ""))
  c(paste0(name, ": ", paste(class(value), collapse = ", "), ", ", shape), columns)
}
