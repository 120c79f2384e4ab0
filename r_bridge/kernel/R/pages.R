# Plots. They are drawn on a device that keeps what is drawn and writes nothing; a page that is complete is drawn again
# as PNG and as SVG. Each cell has a device of its own. Options of IRkernel's names say how large pages are.

state$pages <- list()

open_device <- function(...) {
  size <- page_size()
  grDevices::png(nullfile(), width = size$width, height = size$height, units = "in", res = 96, pointsize = size$pointsize,
                 type = "cairo")
  grDevices::dev.control("enable")
}

page_size <- function() {
  list(
    width = getOption("repr.plot.width", 6.5), height = getOption("repr.plot.height", 4.5),
    res = getOption("repr.plot.res", 144), pointsize = getOption("repr.plot.pointsize", 12)
  )
}

# The number of the kernel's own device, which is the one that writes nowhere; NA if there is none.
own_device <- function() {
  if (!exists(".Devices", baseenv())) return(NA_integer_)
  places <- vapply(get(".Devices", baseenv()), function(device) identical(attr(device, "filepath"), nullfile()), NA)
  match(TRUE, places)
}

# Keep the page that is complete, if anything was drawn on it.
finish_page <- function() {
  own <- own_device()
  if (is.na(own)) return()
  current <- grDevices::dev.cur()
  if (current != own) {
    grDevices::dev.set(own)
    on.exit(grDevices::dev.set(current))
  }
  page <- grDevices::recordPlot()
  if (is_drawn(page)) state$pages <- c(state$pages, list(list(page = page, size = page_size())))
}

# Whether a page has more than settings.
is_drawn <- function(page) {
  calls <- vapply(page[[1L]], function(call) {
    routine <- call[[2L]][[1L]]
    if (is.list(routine) && is.character(routine$name)) routine$name else ""
  }, "")
  !all(calls %in% c("C_par", "C_layout", "C_strWidth", "C_strHeight", "C_clip"))
}

before_page <- function(...) {
  if (identical(unname(grDevices::dev.cur()), own_device()) && graphics::par("page")) finish_page()
}

before_grid_page <- function(...) if (identical(unname(grDevices::dev.cur()), own_device())) finish_page()

# Return the pages since somebody asked; at the end of a cell also the one that is being drawn.
take_pages <- function(end) {
  if (end) {
    finish_page()
    own <- own_device()
    if (!is.na(own)) grDevices::dev.off(own)
  }
  pages <- state$pages
  state$pages <- list()
  suppressWarnings(lapply(pages, draw))
}

draw <- function(page) {
  size <- page$size
  types <- getOption("jupyter.plot_mimetypes", c("image/png", "image/svg+xml"))
  current <- grDevices::dev.cur()
  on.exit(if (current > 1L) grDevices::dev.set(current))
  png <- function(file) {
    grDevices::png(file, width = size$width, height = size$height, units = "in", res = size$res, pointsize = size$pointsize,
                   type = "cairo")
  }
  svg <- function(file) grDevices::svg(file, width = size$width, height = size$height, pointsize = size$pointsize)
  devices <- list(`image/png` = png, `image/svg+xml` = svg)
  c(lapply(devices[intersect(names(devices), types)], copy, page = page$page),
    list(width = 96 * size$width, height = 96 * size$height))
}

# The bytes of a page on a device that `open` opens for a file.
copy <- function(open, page) {
  file <- tempfile("page")
  on.exit(unlink(file))
  open(file)
  tryCatch(grDevices::replayPlot(page), finally = grDevices::dev.off())
  readBin(file, "raw", file.size(file))
}
