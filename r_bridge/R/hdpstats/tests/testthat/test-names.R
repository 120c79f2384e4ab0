# Coefficients have the names and the order of colnames(model.matrix()), and generics that use them agree with glm's.

formulas <- list(
  event3 ~ age + size * hormon + log1p(nodes), event3 ~ size:age + size, event3 ~ 0 + size + age, event3 ~ arm * age,
  event3 ~ arm:age + age, event3 ~ factor(size) + factor(grade3) + age:factor(size),
  event3 ~ factor(hormon) + size + size:factor(grade3):factor(hormon) + size:factor(hormon),
  event3 ~ size + factor(grade3):size, event3 ~ I(age^2) + age:nodes,
  event3 ~ I(age > 50) + I(size == ">50"), event3 ~ I(age > 50):size + size, event3 ~ cut(age, c(0, 50, 60, 100)),
  event3 ~ relevel(size, ref = "20-50") * arm,
  event3 ~ poly(age, 2) + arm, event3 ~ ns(age, df = 3) + bs(nodes, knots = c(5, 10)) + size
)

with_arms <- function() once("with arms", .with_arms())

.with_arms <- function() {
  rows <- gbsg()
  rows$arm <- factor(rows$hormon, 0:1, c("placebo", "active"))
  columns <- list(
    age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(levels(rows$size), complete = TRUE),
    grade3 = dp_binary(complete = TRUE), nodes = dp_continuous(0, 60, complete = TRUE), hormon = dp_binary(complete = TRUE),
    arm = dp_binary(labels = levels(rows$arm), complete = TRUE), time = dp_duration(2700, "days", complete = TRUE),
    event = dp_binary(complete = TRUE), event3 = dp_binary(complete = TRUE)
  )
  schema <- do.call(dp_schema, columns)
  list(rows = rows, schema = schema, study = dp_study(public = rows, schema = schema))
}

test_that("names and order are those of model.matrix", {
  need_python()
  own <- with_arms()
  ns <- splines::ns
  bs <- splines::bs
  for (formula in formulas) {
    environment(formula) <- environment()
    fit <- suppressWarnings(dp_fit_public(formula, own$study)) # some cells of three factors are empty
    names <- colnames(model.matrix(formula, own$rows))
    expect_identical(names(coef(fit)), names, info = deparse(formula))
    expect_identical(dimnames(vcov(fit)), list(names, names))
    expect_identical(colnames(model.matrix(fit, own$rows)), names)
  }
  expect_identical(rownames(confint(fit)), names) # and tables in the order of the last of them
  expect_identical(rownames(coef(summary(fit))), names)
  expect_identical(dp_tidy(fit)$term, names)
  expect_equal(dp_tidy(fit)$estimate, unname(coef(fit)))
  expect_equal(unname(rowMeans(confint(fit))), unname(coef(fit)))
  reference <- model.matrix(formulas[[7]], stats::na.omit(own$rows))
  ours <- model.matrix(suppressWarnings(dp_fit_public(formulas[[7]], own$study)), stats::na.omit(own$rows))
  expect_equal(unclass(ours)[, ], unclass(reference)[, ], ignore_attr = TRUE)
  expect_equal(attr(ours, "assign"), attr(reference, "assign"))
  everything <- dp_study(public = own$rows[c("age", "size", "event3")], schema = dp_schema(
    age = dp_continuous(20, 90, complete = TRUE), size = dp_categorical(levels(own$rows$size), complete = TRUE), event3 = dp_binary()
  ))
  dot <- dp_fit_public(event3 ~ ., everything)
  expect_identical(names(coef(dot)), c("(Intercept)", "age", "size20-50", "size>50"))
  expect_identical(rownames(anova(dot)), c("(Intercept)", "age", "size"))
  hazard <- dp_fit_public(Surv(time, event) ~ arm + size, own$study, intervals = 5)
  expect_identical(names(coef(hazard))[5:7], c("armactive", "size20-50", "size>50"))
  expect_match(readLines(local({
    file <- tempfile()
    dp_write_result(dp_fit_public(event3 ~ arm, own$study), file)
    file
  }), warn = FALSE), "\"Intercept\"", fixed = TRUE, all = FALSE)
})

test_that("model frames have the variables, classes and levels of glm's, and the rows of the fit", {
  need_python()
  own <- with_arms()
  ns <- splines::ns
  bs <- splines::bs
  plain <- function(frame) lapply(Filter(function(x) !is.matrix(x), frame), function(x) if (is.factor(x)) x else c(unclass(x)))
  for (formula in formulas) {
    environment(formula) <- environment()
    fit <- suppressWarnings(dp_fit_public(formula, own$study))
    by_glm <- suppressWarnings(glm(formula, binomial(), own$rows))
    ours <- model.frame(fit, own$study)
    design <- model.matrix(fit, own$study)
    expect_identical(names(ours), names(by_glm$model), info = deparse(formula))
    expect_equal(plain(ours), plain(by_glm$model))
    for (name in names(Filter(is.matrix, ours))) { # a basis is that of the fit, whose bounds are the schema's
      expect_equal(ours[[name]], design[, startsWith(colnames(design), name)], ignore_attr = TRUE)
    }
    expect_identical(attr(attr(ours, "terms"), "dataClasses"), attr(terms(by_glm), "dataClasses"))
    expect_identical(attr(terms(fit), "dataClasses"), attr(terms(by_glm), "dataClasses"))
    if (length(by_glm$xlevels)) expect_identical(fit$xlevels, by_glm$xlevels) else expect_length(fit$xlevels, 0L)
    expect_identical(attr(design, "contrasts"), attr(model.matrix(by_glm), "contrasts"))
    expect_identical(dimnames(design), dimnames(model.matrix(by_glm)))
  }
  file <- withr::local_tempfile(fileext = ".json")
  dp_write_result(fit, file)
  expect_identical(dp_read_result(file)$xlevels, fit$xlevels)
  without <- own$rows[setdiff(names(own$rows), "event3")] # the outcome may be missing
  expect_identical(names(model.frame(fit, without)), names(ours)[-1L])
  expect_identical(nrow(model.frame(fit, without)), nrow(own$rows))
  skip_if_not_installed("survival")
  hazard <- dp_fit_public(Surv(time, event) ~ arm + log1p(nodes), own$study, intervals = 5)
  by_cox <- survival::coxph(survival::Surv(time, event) ~ arm + log1p(nodes), own$rows)
  frame <- model.frame(hazard, own$study)
  expect_identical(names(frame), c("Surv(time, event)", "arm", "log1p(nodes)"))
  expect_equal(frame, model.frame(by_cox), ignore_attr = TRUE)
  expect_equal(c(frame[[1L]]), c(model.frame(by_cox)[[1L]]), ignore_attr = TRUE)
  expect_identical(unname(attr(terms(hazard), "dataClasses")), c("nmatrix.2", "factor", "numeric"))
})

test_that("rows of packages are those of the model frame", {
  need_python()
  skip_if_not_installed("insight")
  own <- with_arms()
  assign("the_study", own$study, globalenv())
  on.exit(rm("the_study", envir = globalenv()))
  fit <- dp_fit_public(event3 ~ age + log1p(nodes) + size, the_study)
  expect_identical(rownames(insight::get_data(fit)), rownames(model.frame(fit)))
  expect_identical(names(insight::get_data(fit)), c("event3", "age", "nodes", "size"))
  expect_identical(rownames(insight::get_modelmatrix(fit)), rownames(model.frame(fit)))
  expect_identical(nrow(model.frame(fit)), fit$nobs)
})

test_that("a study of the name in the call must have the rows of the fit", {
  need_python()
  own <- with_arms()
  assign("the_study", own$study, globalenv())
  on.exit(rm("the_study", envir = globalenv()))
  fit <- dp_fit_public(event3 ~ age + arm, the_study)
  same <- dp_study(public = own$rows, schema = own$schema)
  assign("the_study", same, globalenv())
  expect_identical(nrow(model.matrix(fit)), fit$nobs)
  fewer <- dp_study(public = own$rows[1:300, ], schema = own$schema)
  assign("the_study", fewer, globalenv())
  asked <- list(
    function() model.matrix(fit), function() model.frame(fit), function() dp_average_effects(fit, "arm"), function() plot(fit, scale = "sd")
  )
  for (ask in asked) expect_error(ask(), "the_study is now another study", class = "dp_argument_error")
  if (requireNamespace("insight", quietly = TRUE)) expect_null(insight::get_data(fit))
  expect_identical(nrow(model.frame(fit, fewer)), sum(!is.na(own$rows$event3[1:300]))) # what is given is taken
  expect_s3_class(dp_average_effects(fit, "arm", over = own$rows), "data.frame")
  private <- dp_study(private = rotterdam(), public = gbsg(), schema = declared(), budget = dp_budget(1))
  assign("the_study", private, globalenv())
  fit <- dp_logit(event3 ~ age + hormon, the_study, epsilon = 1)
  expect_identical(nrow(model.matrix(fit)), fit$public_rows)
  assign("the_study", fewer, globalenv())
  expect_error(model.matrix(fit), "the_study is now another study", class = "dp_argument_error")
})

test_that("effects on hazards are transformed back where their exponential means something", {
  need_python()
  skip_if_not_installed("emmeans")
  own <- with_arms()
  fit <- dp_fit_public(Surv(time, event) ~ arm + log1p(nodes), own$study, intervals = 5)
  ratio <- summary(pairs(emmeans::emmeans(fit, ~ arm, data = own$rows), type = "response"))
  expect_equal(ratio$ratio, exp(-coef(fit)[["armactive"]]))
  logit <- dp_fit_public(event3 ~ arm + age, own$study)
  odds <- summary(pairs(emmeans::emmeans(logit, ~ arm, data = own$rows), type = "response"))
  expect_equal(odds$odds.ratio, exp(-coef(logit)[["armactive"]]))
  probit <- dp_fit_public(Surv(time, event) ~ arm + log1p(nodes), own$study, intervals = 5, link = "probit")
  apart <- summary(pairs(emmeans::emmeans(probit, ~ arm, data = own$rows), type = "response"))
  expect_equal(apart$estimate, -coef(probit)[["armactive"]])
})

test_that("variance inflation is car's, and that of covariates alone for hazards", {
  need_python()
  skip_if_not_installed("car")
  own <- with_arms()
  for (formula in list(event3 ~ age + arm * size + log1p(nodes), event3 ~ age + nodes)) {
    fit <- dp_fit_public(formula, own$study)
    by_glm <- glm(formula, binomial(), own$rows, control = glm.control(epsilon = 1e-14))
    expect_equal(car::vif(fit), suppressMessages(car::vif(by_glm)), tolerance = 1e-6)
  }
  hazard <- dp_fit_public(Surv(time, event) ~ arm + nodes, own$study, intervals = 5)
  r <- stats::cov2cor(unclass(vcov(hazard))[5:6, 5:6])[1, 2]
  expect_equal(car::vif(hazard), c(arm = 1, nodes = 1) / (1 - r^2))
  expect_error(car::vif(dp_fit_public(event3 ~ age, own$study)), "two terms", class = "dp_argument_error")
})

test_that("tests of terms and marginal means are glm's", {
  need_python()
  for (package in c("car", "emmeans", "survey")) skip_if_not_installed(package)
  own <- with_arms()
  rows <- stats::na.omit(own$rows)
  assign("the_study", own$study, globalenv()) # where functions of other packages find what a call names
  on.exit(rm("the_study", envir = globalenv()))
  fit <- dp_fit_public(event3 ~ age + arm * size, the_study)
  by_glm <- glm(event3 ~ age + arm * size, binomial(), rows, control = glm.control(epsilon = 1e-14))
  near <- function(a, b) expect_equal(unlist(as.list(a)), unlist(as.list(b)), tolerance = 1e-8, ignore_attr = TRUE)
  near(anova(fit), car::Anova(by_glm, type = 3, test.statistic = "Wald"))
  near(car::Anova(fit, type = 3), car::Anova(by_glm, type = 3, test.statistic = "Wald"))
  expect_error(car::Anova(fit, type = 2), "type must be 3", class = "dp_argument_error")
  expect_error(anova(fit, fit), "nothing was spent", class = "dp_argument_error")
  apart <- summary(pairs(emmeans::emmeans(fit, ~ size | arm, data = rows)))
  near(apart[3:4], summary(pairs(emmeans::emmeans(by_glm, ~ size | arm, data = rows)))[3:4])
  probabilities <- summary(emmeans::emmeans(fit, ~ arm, data = rows), type = "response")
  near(probabilities$prob, summary(emmeans::emmeans(by_glm, ~ arm, data = rows), type = "response")$prob)
  tested <- lapply(list(fit, by_glm), function(x) survey::regTermTest(x, ~ arm:size, df = Inf)[c("chisq", "df", "p")])
  near(tested[[1]], tested[[2]])
  shuffled <- transform(rows, size = factor(size, rev(levels(size)))) # the data's levels do not change the coding
  means <- summary(emmeans::emmeans(fit, ~ size, data = shuffled))
  near(means$emmean, summary(emmeans::emmeans(by_glm, ~ size, data = rows))$emmean)
  for (type in c("link", "response")) {
    expect_equal(predict(fit, rows, type = type, se.fit = TRUE), predict(by_glm, rows, type = type, se.fit = TRUE), tolerance = 1e-6)
  }
  rm("the_study", envir = globalenv())
  expect_error(model.matrix(fit), "data must be given", class = "dp_argument_error")
  on.exit()
  expect_identical(df.residual(fit), Inf)
  expect_equal(family(fit)$link, "logit")
  expect_null(fit$model)
})

test_that("qdrg with coefficients that were stored before is right, or an error", {
  need_python()
  skip_if_not_installed("emmeans")
  own <- with_arms()
  rows <- stats::na.omit(own$rows)
  means <- function(formula, data, fit, ...) {
    stored <- list(coef = coef(fit), vcov = vcov(fit), ...)
    suppressMessages(summary(emmeans::emmeans(do.call(emmeans::qdrg, c(list(formula, data), stored)), ~ size))[c("emmean", "SE")])
  }
  right <- list(event3 ~ age + arm * size, event3 ~ log1p(nodes) + I(age^2) + size + factor(hormon))
  for (formula in right) {
    fit <- suppressWarnings(dp_fit_public(formula, own$study))
    by_glm <- glm(formula, binomial(), rows, control = glm.control(epsilon = 1e-14))
    expected <- suppressMessages(summary(emmeans::emmeans(by_glm, ~ size, data = rows))[c("emmean", "SE")])
    expect_equal(means(formula[-2], rows, fit), expected, tolerance = 1e-6, ignore_attr = TRUE)
  }
  no_coding <- function(code) expect_error(code, "does not know the coding", class = "dp_argument_error")
  fit <- dp_fit_public(right[[1]], own$study)
  for (other in list(
    transform(rows, size = factor(size, rev(levels(size)))), transform(rows, arm = factor(arm, rev(levels(arm)))),
    transform(rows, size = as.character(size)), transform(rows, arm = as.numeric(arm)), droplevels(rows[rows$size != "<=20", ])
  )) no_coding(means(~ age + arm * size, other, fit))
  no_coding(means(~ age + size * arm, rows, fit))
  no_coding(means(~ age + arm + size, rows, fit))
  for (formula in list(event3 ~ poly(age, 2) + size, event3 ~ ns(age, df = 3) + size, event3 ~ bs(nodes, knots = c(5, 10)) + size)) {
    environment(formula) <- list2env(list(ns = splines::ns, bs = splines::bs))
    fit <- suppressWarnings(dp_fit_public(formula, own$study))
    expect_error(suppressWarnings(means(formula[-2], rows, fit)))
  }
  hazard <- dp_fit_public(Surv(time, event) ~ size, own$study, intervals = 5)
  no_coding(emmeans::qdrg(~ size, rows, coef = coef(hazard)[5:6], vcov = vcov(hazard)[5:6, 5:6]))
  no_coding(emmeans::qdrg(~ size, rows, coef = hazard$coefficients, vcov = hazard$vcov))
  plain <- unclass(vcov(hazard))
  expect_identical(as.matrix(vcov(hazard)), plain)
  expect_true(all.equal(vcov(hazard), plain))
  expect_output(print(vcov(hazard)), "baseline")
})

test_that("marginal means of what is computed from a column are glm's, on any grid", {
  need_python()
  skip_if_not_installed("emmeans")
  own <- with_arms()
  rows <- stats::na.omit(own$rows)
  means <- function(fit, spec, ...) summary(emmeans::emmeans(fit, spec, data = rows, ...))[c("emmean", "SE")]
  curved <- dp_fit_public(event3 ~ poly(age, 2) + factor(hormon) + log1p(nodes), own$study)
  by_glm <- glm(event3 ~ poly(age, 2) + factor(hormon) + log1p(nodes), binomial(), rows, control = glm.control(epsilon = 1e-14))
  ages <- list(age = c(40, 60))
  # an error that emmeans catches on its way leaves the caller's arguments as they are
  expect_equal(means(curved, ~ age | hormon, at = ages), means(by_glm, ~ age | hormon, at = ages), tolerance = 1e-6, ignore_attr = TRUE)
  other <- dp_fit_public(event3 ~ relevel(size, ref = "20-50") * arm, own$study)
  by_glm <- glm(event3 ~ size * arm, binomial(), rows, control = glm.control(epsilon = 1e-14))
  expect_equal(means(other, ~ size | arm), means(by_glm, ~ size | arm), tolerance = 1e-6, ignore_attr = TRUE)
})

test_that("hazards have survival's generics", {
  need_python()
  skip_if_not_installed("survival")
  own <- with_arms()
  fit <- dp_fit_public(Surv(time, event) ~ age + arm, own$study, intervals = 10, link = "cloglog")
  women <- own$rows[1:2, ]
  effects <- coef(fit)[5:6]
  lp <- drop(cbind(women$age, women$hormon) %*% effects)
  expect_equal(unname(predict(fit, women, type = "lp")), lp)
  expect_equal(unname(predict(fit, women, type = "risk")), exp(lp))
  relative <- predict(fit, women, type = "lp", se.fit = TRUE)
  x <- cbind(women$age, women$hormon)
  expect_equal(unname(relative$se.fit), sqrt(diag(x %*% vcov(fit)[5:6, 5:6] %*% t(x))))
  curves <- survival::survfit(fit, newdata = women)
  expect_equal(curves$surv[, 1], predict(fit, women[1, ], times = curves$time)$survival, ignore_attr = TRUE)
  expect_true(all(unique(predict(fit, women)$time)[-1] %in% curves$time))
  between <- summary(curves, times = 1000)$surv[1, ]
  expect_equal(between, predict(fit, women, times = 1000)$survival, tolerance = 0.005, ignore_attr = TRUE)
  medians <- predict(fit, own$rows[5:6, ], type = "median")$median
  expect_output(print(survival::survfit(fit, newdata = own$rows[5:6, ])), "median")
  expect_equal(generics::augment(fit, newdata = women)$.fitted, lp)
  skip_if_not_installed("emmeans")
  baseline <- basehaz(fit)
  expect_named(baseline, c("hazard", "time"))
  expect_equal(exp(-baseline$hazard), predict(fit, data.frame(age = 20, arm = "placebo"))$survival[-1] ^ exp(-20 * effects[["age"]]))
  own_times <- curves$time %in% basehaz(fit, women[1, ])$time
  expect_equal(basehaz(fit, women[1, ])$hazard, -log(curves$surv[own_times, 1]), ignore_attr = TRUE)
  expect_error(basehaz(fit, centered = TRUE), "centered must be FALSE", class = "dp_argument_error")
  by_cox <- survival::coxph(survival::Surv(time, event) ~ age, own$rows)
  expect_identical(basehaz(by_cox, centered = FALSE), survival::basehaz(by_cox, centered = FALSE))
  apart <- summary(pairs(emmeans::emmeans(fit, ~ arm, data = own$rows), reverse = TRUE))
  expect_equal(apart$estimate, effects[["armactive"]])
})

test_that("strata, clusters and offsets are no terms that are tested", {
  need_python()
  own <- with_arms()
  fit <- suppressWarnings(dp_fit_public(Surv(time, event) ~ age + strata(size) + arm, own$study, intervals = 5))
  tested <- anova(fit)
  expect_identical(rownames(tested), c("age", "arm"))
  places <- match(c("age", "armactive"), names(coef(fit)))
  expect_equal(tested$Chisq, unname(coef(fit)[places]^2 / diag(vcov(fit))[places]))
})

test_that("marginaleffects' hooks predict with the coefficients they are given", {
  need_python()
  own <- with_arms()
  fit <- dp_fit_public(event3 ~ arm * size, own$study)
  hook <- function(name) utils::getFromNamespace(paste0(name, ".dp_result"), "hdpstats")
  expect_identical(hook("get_coef")(fit), coef(fit))
  expect_identical(hook("get_vcov")(fit), unclass(vcov(fit)))
  changed <- hook("set_coef")(fit, coef(fit) + seq_along(coef(fit)))
  rows <- stats::na.omit(own$rows)
  x <- model.matrix(fit, rows)
  expect_equal(hook("get_predict")(changed, rows, type = "response")$estimate,
               unname(stats::plogis(drop(unclass(x) %*% (coef(fit) + seq_along(coef(fit)))))))
})

test_that("marginaleffects' hooks keep its contract for classes that it does not know", {
  need_python()
  own <- with_arms()
  method <- function(name) utils::getFromNamespace(paste0(name, ".dp_result"), "hdpstats")
  fit <- dp_fit_public(event3 ~ arm * size, own$study)
  padded <- cbind(rowid = c(7L, 9L, -1L), own$rows[1:3, ]) # it drops the rows that it added by their rowid
  found <- method("get_predict")(fit, newdata = padded, type = "link", mfx = NULL, newparams = NULL, ndraws = NULL, se.fit = NULL)
  expect_identical(found$rowid, padded$rowid)
  expect_equal(found$estimate, unname(predict(fit, padded)))
  expect_identical(dimnames(method("get_vcov")(fit, vcov = TRUE)), list(names(coef(fit)), names(coef(fit))))
  expect_null(method("get_vcov")(fit, vcov = FALSE))
  expect_equal(method("get_vcov")(fit, vcov = 2 * vcov(fit)), 2 * unclass(vcov(fit)))
  expect_error(method("get_vcov")(fit, vcov = "HC3"), "private rows", class = "dp_argument_error")
  linear <- dp_fit_public(nodes ~ age + arm, own$study, model = "linear")
  expect_equal(method("get_predict")(linear, own$rows[1:2, ])$estimate, unname(predict(linear, own$rows[1:2, ])))
  expect_error(method("get_predict")(linear, own$rows[1:2, ], type = "link"), "\"response\"", class = "dp_argument_error")
  hazard <- dp_fit_public(Surv(time, event) ~ age + arm, own$study, intervals = 5)
  expect_error(method("get_predict")(hazard, own$rows[1:2, ]), "\"lp\"", class = "dp_argument_error")
  expect_equal(method("get_predict")(hazard, own$rows[1:2, ], type = "risk")$estimate,
               unname(predict(hazard, own$rows[1:2, ], type = "risk")))
  several <- dp_fit_public(size ~ age + arm, own$study, model = "multinomial")
  found <- method("get_predict")(several, newdata = padded)
  expect_identical(names(found), c("rowid", "group", "estimate"))
  expect_identical(found$rowid, rep(padded$rowid, 3))
  expect_equal(found$estimate[found$group == ">50"], predict(several, padded)[[">50"]])
})

test_that("tidy and glance are what modelsummary reads", {
  need_python()
  fit <- dp_fit_public(event3 ~ arm + size, with_arms()$study)
  columns <- c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
  table <- generics::tidy(fit, conf.int = TRUE, conf.level = 0.9)
  expect_true(all(columns %in% names(table)))
  expect_equal(unname(as.matrix(table[columns[6:7]])), unname(confint(fit, level = 0.9)))
  expect_identical(nrow(generics::glance(fit)), 1L)
  skip_if_not_installed("parameters")
  skip_if_not_installed("insight")
  asked <- parameters::parameters(fit, verbose = FALSE, effects = "all", ci = 0.9) # which it asks first
  asked <- insight::standardize_names(asked, style = "broom")
  expect_equal(as.data.frame(asked)[columns], as.data.frame(table)[columns], ignore_attr = TRUE)
})

# modelsummary joins the estimates of several fits by term and group, and their facts by name.
test_that("fits that modelsummary sets side by side have the same columns, each term once, and facts that are numbers", {
  need_python()
  own <- with_arms()
  fits <- list(dp_fit_public(event3 ~ arm, own$study), dp_fit_public(event3 ~ arm + size, own$study))
  facts <- lapply(fits, generics::glance)
  expect_identical(names(facts[[1L]]), names(facts[[2L]]))
  expect_true(all(vapply(facts, function(fact) all(vapply(fact, is.numeric, NA)), NA)))
  skip_if_not_installed("parameters")
  skip_if_not_installed("insight")
  read <- function(fit) {
    asked <- parameters::parameters(fit, ci = 0.95, effects = "all", verbose = FALSE)
    as.data.frame(insight::standardize_names(asked, style = "broom"))
  }
  tables <- lapply(fits, read)
  expect_identical(names(tables[[1L]]), names(tables[[2L]]))
  expect_false(any(c("group", "component", "response", "label") %in% names(tables[[2L]]))) # by which it would split rows
  expect_identical(anyDuplicated(tables[[2L]]$term), 0L)
  both <- merge(tables[[1L]], tables[[2L]], by = "term", all = TRUE, suffixes = c(".1", ".2"))
  expect_identical(nrow(both), length(coef(fits[[2L]])))
  expect_equal(both$estimate.2, unname(coef(fits[[2L]])[both$term]))
})

test_that("figures of coefficients take labels, terms, scales and numbers", {
  need_python()
  own <- with_arms()
  fit <- dp_fit_public(event3 ~ arm + size + age, own$study)
  names <- names(coef(fit))[-1]
  drawn <- function(...) {
    file <- withr::local_tempfile(fileext = ".svg")
    grDevices::svg(file)
    expect_identical(plot(fit, ...), fit)
    grDevices::dev.off()
    length(readLines(file))
  }
  expect_gt(drawn(labels = c(age = "age, years"), estimates = TRUE), drawn(labels = c(age = "age, years")))
  expect_error(plot(fit, labels = c(ages = "a")), "labels: there is no coefficient 'ages'", class = "dp_argument_error")
  expect_error(plot(fit, terms = "ages"), "terms: there is no coefficient 'ages'", class = "dp_argument_error")
  expect_error(plot(fit, scale = "sd"), "data must be given", class = "dp_argument_error")
  skip_if_not_installed("ggplot2")
  expect_equal(levels(autoplot(fit)$data$term), rev(names)) # ggplot2 need not be attached
  asked <- autoplot(
    fit, exponentiate = TRUE, terms = c("age", "size>50"), labels = c(age = "age, years"), scale = "sd", estimates = TRUE, over = own$rows
  )
  expect_identical(levels(asked$data$term), c("size>50", "age, years"))
  complete <- stats::na.omit(own$rows[c("arm", "size", "age")])
  spread <- sqrt(mean((complete$age - mean(complete$age))^2))
  expect_equal(asked$data$estimate, unname(exp(coef(fit)[c("age", "size>50")] * c(spread, 1))))
  expect_silent(ggplot2::ggplot_build(asked))
  expect_match(asked$labels$x, "odds ratio, of numbers per standard deviation", fixed = TRUE)
  expect_error(autoplot(fit, title = "x"), "no argument 'title'", class = "dp_argument_error")
})

test_that("every fit names its arguments", {
  common <- c("delta", "mechanism", "replicate", "description", "describe")
  for (fit in list(dp_logit, dp_hazard, dp_linear, dp_quantile, dp_mestimate, dp_poisson, dp_multinomial)) {
    expect_true(all(common %in% names(formals(fit))))
  }
})
