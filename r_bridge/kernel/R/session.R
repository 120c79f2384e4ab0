# What a session in a notebook has that a console has not.

# `ask` asks the front end: text, NULL for an interrupt, NA where it cannot be asked. `show_page` shows a text.
prepare <- function(ask, show_page) {
  state$tools <- environment(prepare)
  options(
    device = open_device, bitmapType = "cairo", menu.graphics = FALSE, width = 100L, help_type = "text",
    pager = function(files, header = NULL, title = "", delete.file = FALSE) {
      text <- unlist(lapply(files, readLines, warn = FALSE, encoding = "UTF-8"))
      if (isTRUE(delete.file)) unlink(files)
      show_page(paste(gsub("_\b", "", text), collapse = "\n"))
      invisible()
    }
  )
  utils::rc.settings(ipck = TRUE) # complete names of packages in library()
  setHook("before.plot.new", before_page, "append")
  setHook("before.grid.newpage", before_grid_page, "append")
  masks <- list(q = leave, quit = leave, readline = question(ask), warnings = last_warnings, View = view)
  attach(masks, name = "hdpstats:kernel", warn.conflicts = FALSE)
}

# In the place of View(), which would open a window: the value, which is shown as a table.
view <- function(x, title) {
  if (is.data.frame(x) || is.matrix(x)) x else as.data.frame(x)
}

# In the place of quit(): nothing is saved, and the cell is answered before the kernel ends.
leave <- function(save = "no", status = 0, runLast = TRUE) {
  signalCondition(structure(list(message = "quit", call = NULL), class = c("kernel_quit", "condition")))
}

# In the place of warnings(), which asks R's own loop.
last_warnings <- function(...) if (length(state$last)) structure(state$last, class = "warnings")

# In the place of readline(), which would not ask in a session that is not interactive.
question <- function(ask) {
  function(prompt = "") {
    answer <- ask(prompt)
    if (is.null(answer)) {
      signalCondition(structure(list(message = "", call = NULL), class = c("interrupt", "condition")))
      invokeRestart("abort")
    }
    if (is.na(answer)) stop("this front end cannot be asked: it takes no input", call. = FALSE)
    answer
  }
}
