test_that("tables have broom's names", {
  need_python()
  fit <- private_fit()
  table <- dp_tidy(fit)
  expect_named(table, c("term", "estimate", "std.error", "statistic", "p.value"))
  expect_equal(table$estimate, unname(coef(fit)))
  ratios <- dp_tidy(fit, conf.int = TRUE, conf.level = 0.9, exponentiate = TRUE)
  expect_equal(ratios$conf.high, unname(exp(confint(fit, level = 0.9)[, 2])))
  expect_equal(ratios$std.error, table$std.error)
  glanced <- dp_glance(fit)
  expect_equal(nrow(glanced), 1L)
  expect_equal(glanced[c("epsilon", "delta", "nobs")], data.frame(epsilon = 1, delta = 0, nobs = 2982L))
  expect_equal(as.data.frame(fit), dp_tidy(fit, conf.int = TRUE))
  expect_s3_class(dp_modelsummary(fit), "modelsummary_list")
  public <- dp_modelsummary(dp_fit_public(Surv(time, event) ~ age, data = public_study()))
  expect_named(public$glance, c("nobs", "Public rows", "Epsilon", "Delta"))
  expect_identical(names(dp_modelsummary(fit)$glance), names(public$glance)) # the same lines below every fit
  expect_identical(dp_modelsummary(fit)$glance$Epsilon, 1)
  skip_if_not_installed("generics")
  expect_equal(generics::tidy(fit, conf.int = TRUE), dp_tidy(fit, conf.int = TRUE))
  expect_equal(generics::glance(fit), glanced)
})

test_that("documents show p-values as Python does", {
  shown <- getFromNamespace(".shown_p", "hdpstats")
  expect_identical(shown(c(1, 1.5, NA, 400) / 4001, 1 / 4001), c("<0.00025", "0.00037", "NA", "0.100"))
  expect_identical(shown(c(1e-9, 0.04321), 0), c("<0.001", "0.043"))
  pairs <- getFromNamespace(".knit_pairs", "hdpstats")
  expect_identical(pairs(data.frame(name = c("a:", "", "b*"), value = c("1", "2", "x_y"))), "**a:** 1; 2  \n**b\\*** x\\_y")
  need_python()
  takes_long()
  fit <- dp_logit(event3 ~ nodes + age, data = breast_cancer(), epsilon = 3) # far from 0: at the floor
  expect_equal(summary(fit)$coefficients[["nodes", 4L]], 1 / 4001)
  skip_if_not_installed("xtable")
  expect_identical(xtable::xtable(fit)[["Pr(>|z|)"]][[2L]], "<0.00025")
})

test_that("the three estimates are side by side", {
  need_python()
  fit <- dp_hazard(Surv(time, event) ~ age, data = breast_cancer(), epsilon = 1, intervals = 6, df = 3)
  table <- dp_estimates(fit)
  expect_equal(unique(table$label), c("public only", "private only", "pooled"))
  expect_equal(table$estimate[table$label == "pooled"], unname(coef(fit)))
  expect_equal(table$term[!table$baseline], rep("age", 3))
})

test_that("results outlive the session: text alone is enough", {
  need_python()
  fit <- private_fit()
  file <- withr::local_tempfile(fileext = ".json")
  dp_write_result(fit, file)
  again <- dp_read_result(file)
  fit$call <- NULL
  fit["public_fingerprint"] <- list(NULL) # what a study that the call names is compared with
  expect_identical(unclass(again), unclass(fit))
  saved <- withr::local_tempfile(fileext = ".rds")
  saveRDS(fit, saved)
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(c(
    sprintf(".libPaths(%s)", paste(deparse(.libPaths()), collapse = "")),
    "library(hdpstats)",
    sprintf("fit <- readRDS(%s)", deparse(saved)),
    "cat(format(c(coef(fit), confint(fit)), digits = 17), sep = '\\n')"
  ), script)
  need_installed()
  printed <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE)
  expect_identical(as.numeric(printed), as.vector(c(coef(fit), confint(fit))))
})

test_that("the privacy record is JSON for output checkers", {
  need_python()
  fit <- private_fit()
  expect_match(dp_disclosure(fit), "not_protected", fixed = TRUE)
})

test_that("forms on a fit and on a data set are filled in", {
  need_python()
  study <- breast_cancer()
  fit <- dp_logit(event3 ~ age, data = study, epsilon = 1)
  form <- dp_disclosure(fit, form = "text")
  expect_output(print(form), "epsilon = 1 for the fit of event3 ~")
  said <- list(security = "On one server.", curators = c("A", "B"), served = FALSE)
  whole <- dp_disclosure(study, form = "nist", statements = said)
  points <- as.data.frame(whole)
  expect_equal(nrow(points), 19L)
  expect_identical(points$answer[points$number == "17"], "On one server.")
  expect_setequal(whole$missing, c("other_releases", "access", "minimisation"))
  expect_match(format(dp_disclosure(study, form = "registry")), "variant_name: Pure DP", fixed = TRUE)
  expect_error(dp_disclosure(study), class = "dp_argument_error")
  expect_error(dp_disclosure(study, form = "gdpr"), class = "dp_argument_error")
})

test_that("a result without signatures is told, and a key that is none", {
  need_python()
  fit <- private_fit()
  key <- tempfile(fileext = ".pub")
  writeLines("no key", key)
  expect_error(dp_verify(fit, key), "signing-key STEM", class = "dp_argument_error")
  expect_error(dp_ledger_verify(breast_cancer(), head = strrep("ab", 32), key = key), class = "dp_argument_error")
})

test_that("plots are drawn", {
  need_python()
  study <- breast_cancer()
  fit <- dp_hazard(Surv(time, event) ~ age + hormon, data = study, epsilon = 1, intervals = 6)
  women <- data.frame(age = c(50, 70), hormon = 0:1)
  drawn <- function(code) {
    file <- withr::local_tempfile(fileext = ".svg")
    grDevices::svg(file)
    before <- graphics::par("mar")
    code
    expect_equal(graphics::par("mar"), before)
    grDevices::dev.off()
    sum(grepl("<path", readLines(file)))
  }
  expect_gt(drawn(plot(fit)), 15)
  expect_gt(drawn(plot(fit, exponentiate = TRUE)), 15)
  expect_gt(drawn(plot(fit, newdata = women)), 15)
  expect_gt(drawn(plot(fit, newdata = women, which = "hazard", labels = c("a", "b"))), 15)
  expect_gt(drawn(plot(dp_plan(event3 ~ age, data = study))), 15)
  expect_error(plot(fit, which = "survival"), "newdata", class = "dp_argument_error")
})
