# What other packages call on a result may not spend.

comparing <- list(
  waldtest = function(fit) lmtest::waldtest(fit, . ~ . - hormon),
  `waldtest of a term` = function(fit) lmtest::waldtest(fit, "hormon"),
  `a bootstrap` = function(fit) sandwich::vcovBS(fit, R = 2),
  update = function(fit) update(fit, . ~ . - hormon),
  `update to nothing new` = function(fit) update(fit),
  `update without evaluation` = function(fit) eval(update(fit, . ~ . - hormon, evaluate = FALSE)),
  `update by default` = function(fit) utils::getFromNamespace("update.default", "stats")(fit, . ~ . - hormon),
  `the call again` = function(fit) eval(getCall(fit)),
  `the call changed` = function(fit) eval(replace(fit$call, "formula", list(quote(event3 ~ age)))),
  drop1 = function(fit) drop1(fit),
  add1 = function(fit) add1(fit, ~ . + nodes),
  step = function(fit) step(fit),
  extractAIC = function(fit) extractAIC(fit),
  anova = function(fit) anova(fit, fit),
  profile = function(fit) profile(fit),
  simulate = function(fit) simulate(fit),
  weights = function(fit) weights(fit),
  `regTermTest by likelihoods` = function(fit) survey::regTermTest(fit, ~ hormon, df = Inf, method = "LRT"),
  `a test with degrees of freedom` = function(fit) survey::regTermTest(fit, ~ hormon),
  AIC = function(fit) AIC(fit),
  residuals = function(fit) residuals(fit)
)

test_that("no function of other packages spends", {
  need_python()
  skip_if_not_installed("lmtest")
  skip_if_not_installed("sandwich")
  skip_if_not_installed("survey")
  skip_if_not_installed("emmeans")
  study <- breast_cancer(epsilon = 50)
  assign("the_study", study, globalenv()) # where functions of other packages find what a call names
  on.exit(rm("the_study", envir = globalenv()))
  fit <- dp_logit(event3 ~ age + hormon, data = the_study, epsilon = 1)
  charges <- nrow(as.data.frame(dp_ledger(study)))
  for (name in names(comparing)) {
    expect_s3_class(caught(comparing[[name]](fit)), "error")
    expect_equal(dp_ledger(study)$spent[["epsilon"]], 1, info = name)
    expect_equal(nrow(as.data.frame(dp_ledger(study))), charges, info = name)
  }
  for (name in c("waldtest", "update", "update without evaluation", "drop1", "the call again", "step")) {
    expect_true(inherits(caught(comparing[[name]](fit)), "dp_error"), info = name)
  }
  expect_match(conditionMessage(caught(comparing$waldtest(fit))), "epsilon = 1")
})

test_that("what needs no fit still works, for free", {
  need_python()
  skip_if_not_installed("lmtest")
  study <- breast_cancer()
  fit <- dp_logit(event3 ~ age + hormon, data = study, epsilon = 1)
  expect_equal(unname(unclass(lmtest::coeftest(fit, df = Inf))[, 1:2]), unname(cbind(coef(fit), fit$bse)))
  confint(fit)
  predict(fit, newdata = gbsg())
  update(formula(fit), . ~ . - age)
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 1)
})

test_that("update fits again where the user says what it may cost", {
  need_python()
  study <- breast_cancer()
  fit <- dp_logit(event3 ~ age + hormon, data = study, epsilon = 1)
  expect_identical(coef(update(fit, epsilon = 1)), coef(fit)) # the same fit, already charged
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 1)
  smaller <- update(fit, . ~ . - hormon, epsilon = 0.5)
  expect_named(coef(smaller), c("(Intercept)", "age"))
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 1.5)
  expect_named(coef(update(smaller, . ~ . + nodes, epsilon = 0.5, replicate = 2)), c("(Intercept)", "age", "nodes"))
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 2)
  expect_s3_class(caught(update(smaller, replicate = 3)), "dp_argument_error")
  public <- dp_fit_public(event3 ~ age + hormon, study)
  expect_named(coef(update(public, . ~ . - hormon)), c("(Intercept)", "age"))
  public$call <- NULL
  expect_s3_class(caught(update(public, . ~ .)), "dp_argument_error")
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 2)
})

free <- list(
  anova = function(fit) anova(fit),
  Anova = function(fit) car::Anova(fit, type = 3),
  linearHypothesis = function(fit) car::linearHypothesis(fit, "hormon = age"),
  regTermTest = function(fit) survey::regTermTest(fit, ~ hormon, df = Inf),
  emmeans = function(fit) emmeans::emmeans(fit, ~ hormon, at = list(hormon = 0:1)),
  qdrg = function(fit) emmeans::emmeans(emmeans::qdrg(~ age + hormon, gbsg(), coef = coef(fit), vcov = vcov(fit)), ~ hormon),
  parameters = function(fit) parameters::model_parameters(fit),
  coeftest = function(fit) lmtest::coeftest(fit),
  `model.frame and model.matrix` = function(fit) list(model.frame(fit), model.matrix(fit)),
  summary = function(fit) capture.output(print(summary(fit))),
  tidy = function(fit) generics::tidy(fit, conf.int = TRUE),
  augment = function(fit) generics::augment(fit, newdata = gbsg()),
  xtable = function(fit) xtable::xtable(fit),
  repr = function(fit) repr::repr_html(fit)
)

test_that("tests and effects of other packages cost nothing", {
  need_python()
  packages <- c("car", "emmeans", "lmtest", "parameters", "repr", "survey", "xtable")
  for (package in packages) skip_if_not_installed(package)
  study <- breast_cancer(epsilon = 50)
  assign("the_study", study, globalenv())
  on.exit(rm("the_study", envir = globalenv()))
  fit <- dp_logit(event3 ~ age + hormon, data = the_study, epsilon = 1)
  charges <- nrow(as.data.frame(dp_ledger(study)))
  for (name in names(free)) {
    expect_no_error(free[[!!name]](fit))
    expect_equal(nrow(as.data.frame(dp_ledger(study))), charges, info = name)
  }
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 1)
  expect_equal(parameters::model_parameters(fit)$CI_low, unname(confint(fit)[, 1])) # not the normal distribution's
})

# What performance and insight compute from rows, from those of the study or from none: all that they export and take a fit.
of_rows <- function() {
  named <- c("get_residuals", "get_deviance", "get_loglikelihood", "get_sigma", "get_auxiliary")
  insight <- stats::setNames(lapply(named, getExportedValue, ns = "insight"), named)
  names <- sort(getNamespaceExports("performance"))
  names <- grep("^(r2|performance|model_performance|compare_performance|mae|mse|rmse|binned|check_|icc|looic|test_|posterior)", names, value = TRUE)
  free <- c("check_collinearity", "multicollinearity", "check_singularity", "check_convergence") # of coefficients, or of none
  c(insight, stats::setNames(nm = setdiff(names, free), lapply(setdiff(names, free), getExportedValue, ns = "performance")))
}

test_that("no number of public rows is given for one of the fit", {
  need_python()
  for (package in c("performance", "parameters")) skip_if_not_installed(package)
  study <- breast_cancer(epsilon = 50)
  assign("the_study", study, globalenv())
  on.exit(rm("the_study", envir = globalenv()))
  fits <- list(
    logit = dp_logit(event3 ~ age + log1p(nodes), data = the_study, epsilon = 1),
    hazard = dp_hazard(Surv(time, event) ~ age + hormon, data = the_study, epsilon = 1, intervals = 5),
    linear = dp_linear(nodes ~ age + hormon, data = the_study, epsilon = 1),
    public = dp_fit_public(nodes ~ age + hormon, data = the_study, model = "poisson")
  )
  spent <- dp_ledger(study)$spent[["epsilon"]]
  functions <- of_rows()
  for (fit in fits) {
    for (name in names(functions)) {
      given <- tryCatch({
        utils::capture.output(value <- suppressMessages(suppressWarnings(functions[[name]](fit))))
        value
      }, error = function(e) NULL)
      expect_true(!any(is.finite(suppressWarnings(as.numeric(unlist(given))))), info = paste(name, class(fit)[[1L]]))
    }
  }
  expect_equal(dp_ledger(study)$spent[["epsilon"]], spent)
  refused <- c("r2", "model_performance", "performance_mse", "performance_aic", "check_model", "check_outliers", "check_homogeneity")
  for (name in refused) {
    pattern <- paste0(name, "\\(\\) has no value here: .* was not released")
    expect_error(getExportedValue("performance", name)(fits$logit), pattern, class = "dp_argument_error")
  }
  expect_error(parameters::standardize_parameters(fits$logit), "nothing was spent", class = "dp_argument_error")
  expect_error(performance::check_collinearity(fits$hazard), "vif", class = "dp_argument_error")
  expect_s3_class(performance::check_collinearity(fits$logit), "check_collinearity")
})

test_that("one hypothesis has one p-value", {
  need_python()
  fit <- dp_logit(event3 ~ age + size + nodes, data = breast_cancer(), epsilon = 1)
  table <- coef(summary(fit))
  single <- c("(Intercept)", "age", "nodes")
  expect_identical(unname(anova(fit)[single, "Pr(>Chisq)"]), unname(table[single, "Pr(>|z|)"]))
  expect_identical(dp_wald_test(fit, "age = 0")$p.value, table[["age", "Pr(>|z|)"]])
  expect_identical(dp_contrast(fit, "age = 0")$p.value, table[["age", "Pr(>|z|)"]])
  skip_if_not_installed("car")
  expect_identical(car::Anova(fit, type = 3)[["age", 3L]], table[["age", "Pr(>|z|)"]])
})

test_that("IRkernel shows objects as the pages of Python", {
  need_python()
  skip_if_not_installed("repr")
  study <- breast_cancer()
  fit <- dp_fit_public(event3 ~ age + size, study)
  shown <- list(
    fit, study, declared(), dp_plan(event3 ~ age, study, 1), dp_compare(fit, fit),
    dp_ledger_open(dataset = "trial", epsilon = 1)
  )
  for (each in shown) expect_match(repr::repr_html(each), "<div class=\"hdp-page\">", fixed = TRUE, info = class(each)[[1L]])
  expect_match(repr::repr_html(summary(fit)), "size&gt;50.*<", info = "summary of a fit")
})
