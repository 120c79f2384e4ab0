# Public only is glm, and NA where glm has no finite estimate.

rows <- data.frame(x = ((1:120 * 37) %% 101) / 101, g = rep(c("a", "b", "a"), 40), y = as.integer((1:120 * 29) %% 7 < 3))

public_rows_alone <- function(rows) {
  schema <- dp_schema(
    x = dp_continuous(0, 1, complete = TRUE), g = dp_categorical(c("a", "b", "c"), complete = TRUE),
    y = dp_binary(complete = TRUE)
  )
  dp_study(public = rows, schema = schema)
}

test_that("public only equals glm, and a level without rows is NA with a warning", {
  need_python()
  expect_warning(fit <- dp_fit_public(y ~ x + g, data = public_rows_alone(rows)), "do not identify is NA")
  theirs <- summary(glm(y ~ x + g, binomial(), rows, control = glm.control(epsilon = 1e-15)))$coefficients
  expect_equal(unname(coef(fit)[1:3]), unname(theirs[, 1]), tolerance = 1e-8)
  expect_equal(unname(sqrt(diag(vcov(fit)))[1:3]), unname(theirs[, 2]), tolerance = 1e-6)
  expect_true(is.na(coef(fit)[[4]]))
  expect_true(all(is.na(confint(fit)[4, ])))
  expect_true(is.na(tidy(fit)$estimate[[4]]))
  expect_output(print(fit), "gc +NA +NA")
})

test_that("separated rows are NA where glm has no finite estimate, and others stay", {
  need_python()
  separated <- transform(rows, y = ifelse(g == "b", 1L, y))
  expect_warning(fit <- dp_fit_public(y ~ x + g, data = public_rows_alone(separated)), "separation")
  inner <- coef(glm(y ~ x, binomial(), subset(separated, g == "a"), control = glm.control(epsilon = 1e-15)))
  expect_equal(unname(coef(fit)[1:2]), unname(inner), tolerance = 1e-7)
  expect_true(all(is.na(coef(fit)[3:4])))
})
