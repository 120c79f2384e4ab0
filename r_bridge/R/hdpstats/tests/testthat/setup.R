# What several files use. Everything needs Python: without it each test skips and says so.
need_python <- function() skip_if_not(dp_available(), "no Python with hdpstats (set HDPSTATS_PYTHON)")

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

# An error's class is the first one that is not shared by all of them.
caught <- function(code) tryCatch(code, error = identity)
