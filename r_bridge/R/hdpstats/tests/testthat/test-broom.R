# What broom, tibble, knitr, xtable, multcomp, insight and gtsummary's broom.helpers call, by what they call.

test_that("every object is a table: for as.data.frame, data.frame, tibble, kable and tidy", {
  need_python()
  takes_long()
  study <- breast_cancer(epsilon = 20)
  fit <- dp_logit(event3 ~ age + size, data = study, epsilon = 3)
  curves <- dp_survfit(Surv(time, event) ~ hormon, study, epsilon = 1, times = 365 * 1:5)
  sample <- dp_hybrid_weights(study, c("age", "size"), epsilon = 1)
  several <- list(
    fit, summary(fit), anova(fit), dp_wald_test(fit), dp_contrast(fit, term = "size"), dp_average_effects(fit, "size", over = study),
    dp_aggregate(list(a = fit)), dp_compare(fit, fit), dp_plan(event3 ~ age, study), dp_survfit_plan(Surv(time, event) ~ 1, study),
    curves, summary(curves), dp_logrank_test(curves), dp_describe(study, "age", epsilon = 1), sample, declared(), dp_ledger(study)
  )
  for (each in several) {
    of <- class(each)[[1L]]
    table <- tidy(each)
    expect_identical(class(table), "data.frame", info = of)
    expect_gt(nrow(table), 0L)
    expect_identical(nrow(data.frame(each)), nrow(as.data.frame(each)), info = of)
    if (requireNamespace("tibble", quietly = TRUE)) expect_s3_class(tibble::as_tibble(each), "tbl_df")
    if (requireNamespace("knitr", quietly = TRUE)) expect_s3_class(knitr::kable(each), "knitr_kable")
  }
  expect_identical(tidy(anova(fit))$term, c("(Intercept)", "age", "size"))
  expect_identical(as.data.frame(summary(fit, level = 0.8))$conf.low, unname(confint(fit, level = 0.8)[, 1L]))
  for (each in list(fit, curves, sample, dp_describe(study, "age", epsilon = 1), dp_compare(fit, fit), dp_aggregate(list(a = fit)),
                    dp_average_effects(fit, "size", over = study), dp_wald_test(fit, "age = 0"), dp_logrank_test(curves))) {
    of <- class(each)[[1L]]
    row <- glance(each)
    expect_identical(nrow(row), 1L, info = of)
    expect_true(all(vapply(row, is.numeric, NA)), info = of)
  }
  expect_identical(glance(curves)$epsilon, 1)
  expect_equal(glance(curves)$events, sum(tidy(curves)$events))
  expect_error(glance(dp_wald_test(fit)), "one test", class = "dp_argument_error")
})

test_that("xtable takes a summary as it takes a fit", {
  need_python()
  skip_if_not_installed("xtable")
  fit <- private_fit()
  expect_identical(xtable::xtable(summary(fit)), xtable::xtable(fit))
})

test_that("what broom.helpers asks for gives the headers of gtsummary", {
  need_python()
  study <- public_study()
  type <- getFromNamespace("model_get_coefficients_type.dp_result", "hdpstats")
  expect_identical(type(dp_fit_public(event3 ~ age, study)), "logistic") # OR
  expect_identical(type(dp_fit_public(Surv(time, event) ~ age, study, link = "cloglog")), "prop_hazard") # HR
  expect_identical(type(dp_fit_public(Surv(time, event) ~ age, study)), "logistic")
  expect_identical(type(dp_fit_public(nodes ~ age, study, model = "poisson")), "poisson") # IRR
  expect_identical(type(dp_fit_public(nodes ~ age, study, model = "linear")), "generic")
  assign("of_broom_helpers", study, globalenv()) # a study that a call names is looked up there
  on.exit(rm("of_broom_helpers", envir = globalenv()))
  fit <- dp_fit_public(event3 ~ age + size, of_broom_helpers)
  numbers <- getFromNamespace("model_get_assign.dp_result", "hdpstats")(fit)
  expect_identical(as.integer(numbers), c(0L, 1L, 2L, 2L))
  expect_identical(colnames(attr(numbers, "model_matrix")), names(coef(fit)))
  expect_null(getFromNamespace("model_get_n.dp_result", "hdpstats")(fit)) # public rows are not the people of a fit
})

test_that("multcomp reads coefficients, covariances and the rows of factors", {
  need_python()
  takes_long()
  skip_if_not_installed("multcomp")
  study <- public_study()
  fit <- dp_fit_public(event3 ~ age + size, study)
  given <- multcomp::glht(fit, linfct = rbind(difference = c(0, 0, -1, 1)))
  expect_equal(unname(coef(given)), coef(fit)[["size>50"]] - coef(fit)[["size20-50"]])
})

test_that("insight knows the statistic", {
  need_python()
  skip_if_not_installed("insight")
  fit <- private_fit()
  expect_equal(insight::get_statistic(fit)$Statistic, unname(summary(fit)$coefficients[, "z value"]))
})
