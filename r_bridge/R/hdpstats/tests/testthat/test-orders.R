test_that("a study may stand first or second, and the call that is kept is the usual one", {
  need_python()
  study <- dp_study(private = dp_rotterdam, public = dp_gbsg, budget = dp_budget(9),
                    schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary(), hormon = dp_binary(), time = dp_duration(2557), event = dp_binary()))
  usual <- dp_logit(event3 ~ age, data = study, epsilon = 1)
  piped <- study |> dp_logit(event3 ~ age, epsilon = 1)
  expect_identical(coef(piped), coef(usual))
  expect_identical(piped$call, usual$call)
  expect_identical(coef(study |> dp_fit_public(event3 ~ age)), coef(dp_fit_public(event3 ~ age, data = study)))
  expect_identical(as.data.frame(study |> dp_plan(event3 ~ age, epsilon = 1)), as.data.frame(dp_plan(event3 ~ age, data = study, epsilon = 1)))
  expect_identical(as.data.frame(dp_describe(~ age, study, epsilon = 1)), as.data.frame(dp_describe(study, ~ age, epsilon = 1)))
  curves <- study |> dp_survfit(Surv(time, event) ~ hormon, times = c(365, 730), epsilon = 1)
  expect_s3_class(curves, "dp_curves")
  expect_error(dp_plan(study), "formula must be given", class = "dp_argument_error")
  expect_error(dp_logit(epsilon = 1), "data must be a study", class = "dp_argument_error")
})

test_that("a study may stand first in every function that takes one", {
  need_python()
  study <- dp_study(private = dp_rotterdam, public = dp_gbsg, budget = dp_budget(9),
                    schema = dp_schema(age = dp_continuous(20, 90), event3 = dp_binary(), hormon = dp_binary(), time = dp_duration(2557), event = dp_binary()))
  seen <- 0L
  for (name in grep("^dp_", getNamespaceExports("hdpstats"), value = TRUE)) {
    own <- getExportedValue("hdpstats", name)
    taken <- names(formals(own))
    if (!identical(taken[1:2], c("formula", "data"))) {
      expect_true(!any(c("study", "data") %in% taken) || taken[[1L]] == "study" || name %in% c("dp_plan_effect", "dp_request"), info = name)
      next
    }
    seen <- seen + 1L
    formula <- if (grepl("hazard|survfit", name)) Surv(time, event) ~ hormon else event3 ~ age
    said <- tryCatch(if (is.null(own(study, formula))) "nothing" else "", error = conditionMessage) # what is asked for next, such as epsilon
    expect_false(grepl("^(data|formula|study) must|nothing", said), info = paste(name, said))
  }
  expect_gt(seen, 10L)
  planned <- study |> dp_plan_effect(hormon ~ age, event3 ~ hormon, epsilon = 1)
  expect_identical(as.data.frame(planned), as.data.frame(dp_plan_effect(hormon ~ age, event3 ~ hormon, study, epsilon = 1)))
  paths <- replicate(2L, tempfile(fileext = ".json"))
  study |> dp_request("logit", event3 ~ age, epsilon = 1, path = paths[[1L]])
  dp_request("logit", event3 ~ age, study, epsilon = 1, path = paths[[2L]])
  expect_identical(readLines(paths[[1L]]), readLines(paths[[2L]]))
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 0)
})

test_that("every request is planned by one verb", {
  need_python()
  study <- dp_study(private = dp_rotterdam, public = dp_gbsg, budget = dp_budget(9),
                    schema = dp_schema(age = dp_continuous(20, 90), hormon = dp_binary(), time = dp_duration(2557), event = dp_binary()))
  request <- dp_survfit(Surv(time, event) ~ hormon, data = study, times = c(365, 730))
  expect_output(print(request), "dp_plan() predicts", fixed = TRUE)
  expect_identical(as.data.frame(dp_plan(request, epsilon = c(0.3, 1))),
                   as.data.frame(dp_plan(Surv(time, event) ~ hormon, data = study, model = "survfit", times = c(365, 730), epsilon = c(0.3, 1))))
  expect_s3_class(dp_plan(dp_describe(study, ~ age)), "dp_description_plan")
  expect_error(dp_plan(request, times = 3), "times is no argument", class = "dp_argument_error")
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 0)
})

test_that("data sets of the package are what Python loads", {
  need_python()
  for (name in c("rotterdam", "gbsg", "colon", "flchain", "nwtco", "pbcseq")) {
    loaded <- get(paste0("dp_load_", name))()
    expect_equal(get(paste0("dp_", name)), loaded)
  }
})

test_that("loops can be compiled beforehand", {
  need_python()
  takes_long()
  expect_null(dp_warm_up())
})

test_that("the report of a qualification has a name that says its format, before anything is checked", {
  need_python()
  expect_error(dp_qualify("report.pdf"), "must end in .html or .json", class = "dp_argument_error")
  shown <- structure(list(passed = TRUE, table = data.frame(requirement = "R1"), text = "1 of 1 checks passed"), class = "dp_qualification")
  expect_output(print(shown), "1 of 1 checks passed")
  expect_identical(as.data.frame(shown)$requirement, "R1")
})
