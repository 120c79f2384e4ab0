hospitals <- function(...) {
  women <- split(dp_load_rotterdam(), rep(c("Oslo", "Bergen", "Turku"), length.out = 2982))
  dp_study(private = women, public = dp_load_gbsg(), schema = declared(), ...)
}

test_that("every site has its own epsilon, noise, account and estimate", {
  need_python()
  study <- hospitals(budget = list(Oslo = dp_budget(3), Bergen = dp_budget(2), Turku = dp_budget(1)))
  fit <- dp_logit(event3 ~ age + hormon, study, epsilon = c(Turku = 0.5, Oslo = 2, Bergen = 1))
  sites <- dp_sites(fit)
  expect_named(sites, c("site", "status", "records", "epsilon", "delta", "rounds", "weight", "dataset", "entry"))
  expect_equal(sites$site, c("Bergen", "Oslo", "Turku"))
  expect_equal(sites$epsilon, c(1, 2, 0.5))
  expect_equal(sites$records, c(994L, 994L, 994L))
  expect_equal(sum(sites$weight), 1)
  expect_equal(order(sites$weight), order(sites$epsilon))
  expect_equal(fit$epsilon, 2)
  accounts <- dp_ledger(study)
  expect_equal(vapply(accounts, function(each) each$spent[["epsilon"]], 0), c(Bergen = 1, Oslo = 2, Turku = 0.5))
  expect_equal(as.data.frame(accounts)$site, c("Bergen", "Oslo", "Turku"))
  expect_output(print(accounts), "Turku\nLedger of dataset 'Turku'", fixed = TRUE)
  expect_output(print(fit), "Sites: Bergen, Oslo, Turku", fixed = TRUE)
  expect_output(print(summary(fit)), "Oslo: answered; records 994, epsilon 2", fixed = TRUE)
  expect_output(print(summary(fit)), "at one of 3 sites only", fixed = TRUE)
  expect_identical(coef(dp_logit(event3 ~ age + hormon, study, epsilon = list(Oslo = 2, Bergen = 1, Turku = 0.5))), coef(fit))
  expect_equal(dp_ledger(study)$Oslo$spent[["epsilon"]], 2)
})

test_that("sites that disagree about epsilon, people or rows are refused before anything is charged", {
  need_python()
  study <- hospitals(budget = dp_budget(3))
  for (epsilon in list(c(Oslo = 1, Bergen = 61.25), c(Oslo = 61.25), c(61.25, 1, 2), c(Oslo = 1, Bergen = 61.25, Turkey = 1),
                       c(Oslo = 1, Oslo = 61.25, Bergen = 1, Turku = 1))) {
    refused <- caught(dp_logit(event3 ~ age, study, epsilon = epsilon))
    expect_s3_class(refused, "dp_argument_error")
    expect_match(conditionMessage(refused), "epsilon must be a number, or a number for each of the study's sites: 'Bergen'")
    expect_no_match(conditionMessage(refused), "61")
  }
  expect_equal(vapply(dp_ledger(study), function(each) each$spent[["epsilon"]], 0), c(Bergen = 0, Oslo = 0, Turku = 0))
  expect_equal(nrow(as.data.frame(dp_ledger(study))), 0L)
  rows <- dp_load_rotterdam()
  opened <- function(private, ...) dp_study(private = private, schema = declared(), budget = dp_budget(1), ...)
  expect_error(opened(list(A = rows, B = rows)), "'A' and 'B' have the same rows", class = "dp_argument_error")
  expect_error(opened(list(A = rows, B = rows[1:9, ]), public = rows), "other records than private", class = "dp_argument_error")
  expect_error(opened(list(A = rows, rows[1:9, ])), "without names", class = "dp_argument_error")
  expect_error(opened(list(A = rows, B = 61.25)), "not float", class = "dp_argument_error")
  expect_error(opened(list(A = rows, B = rows[1:9, ]), quorum = 3), "quorum", class = "dp_argument_error")
  expect_error(
    opened(list(A = rows, B = rows[1:9, ]), relation = "add_or_remove_one", n_max = c(A = 9e3, C = 61.25)),
    "n_max must have a value for each of 'A', 'B'", class = "dp_argument_error"
  )
  expect_error(dp_hybrid_weights(study, ~ hormon, 1), "one site", class = "dp_mechanism_error")
})

test_that("declared numbers of people may differ, and sites in a list are numbered", {
  need_python()
  women <- dp_load_rotterdam()
  study <- dp_study(list(North = women[1:2000, ], South = women[2001:2982, ]), dp_load_gbsg(), declared(), budget = dp_budget(5),
                    relation = "add_or_remove_one", n_max = c(South = 2000, North = 4000), deadline = 60, quorum = 2)
  fit <- dp_logit(event3 ~ age, study, epsilon = 1)
  expect_true(all(dp_sites(fit)$records <= c(4000, 2000)))
  expect_match(fit$guarantee, "1-differential privacy")
  listed <- dp_study(list(women[1:2000, ], women[2001:2982, ]), dp_load_gbsg(), declared(), budget = dp_budget(5))
  expect_equal(dp_sites(dp_logit(event3 ~ age, listed, epsilon = 1))$site, c("site 1", "site 2"))
})

test_that("one of the sites is a study of its own with the same account", {
  need_python()
  study <- hospitals(budget = dp_budget(3))
  oslo <- dp_at(study, "Oslo")
  fit <- dp_logit(event3 ~ age, oslo, epsilon = 1)
  expect_equal(nobs(fit), 994L)
  expect_equal(dp_ledger(oslo)$remaining[["epsilon"]], 2)
  expect_equal(dp_ledger(study)$Oslo$remaining[["epsilon"]], 2)
  expect_equal(dp_ledger(study)$Turku$remaining[["epsilon"]], 3)
  rest <- dp_logit(event3 ~ hormon, oslo, epsilon = dp_ledger(oslo)$remaining["epsilon"]) # a number, whatever its name
  expect_equal(rest$epsilon, 2)
  expect_error(dp_at(study, "Stockholm"), "'Bergen', 'Oslo', 'Turku'", class = "dp_argument_error")
  expect_error(dp_at(3), "must be a study", class = "dp_argument_error")
  refused <- caught(dp_logit(event3 ~ nodes, dp_at(study, "Oslo", "Turku"), epsilon = 1))
  expect_s3_class(refused, "dp_insufficient_budget") # at Oslo, and Turku alone is not more than half of two
  expect_match(conditionMessage(refused), "1 of 2 sites answered")
})

test_that("a hazard is fitted to several sites in rounds, and drawn as a forest", {
  need_python()
  study <- hospitals(budget = dp_budget(5, 1e-5))
  fit <- dp_hazard(Surv(time, event) ~ age + log1p(nodes), study, epsilon = c(Oslo = 1, Bergen = 1, Turku = 2), intervals = 6,
                   delta = 1e-6, mechanism = list(name = "gradient", rounds = 2))
  expect_equal(dp_sites(fit)$rounds, c(2L, 2L, 2L))
  withr::local_pdf(NULL)
  expect_identical(plot(fit, which = "sites", term = "log1p(nodes)", exponentiate = TRUE), fit)
  expect_identical(plot(fit, which = "sites"), fit)
  expect_error(plot(fit, which = "sites", term = "hormon"), "term must be one of", class = "dp_argument_error")
  alone <- dp_fit_public(event3 ~ age, study)
  expect_error(plot(alone, which = "sites"), "several sites", class = "dp_argument_error")
  expect_equal(nrow(dp_sites(alone)), 0L)
})

test_that("results are combined in groups of groups, also in another session", {
  need_python()
  study <- hospitals(budget = dp_budget(3))
  fits <- lapply(c(Oslo = "Oslo", Bergen = "Bergen", Turku = "Turku"), function(site) {
    dp_logit(event3 ~ age + hormon, dp_at(study, site), epsilon = 2)
  })
  found <- dp_aggregate(list(Norway = fits[c("Oslo", "Bergen")], Finland = list(fits$Turku)), name = "Nordic")
  table <- as.data.frame(found)
  expect_equal(unique(table$name), c("Nordic", "Norway", "Oslo", "Bergen", "Finland", "1"))
  expect_equal(table$estimate[table$name == "Nordic"], unname(coef(found)))
  expect_equal(unname(sqrt(diag(vcov(found)))), table$std.error[table$name == "Nordic"])
  expect_equal(rowSums(sapply(c("Norway", "Finland"), function(name) table$weight[table$name == name])), c(1, 1, 1))
  flat <- dp_aggregate(fits)
  expect_equal(coef(flat), coef(found), tolerance = 1e-6)
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(found, file)
  expect_identical(confint(readRDS(file), "age", level = 0.9), confint(found, "age", level = 0.9))
  expect_true(diff(confint(found, "age", level = 0.9)[1, ]) < diff(confint(found, "age")[1, ]))
  expect_equal(dp_tidy(found, exponentiate = TRUE)$estimate, exp(table$estimate))
  expect_output(print(found), "3 results in 2 levels")
  withr::local_pdf(NULL)
  expect_identical(plot(found, term = "hormon", exponentiate = TRUE), found)
  expect_equal(dp_aggregate(fits, between = "paule_mandel")$bse >= flat$bse, c(Intercept = TRUE, age = TRUE, hormon = TRUE))
  expect_error(dp_aggregate(list(fits$Oslo, fits$Oslo)), "same release twice", class = "dp_argument_error")
  expect_error(dp_aggregate(list(fits$Oslo, 61.25)), "not float", class = "dp_argument_error")
  expect_error(dp_aggregate(data.frame(x = 61.25)), "list of results", class = "dp_argument_error")
  expect_error(dp_aggregate(fits, between = "magic"), "between must be one of", class = "dp_argument_error")
  expect_equal(vapply(dp_ledger(study), function(each) each$spent[["epsilon"]], 0), c(Bergen = 2, Oslo = 2, Turku = 2))
})

test_that("families are fitted to one site and to several", {
  need_python()
  study <- hospitals(budget = dp_budget(10))
  fit <- dp_family(nodes ~ 1, study, epsilon = c(Oslo = 1, Bergen = 2, Turku = 3), family = "poisson")
  expect_s3_class(fit, c("dp_exponentialfamily", "dp_result"), exact = TRUE)
  expect_equal(unname(coef(fit)), mean(pmin(dp_load_rotterdam()$nodes, 40)), tolerance = 0.1)
  expect_equal(dp_sites(fit)$epsilon, c(2, 1, 3))
  normal <- dp_family(age ~ 1, dp_at(study, "Oslo"), 1, family = "normal", ranges = list(mean = c(30, 80), sd = c(1, 40)))
  expect_named(coef(normal), c("mean", "sd"))
  blocks <- dp_family(age ~ 1, study, 1, family = "normal", mechanism = list(name = "subsample", order = "arbitrary", blocks = 20))
  expect_match(blocks$method, "20 blocks")
  expect_match(conditionMessage(caught(dp_family(age ~ 1, study, 1))), "family must be given")
  expect_match(conditionMessage(caught(dp_family(age ~ hormon, study, 1, family = "normal"))), "describes one column")
  for (ranges in list(61.25, list(mean = 61.25), list(61.25), list(mean = c("61.25", "62")), data.frame(mean = 61.25))) {
    refused <- caught(dp_family(age ~ 1, study, 1, family = "normal", ranges = ranges))
    expect_s3_class(refused, "dp_argument_error")
    expect_no_match(conditionMessage(refused), "61")
  }
  expect_equal(coef(dp_fit_public(nodes ~ 1, study, model = "family", family = "poisson"))[["mean"]], mean(dp_load_gbsg()$nodes))
})
