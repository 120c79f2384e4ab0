test_that("messages have the names of R", {
  need_python()
  study <- breast_cancer()
  fit <- dp_fit_public(event3 ~ age + size, study)
  said <- function(code) tryCatch(code, error = conditionMessage)
  expect_match(said(dp_plan(event3 ~ size, study, std_error = c(siz = 1))), "'size20-50', 'size>50'", fixed = TRUE)
  expect_match(said(dp_logit(event3 ~ age, study, 1, ties = "efron")), "^dp_logit has no argument 'ties'")
  expect_match(said(dp_logit(event3 ~ pspline(age), study, 1)), "ns(x, knots = c(40, 60))", fixed = TRUE)
  expect_match(said(dp_logit(I(age > 3) ~ nodes, study, 1)), "added to the rows as a column", fixed = TRUE)
  expect_match(said(as.data.frame(study)), "hands out no rows", fixed = TRUE)
  expect_match(said(confint(fit, "sise")), "parm must be among '(Intercept)', 'age'", fixed = TRUE)
  expect_match(said(dp_contrast(fit, term = "size", adjust = "x")), "hochberg", fixed = TRUE)
  adjusted <- function(how) dp_contrast(fit, term = "size", adjust = how)$adj.p.value
  p <- dp_contrast(fit, term = "size")$p.value
  for (how in c("none", "BH", "hochberg", "BY", "holm", "bonferroni")) expect_equal(adjusted(how), p.adjust(p, how), info = how)
  expect_identical(conditionCall(caught(dp_methods_text(absent)))[[1L]], quote(dp_methods_text))
})

test_that("what is wrong is a classed condition with Python's message", {
  need_python()
  study <- breast_cancer()
  expect_error(dp_logit(event3 ~ nope, data = study, epsilon = 1), "no such column", class = "dp_formula_error")
  expect_error(dp_logit("event3 ~ +* age", data = study, epsilon = 1), class = "dp_formula_error")
  expect_error(dp_logit(event3 ~ system("true"), data = study, epsilon = 1), class = "dp_formula_error")
  expect_error(dp_logit(event3 ~ age, data = study, epsilon = 1, nonsense = 2), "nonsense", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, data = study), "dp_fit_public", class = "dp_argument_error")
  expect_error(dp_hazard(Surv(time, event) ~ age, data = study, epsilon = NULL), "epsilon", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, data = NULL, epsilon = 1), "needs data", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, epsilon = 1), "study", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, data = gbsg(), epsilon = 1), "study", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, data = study, epsilon = -1), class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, data = study, epsilon = 1, mechanism = "magic"), class = "dp_mechanism_error")
  listed <- data.frame(age = I(list(1, 2)), event3 = 0:1)
  expect_error(
    dp_study(private = listed, schema = declared(), budget = dp_budget(1)), "'age' is a list",
    class = "dp_argument_error"
  )
  expect_error(dp_read_result("nowhere.json"), "nowhere.json", class = "dp_argument_error")
  expect_error(dp_tidy(3), "dp_result", class = "dp_argument_error")
  expect_equal(dp_ledger(study)$spent[["epsilon"]], 0)
})

test_that("what would need private rows is refused, not NULL", {
  need_python()
  fit <- private_fit()
  for (ask in list(residuals, fitted, logLik, deviance, AIC, BIC)) {
    expect_error(ask(fit), "Instead:", class = "dp_argument_error")
  }
})

test_that("neither a condition nor a saved result holds data", {
  need_python()
  secret <- data.frame(age = c(41.4142135, 33), event3 = c(1, 0))
  wrong <- caught(do.call(dp_study, list(private = secret, schema = "none", budget = dp_budget(1))))
  expect_s3_class(wrong, "dp_error")
  expect_false(any(grepl("41.41", c(conditionMessage(wrong), deparse(conditionCall(wrong))), fixed = TRUE)))
  nested <- caught(eval(bquote(dp_logit(event3 ~ nope, data = dp_study(
    private = .(secret), schema = dp_schema(age = dp_continuous(20, 90, complete = TRUE), event3 = dp_binary(complete = TRUE)), budget = dp_budget(1)
  ), epsilon = 1))))
  expect_s3_class(nested, "dp_formula_error")
  expect_false(any(grepl("41.41", deparse(conditionCall(nested)), fixed = TRUE)))
  hidden <- local({
    rows <- data.frame(marker = rep(4141.4142135, 1000))
    event3 ~ age
  })
  study <- breast_cancer()
  fit <- do.call(dp_logit, list(hidden, study, epsilon = 1))
  expect_false(grepl("4141.4142135", rawToChar(serialize(fit, NULL, ascii = TRUE)), fixed = TRUE))
  expect_false(grepl("rownames|data.frame", rawToChar(serialize(study, NULL, ascii = TRUE))))
})

test_that("methods refuse what they do not take", {
  need_python()
  study <- public_study()
  fit <- dp_fit_public(event3 ~ age, study)
  hazard <- dp_fit_public(Surv(time, event) ~ age, study, intervals = 5)
  expect_error(predict(fit, data.frame(age = 50), nonsense = 1), "no argument 'nonsense'; it takes newdata", class = "dp_argument_error")
  expect_error(predict(hazard, data.frame(age = 50), se.fit = TRUE), "conf.int = TRUE", class = "dp_argument_error")
  expect_error(confint(fit, method = "profile"), "no argument 'method'", class = "dp_argument_error")
  expect_error(summary(fit, correlation = TRUE), "no argument 'correlation'", class = "dp_argument_error")
  for (ask in expression(predict(fit), predict(hazard), dp_predict_survival(hazard), predict(fit, NULL))) {
    expect_error(eval(ask), "newdata must be given", class = "dp_argument_error")
  }
})

test_that("what was given in the wrong place is not quoted", {
  need_python()
  rows <- data.frame(age = c(41.4142135, 33), event3 = c(1, 0))
  study <- breast_cancer()
  fit <- function(...) caught(dp_logit(event3 ~ age, study, 1, ...))
  mistakes <- list(
    fit(weights = rows$age), fit(offset = rows), fit(mechanism = rows$age), fit(row_norm = rows$age),
    fit(mechanism = list(name = "clipped_newton", rounds = rows$age)),
    caught(dp_logit(event3 ~ age, study, rows$age)), caught(dp_logit(rows, study, 1)), caught(dp_budget(rows)),
    caught(dp_logit(bquote(event3 ~ age + .(rows$age)), study, 1)), caught(dp_continuous(rows$age, 90, complete = TRUE)),
    caught(dp_hazard(Surv(time, event) ~ age, study, 1, baseline = rows$age)), caught(dp_ledger(rows)), caught(dp_tidy(rows))
  )
  for (mistake in mistakes) {
    expect_s3_class(mistake, "dp_argument_error")
    expect_no_match(conditionMessage(mistake), "41")
    expect_match(deparse(conditionCall(mistake))[[1L]], "^dp_")
  }
  expect_equal(unclass(dp_continuous(stats::quantile(1:5, 0.5), 90, complete = TRUE))$lower, 3)
})

test_that("a dump of frames holds no row", {
  need_python()
  rows <- data.frame(age = c(41.4142135, 33), event3 = c(1, 0))
  seen <- NULL
  look <- function(e) {
    ours <- Filter(function(k) identical(topenv(environment(sys.function(k))), asNamespace("hdpstats")), seq_len(sys.nframe()))
    seen <<- unlist(lapply(ours, function(k) ls(sys.frame(k), all.names = TRUE)))
  }
  study <- function() dp_study(private = rows, schema = dp_budget(1), budget = dp_budget(1))
  expect_error(withCallingHandlers(study(), dp_error = look), "schema must be", class = "dp_argument_error")
  expect_true("condition" %in% seen) # the frame that raises it
  expect_false(any(c("private", "args") %in% seen))
})

test_that("a formula in a file is read, not run", {
  need_python()
  fit <- private_fit()
  fit$formula <- "stop('it ran')"
  expect_error(formula(fit), "no formula", class = "dp_argument_error")
})

test_that("handles of an ended session say so", {
  need_python()
  study <- breast_cancer()
  study$id <- "another session"
  expect_error(dp_logit(event3 ~ age, data = study, epsilon = 1), "session that has ended", class = "dp_argument_error")
})

test_that("messages speak R", {
  need_python()
  schema <- dp_schema(age = dp_continuous(20, 90, complete = TRUE), event3 = dp_binary())
  study <- dp_study(public = gbsg(), schema = schema)
  mistakes <- expression(
    dp_study(private = gbsg(), schema = schema), dp_study(private = gbsg(), schema = schema, budget = 3),
    dp_study(private = gbsg(), schema = 3L), dp_logit(event3 ~ age, study, 1), dp_logit(event3 ~ age, study, c(1, 2)),
    dp_continuous(c(a = 3L), 3L), dp_logit(event3 ~ age, study, 1, mechanism = 3L), dp_budget(-1L), dp_schema_from_public(3),
    dp_fit_public(event3 ~ age, study, weights = 3L), dp_distribution(age ~ event3, study, 1, family = "normal"),
    dp_importance_weights(study, ~ age, 1), dp_schema(age = 3)
  )
  for (mistake in mistakes) {
    found <- caught(eval(mistake))
    expect_s3_class(found, "dp_error")
    expect_false(inherits(found, "dp_internal_error"), info = deparse(mistake))
    expect_no_match(conditionMessage(found), "hdpf?[.]|np[.]|\\b(True|False|None|DataFrame|int|float)\\b", info = deparse(mistake))
  }
})

test_that("columns by bare names are understood, and expressions over rows refused", {
  need_python()
  rows <- transform(gbsg(), w = rep(1:2, 343))
  schema <- dp_schema(age = dp_continuous(20, 90, complete = TRUE), event3 = dp_binary(), w = dp_weight(2, complete = TRUE))
  study <- dp_study(public = rows, schema = schema)
  by_text <- dp_fit_public(event3 ~ age, study, weights = "w")
  expect_identical(coef(dp_fit_public(event3 ~ age, study, weights = w)), coef(by_text))
  chosen <- "w"
  expect_identical(coef(dp_fit_public(event3 ~ age, study, weights = chosen)), coef(by_text))
  private <- dp_study(private = rows, public = rows[1:300, ], schema = schema, budget = dp_budget(5))
  expect_identical(coef(dp_logit(event3 ~ age, private, 1, weights = w)), coef(dp_logit(event3 ~ age, private, 1, weights = "w")))
  for (mistake in expression(
    dp_logit(event3 ~ age, private, 1, weights = 1 / w), dp_fit_public(event3 ~ age, study, weights = w / 2),
    dp_logit(event3 ~ age, private, 1, offset = log(age))
  )) expect_error(eval(mistake), "must be the name of a column: an expression", class = "dp_argument_error")
  for (mistake in expression(
    dp_logit(event3 ~ age, private, 1, subset = age > 50), dp_fit_public(event3 ~ age, study, subset = age > 50),
    dp_plan(event3 ~ age, private, subset = age > 50)
  )) expect_error(eval(mistake), "subset is no argument", class = "dp_argument_error")
  expect_error(dp_logit(event3 ~ age, private, 1, na.action = na.omit), "na.action is no argument", class = "dp_argument_error")
  expect_equal(dp_ledger(private)$spent[["epsilon"]], 1)
})

test_that("messages name what R calls things, count rows from 1 and levels as confidence", {
  need_python()
  schema <- dp_schema(age = dp_continuous(20, 90), size = dp_categorical(c("<=20", "20-50", ">50")), event = dp_binary(), time = dp_duration(2557))
  study <- dp_study(public = dp_gbsg, schema = schema)
  fit <- dp_fit_public(event ~ age + size, data = study)
  expect_error(confint(fit, level = 2), "level must be a number in [0.001, 0.999], not 2", fixed = TRUE)
  expect_error(dp_tidy(fit, conf.int = TRUE, conf.level = 2), "conf.level must be a number in [0.001, 0.999], not 2", fixed = TRUE)
  second <- tryCatch(predict(fit, data.frame(age = 50, size = c("<=20", "big"))), error = identity)
  expect_match(conditionMessage(second), "row 2: 'big'", fixed = TRUE)
  expect_equal(second$row, 2)
  expect_error(dp_fit_public(event ~ age + (1 | size), data = study), "dp_study(unit = , max_rows_per_unit = )", fixed = TRUE)
  expect_error(dp_fit_public(Surv(time, event) ~ age, data = study, model = "logit"), "dp_hazard() with this formula, and their curves are those of dp_survfit()", fixed = TRUE)
  expect_error(dp_fit_public(size ~ age, data = study, model = "logit"), "dp_multinomial models all levels, and a dp_binary with labels")
  expect_error(dp_fit_public(event ~ age | size, data = study), "dp_describe(..., by = )", fixed = TRUE)
  expect_error(dp_describe(study, ~ age | size), "by = \"arm\"", fixed = TRUE)
  expect_equal(coef(dp_fit_public(event ~ rms::rcs(age, 4), data = study)), coef(dp_fit_public(event ~ rcs(age, 4), data = study)))
  file <- tempfile()
  dp_write_result(fit, file)
  expect_error(dp_read_curves(file), "it is a result: dp_read_result() reads it", fixed = TRUE)
})
