#!/usr/bin/env Rscript
# Joint tests, contrasts and average effects by R on the rows of gbsg, written to tests/reference/effects.json.
#
#   Rscript tests/reference/effects.R      (from the project's root; needs R's packages car, emmeans and jsonlite)
#
# Joint tests are car::Anova(type = 3, test.statistic = "Wald"), contrasts emmeans', average effects by hand: predict()
# for every row with each value of a variable, and the delta method with numerical derivatives in the coefficients.

suppressMessages({ library(car); library(emmeans); library(splines) })

raw <- read.csv(file.path("hdpstats", "schema", "csv", "gbsg.csv"))
three_years <- 3 * 365.25
gbsg <- data.frame(
  age = raw$age, nodes = raw$nodes, grade3 = as.integer(raw$grade == 3), hormon = raw$hormon,
  size = factor(ifelse(raw$size <= 20, "<=20", ifelse(raw$size <= 50, "20-50", ">50")), levels = c("<=20", "20-50", ">50")),
  time = raw$rfstime, event = raw$status
)
gbsg$event3 <- with(gbsg, ifelse(time <= three_years & event == 1, 1, ifelse(time > three_years, 0, NA)))

# A fit that is solved to rounding: a second pass starts at the solution, so that vcov() belongs to it.
solved <- function(formula, data, family) {
  control <- glm.control(epsilon = 1e-15, maxit = 100)
  first <- do.call(glm, list(formula, family = family, data = quote(data), control = control))
  do.call(glm, list(formula, family = family, data = quote(data), control = control, start = coef(first)))
}

# Differences of the fourth order.
derivative <- function(f, at, step) (8 * (f(at + step) - f(at - step)) - (f(at + 2 * step) - f(at - 2 * step))) / (12 * step)
gradient <- function(f, beta) {
  vapply(seq_along(beta), function(j) {
    derivative(function(b) { moved <- beta; moved[j] <- b; f(moved) }, beta[j], 1e-3 * max(abs(beta[j]), 1e-2))
  }, numeric(1))
}
effect <- function(f, beta, V) {
  g <- gradient(f, beta)
  list(estimate = f(beta), std_error = sqrt(drop(g %*% V %*% g)))
}
on_scales <- function(risks, beta, V) {  # risks: a function of beta that gives the mean risks at a and at b
  log_odds <- function(m) log(m / (1 - m))
  list(
    "risk difference" = effect(function(b) diff(risks(b)), beta, V),
    "log risk ratio" = effect(function(b) diff(log(risks(b))), beta, V),
    "log odds ratio" = effect(function(b) diff(log_odds(risks(b))), beta, V)
  )
}
tests <- function(model) {
  table <- Anova(model, type = 3, test.statistic = "Wald")
  list(term = rownames(table), statistic = table$Chisq, df = table$Df, pvalue = table[["Pr(>Chisq)"]])
}

# Logistic regression --------------------------------------------------------------------------------------------------

found <- list()
formulas <- list(
  main = event3 ~ age + size + grade3 + log1p(nodes) + hormon,
  interaction = event3 ~ ns(age, knots = c(45, 60), Boundary.knots = c(20, 90)) + size * hormon + grade3
)
for (name in names(formulas)) {
  model <- solved(formulas[[name]], gbsg, binomial())
  beta <- coef(model); V <- vcov(model)
  risks_at <- function(variable, values) {
    designs <- lapply(values, function(value) {
      frame <- gbsg
      frame[[variable]] <- if (is.factor(frame[[variable]])) factor(value, levels = levels(frame[[variable]])) else value
      model.matrix(delete.response(terms(model)), frame)
    })
    function(b) vapply(designs, function(X) mean(plogis(drop(X %*% b))), numeric(1))
  }
  slope <- function(b) {
    design <- function(step) model.matrix(delete.response(terms(model)), transform(gbsg, age = age + step))
    derivative(function(step) mean(plogis(drop(design(step) %*% b))), 0, 1e-2)
  }
  # predict() itself, as a check of the function above
  stopifnot(abs(risks_at("hormon", 1)(beta) - mean(predict(model, transform(gbsg, hormon = 1), type = "response"))) < 1e-12)
  pairs <- as.data.frame(pairs(emmeans(model, ~ size, at = list(hormon = 0), data = gbsg), reverse = TRUE, adjust = "none"))
  found[[name]] <- list(
    formula = paste(deparse(formulas[[name]], width.cutoff = 500), collapse = ""), tests = tests(model),
    pairs = list(name = gsub("[()]", "", as.character(pairs$contrast)), estimate = pairs$estimate, std_error = pairs$SE, p_value = pairs$p.value),
    hormon = on_scales(risks_at("hormon", c(0, 1)), beta, V),
    size = on_scales(risks_at("size", c("<=20", ">50")), beta, V),
    age_40_60 = on_scales(risks_at("age", c(40, 60)), beta, V),
    age = list("risk derivative" = effect(slope, beta, V))
  )
}
model <- solved(formulas$interaction, gbsg, binomial())
averaged <- as.data.frame(pairs(emmeans(model, ~ size, weights = "equal", at = list(hormon = c(0, 1)), cov.keep = "hormon", data = gbsg), reverse = TRUE, adjust = "none"))
found$interaction$averaged <- list(
  name = gsub("[()]", "", as.character(averaged$contrast)), estimate = averaged$estimate, std_error = averaged$SE
)

# A discrete-time logistic hazard on person-period rows --------------------------------------------------------------------

cuts <- c(400, 800, 1400, 2000, 2500)
at_end <- pmin(pmax(findInterval(gbsg$time, cuts, left.open = TRUE) + 1, 1), length(cuts))
person <- rep(seq_len(nrow(gbsg)), at_end)
long <- gbsg[person, ]
long$interval <- sequence(at_end)
long$y <- as.integer(long$interval == at_end[person] & long$event == 1 & long$time <= max(cuts))
hazard <- y ~ 0 + factor(interval) + age + size + hormon
model <- solved(hazard, long, binomial())
beta <- coef(model); V <- vcov(model)
covariates <- function(value) model.matrix(~ age + size + hormon, transform(gbsg, hormon = value))[, -1]
survival <- function(b, X) {
  eta <- outer(drop(X %*% b[-seq_along(cuts)]), b[seq_along(cuts)], "+")
  cbind(1, t(apply(plogis(-eta), 1, cumprod)))
}
curves <- lapply(c(0, 1), covariates)
# Between cuts hazards are constant: the logarithm of survival is linear.
at_times <- function(S, times) t(apply(S, 1, function(own) exp(approx(c(0, cuts), log(own), times)$y)))
risks <- function(time) function(b) vapply(curves, function(X) 1 - mean(at_times(survival(b, X), c(0, time))[, 2]), numeric(1))
restricted <- function(time) function(b) diff(vapply(curves, function(X) {
  ends <- c(0, cuts[cuts < time], time)
  S <- at_times(survival(b, X), ends)
  before <- S[, -length(ends), drop = FALSE]; after <- S[, -1, drop = FALSE]
  mean(((before - after) / log(before / after)) %*% diff(ends))
}, numeric(1)))
found$hazard <- list(
  cuts = cuts, tests = { table <- Anova(model, type = 3, test.statistic = "Wald"); list(term = rownames(table), statistic = table$Chisq, df = table$Df) },
  early = on_scales(risks(1000), beta, V), late = on_scales(risks(2500), beta, V),
  restricted = list("1000" = effect(restricted(1000), beta, V), "2500" = effect(restricted(2500), beta, V))
)

writeLines(jsonlite::toJSON(list(
  software = list(
    R = R.version.string, car = as.character(packageVersion("car")), emmeans = as.character(packageVersion("emmeans"))
  ),
  found = found
), digits = NA, auto_unbox = TRUE, pretty = TRUE), file.path("tests", "reference", "effects.json"))
