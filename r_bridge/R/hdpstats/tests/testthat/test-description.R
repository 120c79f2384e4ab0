test_that("a description is a first table with its errors", {
  need_python()
  study <- breast_cancer(4)
  request <- dp_describe(study, ~ age + size, by = "hormon")
  expect_s3_class(request, "dp_description_request", exact = TRUE)
  plan <- dp_describe_plan(request, epsilon = c(0.1, 1))
  expect_identical(unique(as.data.frame(plan)$epsilon), c(0.1, 1))
  expect_output(print(plan), "nothing is spent", fixed = TRUE)
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 0)
  table1 <- dp_describe(study, c("age", "size"), by = "hormon", epsilon = 1)
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 1)
  expect_s3_class(table1, "dp_description", exact = TRUE)
  frame <- as.data.frame(table1)
  expect_identical(
    names(frame), c("group", "variable", "level", "statistic", "estimate", "std.error", "conf.low", "conf.high")
  )
  expect_identical(unique(frame$group), c("0", "1"))
  expect_true(is.na(frame$variable[frame$statistic == "n"][[1L]]))
  expect_equal(generics::tidy(table1), frame)
  expect_output(print(summary(table1)), "age, mean (SD)", fixed = TRUE)
  expect_output(print(table1), "1-differential privacy (pure)", fixed = TRUE)
})

test_that("differences, follow-up and files are had for nothing", {
  need_python()
  study <- breast_cancer(4)
  table1 <- dp_describe(study, c("age", "Surv(time, event)"), by = "hormon", times = c(365, 1826), epsilon = 2)
  balance <- dp_balance(table1)
  expect_identical(balance$variable, c("age", "age"))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(table1), table1)
  expect_identical(dp_follow_up(table1)$until, c(365, 1826, 365, 1826))
  counts <- dp_describe(study, Surv(time, event) ~ hormon, times = 3, epsilon = 1)
  expect_identical(nrow(dp_follow_up(counts)), 6L)
  file <- tempfile(fileext = ".json")
  dp_write_description(table1, file)
  expect_equal(as.data.frame(dp_read_description(file)), as.data.frame(table1))
  expect_match(dp_disclosure(table1), "description/1", fixed = TRUE)
})

test_that("what is wrong is refused before anything is spent", {
  need_python()
  study <- breast_cancer(4)
  expect_error(dp_describe(study, "nobody", epsilon = 1), class = "dp_schema_error")
  expect_error(dp_describe(study, "age", by = "nodes", epsilon = 1), class = "dp_schema_error")
  expect_error(dp_describe("study", "age", epsilon = 1), class = "dp_argument_error")
  expect_error(dp_describe_plan("age"), class = "dp_argument_error")
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 0)
})

test_that("a fit states what the description cost that it rests on, as Python does", {
  need_python()
  schema <- dp_schema(age = dp_continuous(20, 90, complete = TRUE), event = dp_binary(complete = TRUE))
  study <- dp_study(
    private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema, budget = dp_budget(3)
  )
  cohort <- dp_describe(study, c("age", "event"), complete = TRUE, epsilon = 2)
  fit <- dp_logit(event ~ age, data = study, epsilon = 1, description = cohort)
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 3)
  expect_equal(fit$epsilon, 3)
  expect_identical(
    fit$guarantee, "3-differential privacy (pure) in all: 1 for the fit, 2 for the description it rests on"
  )
  shown <- gsub("[[:space:]]+", " ", paste(utils::capture.output(print(summary(fit))), collapse = " "))
  expect_match(shown, fit$guarantee, fixed = TRUE)
  expect_match(dp_disclosure(fit), "together 3-differentially private", fixed = TRUE)
  other <- dp_study(
    private = dp_load_rotterdam(), public = dp_load_gbsg(), schema = schema, budget = dp_budget(3)
  )
  expect_error(
    dp_logit(event ~ age, data = other, epsilon = 1, description = cohort), "charged to another account",
    class = "dp_argument_error"
  )
})

test_that("a new ledger is said in one line, and only one that exists is opened where that is asked", {
  need_python()
  file <- tempfile(fileext = ".db")
  expect_output(dp_ledger_open(file, dataset = "trial", epsilon = 2), "opened a new account for dataset 'trial'")
  expect_silent(dp_ledger_open(file, dataset = "trial", epsilon = 2))
  expect_error(
    dp_ledger_open(paste0(file, "x"), dataset = "trial", epsilon = 2, create = FALSE), class = "dp_ledger_error"
  )
})
