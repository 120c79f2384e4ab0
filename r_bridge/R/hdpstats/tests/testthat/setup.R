# What several files use. Everything needs Python: without it each test skips and says so.
need_python <- function() skip_if_not(dp_available(), "no Python with hdpstats (set HDPSTATS_PYTHON)")

# Tests in a process of their own need the package in a library, which the R inside Python does without.
need_installed <- function() {
  skip_if_not(nzchar(system.file(package = "hdpstats", lib.loc = .libPaths())), "the package is in no library")
}

declared <- function() {
  dp_schema(
    age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE), grade3 = dp_binary(complete = TRUE),
    nodes = dp_continuous(0, 40, complete = TRUE), hormon = dp_binary(complete = TRUE), time = dp_duration(1826, unit = "days", complete = TRUE),
    event = dp_binary(complete = TRUE), event3 = dp_binary(complete = TRUE)
  )
}

breast_cancer <- function(epsilon = 3) {
  dp_study(private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = declared(), budget = dp_budget(epsilon))
}

# An error's class is the first one that is not shared by all of them.
caught <- function(code) tryCatch(code, error = identity)
