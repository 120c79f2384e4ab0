test_that("columns are declared and checked at once", {
  need_python()
  age <- dp_continuous(20, 90)
  expect_s3_class(age, "dp_column")
  expect_equal(unclass(age)[c("lower", "upper")], list(lower = 20, upper = 90))
  expect_null(unclass(age)$missing) # a row with a missing cell is left out
  expect_equal(unclass(dp_continuous(0, 40, missing = 1))$missing, 1)
  expect_equal(unclass(dp_categorical(c(3, 1, 2)))$levels, c("3", "1", "2"))
  expect_equal(unclass(dp_categorical(c("a", "b"), missing_level = "unknown"))$levels, c("a", "b", "unknown"))
  expect_equal(unclass(dp_binary(labels = c(1, 2)))$labels, c("1", "2"))
  expect_true(unclass(dp_binary(complete = TRUE))$complete)
  expect_error(dp_binary(missing = 0, complete = TRUE), class = "dp_error")
  expect_output(print(dp_categorical(c("a", "b"))), "levels: a | b", fixed = TRUE)
  expect_error(dp_continuous(90, 20), "lower must be below upper", class = "dp_schema_error")
  expect_error(dp_binary(missing = 0.5), class = "dp_argument_error")
  expect_error(dp_categorical("one"), class = "dp_schema_error")
})

test_that("schemas survive YAML", {
  need_python()
  schema <- declared()
  file <- withr::local_tempfile(fileext = ".yaml")
  dp_write_schema(schema, file)
  expect_equal(dp_read_schema(file)$json, schema$json)
  expect_output(print(schema), "0 to 1826 days", fixed = TRUE)
})

test_that("a schema from public rows keeps what is declared", {
  need_python()
  schema <- dp_schema_from_public(dp_load_gbsg(), time = dp_duration(1000))
  expect_setequal(schema$columns, names(dp_load_gbsg()))
  expect_output(print(schema), "0 to 1000", fixed = TRUE)
})

test_that("public rows are refused as private ones", {
  need_python()
  rows <- dp_load_gbsg()
  expect_error(
    dp_study(private = rows, public = rows, schema = declared(), budget = dp_budget(1)), "other records",
    class = "dp_argument_error"
  )
  expect_error(dp_study(private = rows, schema = declared()), "without an account", class = "dp_argument_error")
})

test_that("the custodian's check names what the file has that the schema does not expect", {
  need_python()
  schema <- dp_schema(
    age = dp_continuous(20, 90), arm = dp_categorical(c("Placebo", "Drug")), event = dp_binary()
  )
  rows <- data.frame(id = c(1, 1, 2, NA), age = c(30L, NA, 40L, 95L), arm = factor(c("Placebo", "drug", "Drug ", NA)), event = c(1, 2, 1, 2))
  found <- dp_check(rows, schema, unit = "id")
  table <- as.data.frame(found)
  expect_equal(table$column, c("age", "arm", "event"))
  expect_equal(table$missing, c(1L, 1L, 0L))
  expect_equal(table$unreadable, c(0L, 2L, 2L))
  expect_equal(table$above, c(1L, 0L, 0L))
  expect_match(found$advice, "'drug' (1 cell) is not declared, 'Drug' is, and differs in case", fixed = TRUE, all = FALSE)
  expect_match(found$advice, "coded 1 and 2, not 0 and 1", all = FALSE)
  expect_output(print(found), "2 different people in 'id', 1 of them with several rows", fixed = TRUE)
  expect_identical(dp_check(data.frame(age = 30, arm = "Drug", event = 0), schema)$advice, character())
  expect_error(dp_check(rows, schema, unit = "pid"), class = "dp_schema_error")
  expect_error(dp_check(rows, list()), class = "dp_argument_error")
})

test_that("a schema from public rows keeps the order of levels and leaves constant columns out", {
  need_python()
  rows <- data.frame(
    grade = factor(c("low", "high", "mid", "low"), c("low", "mid", "high")), age = c(30, 40, 50, 60),
    centre = "Oslo", year = 2020L, unit = factor("a")
  )
  expect_warning(schema <- dp_schema_from_public(rows), "centre, year, unit", class = "dp_warning")
  expect_identical(schema$columns, c("grade", "age"))
  levels <- gsub(".*\"levels\": *\\[([^]]*)\\].*", "\\1", schema$json)
  expect_identical(gsub("[\" ]", "", levels), "low,mid,high")
  kept <- dp_schema_from_public(rows[c("grade", "age", "centre")], centre = dp_categorical(c("Oslo", "Bergen")))
  expect_identical(kept$columns, c("grade", "age", "centre"))
})

test_that("dp_plan plans any request", {
  need_python()
  study <- breast_cancer()
  ask <- dp_describe(study, c("age", "size"))
  expect_identical(as.data.frame(dp_plan(ask, epsilon = 0.5)), as.data.frame(dp_describe_plan(ask, 0.5)))
  curves <- dp_plan(Surv(time, event) ~ hormon, study, epsilon = 0.5, model = "survfit", times = 365 * 1:4)
  expect_identical(as.data.frame(curves), as.data.frame(dp_survfit_plan(Surv(time, event) ~ hormon, study, 0.5, times = 365 * 1:4)))
  expect_error(dp_plan(ask, delta = 1e-6), "delta is no argument of this plan", class = "dp_argument_error")
  expect_error(dp_plan(Surv(time, event) ~ hormon, study, model = "survfit", mechanism = "output"), "mechanism is no argument",
               class = "dp_argument_error")
})

test_that("NEWS is of the installed version", {
  need_installed()
  news <- utils::news(package = "hdpstats") # reads NEWS.Rd without another package, which NEWS.md would need
  expect_identical(unique(news$Version), as.character(utils::packageVersion("hdpstats")))
  expect_gt(nrow(news), 5)
})

test_that("citation() names the papers", {
  need_installed()
  found <- format(utils::citation("hdpstats"), style = "text")
  for (part in c("Hui", "Ohno-Machado", "Elkan", "tkde.2017.2773545", "Sung")) expect_true(any(grepl(part, found, fixed = TRUE)), info = part)
})

test_that("codes that a file of SPSS declares to be missing are said", {
  need_python()
  skip_if_not_installed("haven")
  rows <- data.frame(age = c(40, 50, 999, 998))
  rows$age <- haven::labelled_spss(rows$age, c(refused = 999), na_values = 999, na_range = c(990, 998))
  found <- dp_check(rows, dp_schema(age = dp_continuous(20, 90)))
  expect_match(found$advice, "column 'age': 2 cells are codes", fixed = TRUE, all = FALSE)
  expect_output(print(found), "haven::zap_missing()", fixed = TRUE)
  expect_match(repr::repr_html(found), "990 to 998", fixed = TRUE)
  expect_false(any(grepl("codes", dp_check(haven::zap_missing(rows), dp_schema(age = dp_continuous(20, 90)))$advice)))
})

test_that("invented rows are drawn from public ones, marked, and charged to no data set", {
  need_python()
  schema <- dp_schema(age = dp_continuous(20, 90), time = dp_duration(2557), event = dp_binary())
  rows <- dp_synthetic(schema, 200, public = dp_load_gbsg(), seed = 3)
  expect_identical(names(rows), c("age", "time", "event"))
  expect_identical(attr(rows, "hdpstats"), "invented")
  expect_true(all(rows$time %in% dp_load_gbsg()$time))
  expect_identical(rows, dp_synthetic(schema, 200, public = dp_load_gbsg(), seed = 3))
  visits <- dp_synthetic(dp_schema(start = dp_duration(90), stop = dp_duration(90), event = dp_binary()), 60,
                         unit = "id", max_rows_per_unit = 3, follow_up = c("start", "stop", "event"))
  expect_true(all(visits$start <= visits$stop))
  study <- dp_study(private = rows, schema = schema, budget = dp_budget(1))
  expect_match(dp_ledger(study)$dataset, "invented rows", fixed = TRUE)
  expect_error(dp_study(private = dp_load_rotterdam(), public = rows, schema = schema, budget = dp_budget(1)), "invented",
               class = "dp_argument_error")
})
