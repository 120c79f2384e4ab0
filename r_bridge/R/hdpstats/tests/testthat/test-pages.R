page_of <- getFromNamespace(".page", "hdpstats")

# One of each class that users meet.
everything <- function() {
  study <- breast_cancer(epsilon = 20)
  fit <- dp_logit(event3 ~ age + size, data = study, epsilon = 3)
  curves <- dp_survfit(Surv(time, event) ~ hormon, study, epsilon = 1, times = 365 * 1:5)
  table1 <- dp_describe(study, c("age", "size"), by = "hormon", epsilon = 1)
  ask <- dp_describe(study, c("age", "size"))
  sample <- dp_hybrid_weights(study, c("age", "size"), epsilon = 1)
  list(
    declared(), dp_continuous(1, 2), dp_budget(3), study, dp_ledger(study), dp_ledger_open(dataset = "a", epsilon = 1),
    dp_check(dp_load_gbsg(), dp_schema(age = dp_continuous(20, 90))), dp_plan(event3 ~ age, study), fit, summary(fit, level = 0.9), anova(fit),
    dp_wald_test(fit), dp_contrast(fit, term = "size"), dp_average_effects(fit, "size", over = study),
    dp_compare(fit, dp_fit_public(event3 ~ age + size, data = study)), dp_aggregate(list(a = fit)),
    curves, summary(curves), dp_survfit_plan(Surv(time, event) ~ 1, study), dp_logrank_test(curves), dp_restricted_mean(curves),
    ask, dp_describe_plan(ask), table1, summary(table1), dp_balance(table1), sample, summary(sample)
  )
}

test_that("every object has a page, in IRkernel and in documents", {
  need_python()
  takes_long()
  skip_if_not_installed("repr")
  skip_if_not_installed("knitr")
  before <- knitr::opts_knit$get(c("rmarkdown.pandoc.to", "out.format"))
  on.exit(do.call(knitr::opts_knit$set, before))
  knitr::opts_knit$set(rmarkdown.pandoc.to = "html", out.format = "markdown")
  for (each in Filter(Negate(is.null), everything())) {
    page <- repr::repr_html(each)
    expect_match(page, "^<div class=\"hdp-page\">", info = class(each)[[1L]])
    written <- knitr::knit_print(each)
    expect_s3_class(written, "knit_asis")
    expect_identical(gsub("\n+$", "", as.character(written)), paste0("\n\n```{=html}\n", page, "\n```"), info = class(each)[[1L]])
  }
})

test_that("a table that was changed shows what it is now, and texts are escaped", {
  need_python()
  takes_long()
  fit <- dp_logit(event3 ~ size, data = breast_cancer(), epsilon = 3)
  found <- dp_contrast(fit, term = "size")
  expect_match(page_of(found), "3-differential privacy (pure)", fixed = TRUE)
  expect_match(page_of(found), "&gt;50 - &lt;=20", fixed = TRUE)
  expect_match(page_of(found), "<th style=\"text-align: right\">adj.p.value</th>", fixed = TRUE)
  found$estimate <- c(-4321, -0.25, 1)
  expect_match(page_of(found), ">-4321.0000<.*>-0.2500<")
  tests <- anova(fit)
  tests[["Pr(>Chisq)"]] <- c(1 / 4001, 0.04321)
  expect_match(page_of(tests), "&lt;0.00025<.*>0.043<")
})

test_that("pages of tests and effects have labels, tables the names of the formula", {
  need_python()
  rows <- gbsg()
  study <- dp_study(public = rows, schema = dp_schema(
    event = dp_binary(), age = dp_continuous(20, 90, label = "Age (years)"), hormon = dp_binary(label = "Hormone therapy")
  ))
  fit <- dp_fit_public(event ~ age + hormon, data = study)
  for (table in list(anova(fit), dp_wald_test(fit))) {
    expect_match(repr::repr_html(table), "Age (years)", fixed = TRUE)
    expect_match(repr::repr_html(table[3:2, ]), "Age (years)</th><td style=\"text-align: left\">age", fixed = TRUE)
  }
  expect_true("age" %in% dp_wald_test(fit)$term)
  expect_identical(attr(dp_average_effects(fit, "hormon", over = rows), "title"), "Average effects of Hormone therapy")
})

test_that("a page has the level that was asked for", {
  need_python()
  fit <- dp_logit(event3 ~ age, data = breast_cancer(), epsilon = 3)
  expect_match(page_of(summary(fit, level = 0.8)), sprintf("%.3f", confint(fit, level = 0.8)[["age", 1L]]), fixed = TRUE)
  expect_match(page_of(fit), sprintf("%.3f", confint(fit)[["age", 1L]]), fixed = TRUE)
})

test_that("documents that are no web pages have tables", {
  need_python()
  takes_long()
  skip_if_not_installed("knitr")
  before <- knitr::opts_knit$get(c("rmarkdown.pandoc.to", "out.format"))
  on.exit(do.call(knitr::opts_knit$set, before))
  knitr::opts_knit$set(rmarkdown.pandoc.to = "docx", out.format = "markdown")
  fit <- dp_logit(event3 ~ size, data = breast_cancer(), epsilon = 3)
  text <- as.character(knitr::knit_print(summary(fit)))
  expect_match(text, "\\|size>50[^\n]*\\|\\s*<0\\.00025\\|")
  for (part in c("3-differential privacy (pure)", "**Relation:** replace", "**Protected unit:** one person", "**Mechanisms:** epsilon =",
                 "whose tails are heavier")) {
    expect_match(text, part, fixed = TRUE)
  }
  expect_match(as.character(knitr::knit_print(dp_wald_test(fit))), "\\|size *\\|")
})
