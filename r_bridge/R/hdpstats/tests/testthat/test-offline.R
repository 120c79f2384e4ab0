test_that("calls keep names and constants, and lose data and environments", {
  plain <- getFromNamespace(".without_data", "hdpstats")
  hidden <- local({
    secret <- 1:10
    y ~ x
  })
  call <- plain(as.call(list(quote(f), hidden, data = data.frame(a = 1), h = quote(x[, 1]), k = NULL, "a", 3)))
  expect_equal(paste(deparse(call), collapse = ""), 'f(y ~ x, data = ..., h = x[, 1], k = NULL, "a", 3)')
  expect_null(attributes(call[[2L]]))
  expect_null(plain(3))
})

test_that("formulas choose their model", {
  model <- getFromNamespace(".model", "hdpstats")
  expect_equal(model(Surv(t, e) ~ x, NULL), "hazard")
  expect_equal(model(survival::Surv(t, e) ~ x, NULL), "hazard")
  expect_equal(model("Surv (a, b, c) ~ x", NULL), "hazard")
  expect_equal(model(Survivor ~ x, NULL), "logit")
  expect_equal(model(y ~ Surv, NULL), "logit")
})

test_that("long formulas stay one text", {
  text <- getFromNamespace(".formula_text", "hdpstats")
  long <- stats::reformulate(sprintf("covariate_%03d", 1:90), "outcome")
  expect_length(text(long), 1L)
  expect_match(text(long), "covariate_090$")
})

test_that("names beyond ASCII get the backticks that Python's parser asks for", {
  skip_if_not(l10n_info()[["UTF-8"]])
  text <- getFromNamespace(".formula_text", "hdpstats")
  written <- as.formula("event ~ log(\u00c5lder) + `a b` + \u00c5lder:size + \u00e9")
  expect_equal(text(written), "event ~ log(`\u00c5lder`) + `a b` + `\u00c5lder`:size + `\u00e9`")
  expect_equal(text(y ~ x), "y ~ x")
})

test_that("without Python the error says what to install", {
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(c(
    sprintf(".libPaths(%s)", paste(deparse(.libPaths()), collapse = "")),
    "Sys.setenv(HDPSTATS_PYTHON = '/nowhere/python')",
    "library(hdpstats)",
    "cat(dp_available(), '\\n')",
    "tryCatch(dp_binary(), error = function(e) cat(class(e), conditionMessage(e)))"
  ), script)
  need_installed()
  skip_if_not_installed("reticulate")
  printed <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE)
  expect_match(printed[1L], "FALSE")
  expect_match(paste(printed, collapse = " "), "dp_no_python dp_error error condition.*/nowhere/python.*pip install '\\.\\[r\\]'")
})
