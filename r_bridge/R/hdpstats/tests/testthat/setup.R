# What several files use. Everything needs Python: without it each test skips and says so.
need_python <- function() skip_if_not(dp_available(), "no Python with hdpstats (set HDPSTATS_PYTHON)")

# Tests that take a second or more each, and run where all are asked for: by R CMD check, and every night.
takes_long <- function() skip_if(identical(getOption("hdpstats.tests"), "short"), "takes long")

# Tests in a process of their own need the package in a library, which the R inside Python does without.
need_installed <- function() {
  skip_if_not(nzchar(system.file(package = "hdpstats", lib.loc = .libPaths())), "the package is in no library")
}

# What every test may have from the one before, as nothing changes it: made when it is first asked for.
.made <- new.env()
once <- function(name, value) {
  if (is.null(.made[[name]])) assign(name, value, .made)
  .made[[name]]
}

rotterdam <- function() once("rotterdam", dp_load_rotterdam())

gbsg <- function() once("gbsg", dp_load_gbsg())

declared <- function() {
  once("declared", dp_schema(
    age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE), grade3 = dp_binary(complete = TRUE),
    nodes = dp_continuous(0, 40, complete = TRUE), hormon = dp_binary(complete = TRUE), time = dp_duration(1826, unit = "days", complete = TRUE),
    event = dp_binary(complete = TRUE), event3 = dp_binary(complete = TRUE)
  ))
}

breast_cancer <- function(epsilon = 3) {
  dp_study(private = rotterdam(), public = gbsg(), schema = declared(), budget = dp_budget(epsilon))
}

public_study <- function() once("public study", dp_study(public = gbsg(), schema = declared()))

# A private fit of an account of its own, for tests of what can be done with one.
private_fit <- function() once("private fit", dp_logit(event3 ~ age + hormon, data = breast_cancer(), epsilon = 1))

private_curves <- function() once("private curves", dp_survfit(Surv(time, event) ~ hormon, breast_cancer(1), epsilon = 1, times = 6))

# An error's class is the first one that is not shared by all of them.
caught <- function(code) tryCatch(code, error = identity)

# What base graphics draw: a list of the calls of a page, each with the name of its primitive and its arguments.
calls_of <- function(code, width = 7, height = 6, dark = FALSE) {
  grDevices::pdf(NULL, width = width, height = height)
  on.exit(grDevices::dev.off())
  grDevices::dev.control("enable")
  if (dark) graphics::par(bg = "black", fg = "white")
  force(code)
  lapply(grDevices::recordPlot()[[1L]], function(call) {
    parts <- as.list(call[[2L]])
    list(name = parts[[1L]]$name, arguments = parts[-1L])
  })
}

# The lines of a page as data frames, each with its colour.
lines_in <- function(calls) {
  drawn <- Filter(function(call) call$name == "C_plotXY" && call$arguments[[2L]] %in% c("l", "s"), calls)
  lapply(drawn, function(call) list(x = call$arguments[[1L]]$x, y = call$arguments[[1L]]$y, col = call$arguments[[5L]], lty = call$arguments[[4L]]))
}

# All texts of a page: in margins, of axes, of legends.
texts_in <- function(calls) {
  found <- lapply(calls, function(call) Filter(function(each) is.character(each) || is.expression(each), call$arguments))
  unlist(lapply(unlist(found, recursive = FALSE), as.character))
}
