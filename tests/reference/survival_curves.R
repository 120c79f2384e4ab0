#!/usr/bin/env Rscript
# Survival curves, tests and restricted means by R's survival, written to tests/reference/survival_curves.json.
#
#   Rscript tests/reference/survival_curves.R [CSV DIRECTORY] [OUTPUT FILE]      (from the project's root)
#
# Follow-up is cut at 2557 days. The cut points are those at which the package counts. `grouped` has the actuarial
# estimate of the same people, as a Kaplan-Meier estimate with half of those who are censored in an interval leaving
# before its events. Numbers have 17 significant digits.

library(survival)

arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments) >= 1) arguments[1] else file.path("hdpstats", "schema", "csv")
output <- if (length(arguments) >= 2) arguments[2] else file.path("tests", "reference", "survival_curves.json")

horizon <- 2557
cuts <- c(180, 365, 730, 1095, 1460, 1825, 2192, 2557)
cut_off <- function(rows) within(rows, {
  beyond <- time > horizon
  status <- ifelse(time > horizon, 0, status)
  time <- pmin(time, horizon)
})
gbsg <- read.csv(file.path(directory, "gbsg.csv"))
gbsg <- cut_off(data.frame(
  time = gbsg$rfstime, status = gbsg$status, hormon = gbsg$hormon, grade = gbsg$grade, w = 1 + gbsg$nodes %% 3,
  entry = 30 * (gbsg$age %% 12), age = gbsg$age, nodes = gbsg$nodes
))
rotterdam <- read.csv(file.path(directory, "rotterdam.csv"))
rotterdam <- cut_off(with(rotterdam, data.frame(
  time = ifelse(recur == 1, rtime, pmin(rtime, dtime)),
  status = ifelse(recur == 1, 1, ifelse(death == 1 & dtime <= rtime, 2, 0)), hormon = hormon, age = age, nodes = nodes
)))

# Curves at the cut points --------------------------------------------------------------------------------------

columns <- function(found, names) lapply(setNames(names, names), function(name) unname(found[[name]]))
curves <- function(fit) {
  found <- summary(fit, times = cuts, extend = TRUE)
  groups <- if (is.null(found$strata)) rep("all", length(found$time)) else as.character(found$strata)
  lapply(split(seq_along(groups), factor(groups, unique(groups))), function(rows) list(
    estimate = found$surv[rows], std_error = found$std.err[rows],
    conf_low = found$lower[rows], conf_high = found$upper[rows], events = found$n.event[rows]
  ))
}
states <- function(fit) {
  found <- summary(fit, times = cuts, extend = TRUE)
  lapply(split(seq_along(found$time), factor(found$strata, unique(found$strata))), function(rows)
    lapply(setNames(2:3, c("first", "second")), function(state) list(
      estimate = found$pstate[rows, state], std_error = found$std.err[rows, state],
      conf_low = found$lower[rows, state], conf_high = found$upper[rows, state]
    ))
  )
}
quantiles <- function(fit) lapply(quantile(fit, c(0.1, 0.25, 0.5)), function(found) apply(found, 1, as.list))
means <- function(fit, upto) {
  found <- summary(fit, rmean = upto)$table
  columns(as.list(as.data.frame(found)), c("rmean", "se(rmean)"))
}
tested <- function(found) list(
  observed = if (is.matrix(found$obs)) rowSums(found$obs) else unname(found$obs),
  expected = if (is.matrix(found$exp)) rowSums(found$exp) else unname(found$exp),
  statistic = unname(found$chisq), variance = diag(found$var)
)
ratio <- function(fit) list(estimate = unname(coef(fit)), std_error = unname(sqrt(diag(vcov(fit)))))

plain <- survfit(Surv(time, status) ~ hormon, gbsg)
late <- survfit(Surv(entry, time, status) ~ hormon, subset(gbsg, entry < time))
weighted <- survfit(Surv(time, status) ~ hormon, gbsg, weights = w, robust = FALSE)
causes <- survfit(Surv(time, factor(status, 0:2)) ~ hormon, rotterdam)

# Overlap weights, taken as known: robust errors ---------------------------------------------------------------------

overlap <- function(rows) {
  chance <- fitted(glm(hormon ~ age + log1p(nodes), binomial, rows, control = glm.control(epsilon = 1e-14, maxit = 50)))
  within(rows, {
    ow <- ifelse(hormon == 1, 1 - chance, chance)
    id <- seq_along(ow)
  })
}
adjusted <- survfit(Surv(time, status) ~ hormon, overlap(gbsg), weights = ow, robust = TRUE, id = id)
adjusted_causes <- survfit(Surv(time, factor(status, 0:2)) ~ hormon, overlap(rotterdam), weights = ow, robust = TRUE, id = id)
adjusted_ratio <- coxph(Surv(time, status) ~ hormon, overlap(gbsg), weights = ow, robust = TRUE, ties = "breslow",
                        eps = 1e-12, toler.chol = 1e-13)

# The actuarial estimate --------------------------------------------------------------------------------------------

actuarial <- function(rows) {
  interval <- findInterval(rows$time, c(0, cuts), left.open = TRUE)
  beyond <- rows$beyond | (rows$status == 0 & rows$time == max(cuts)) # who is censored at the end was at risk until then
  times <- ifelse(beyond, 2 * length(cuts) + 9, 2 * interval)
  half <- data.frame(
    time = c(ifelse(rows$status == 0 & !beyond, times - 1, times), times), status = rep(rows$status, 2), weight = 0.5
  )
  found <- summary(survfit(Surv(time, status > 0) ~ 1, half, weights = weight, robust = FALSE), times = 2 * seq_along(cuts))
  list(survival = found$surv)
}

result <- list(
  software = list(R = R.version.string, survival = as.character(packageVersion("survival"))),
  cuts = cuts,
  curves = list(plain = curves(plain), late = curves(late), weighted = curves(weighted)),
  states = states(causes),
  quantiles = quantiles(plain),
  means = list(plain = means(plain, 1825), late = means(late, 1825)),
  tests = list(
    logrank = tested(survdiff(Surv(time, status) ~ hormon, gbsg)),
    peto = tested(survdiff(Surv(time, status) ~ hormon, gbsg, rho = 1)),
    three = tested(survdiff(Surv(time, status) ~ grade, gbsg)),
    three_peto = tested(survdiff(Surv(time, status) ~ grade, gbsg, rho = 1)),
    stratified = tested(survdiff(Surv(time, status) ~ grade + strata(hormon), gbsg))
  ),
  ratios = list(
    two = ratio(coxph(Surv(time, status) ~ hormon, gbsg, ties = "breslow", eps = 1e-12, toler.chol = 1e-13)),
    three = ratio(coxph(Surv(time, status) ~ factor(grade), gbsg, ties = "breslow", eps = 1e-12, toler.chol = 1e-13)),
    late = ratio(coxph(Surv(entry, time, status) ~ hormon, subset(gbsg, entry < time), ties = "breslow", eps = 1e-12, toler.chol = 1e-13))
  ),
  adjusted = list(
    curves = lapply(curves(adjusted), `[`, c("estimate", "std_error", "events")),
    states = lapply(states(adjusted_causes), function(each) lapply(each, `[`, c("estimate", "std_error"))),
    mean = unname(summary(adjusted, rmean = 1825)$table[, "rmean"]), ratio = ratio(adjusted_ratio)
  ),
  grouped = list(gbsg = actuarial(gbsg), rotterdam = actuarial(transform(rotterdam, status = +(status > 0))))
)

json <- function(value) {
  if (is.list(value)) {
    parts <- vapply(value, json, "")
    if (is.null(names(value))) return(paste0("[", paste(parts, collapse = ", "), "]"))
    return(paste0("{", paste0("\"", names(value), "\": ", parts, collapse = ",\n"), "}"))
  }
  if (is.character(value)) return(paste0("\"", value, "\""))
  numbers <- ifelse(is.na(value), "null", ifelse(is.infinite(value), "1e999", sprintf("%.17g", value)))
  if (length(value) == 1) numbers else paste0("[", paste(numbers, collapse = ", "), "]")
}
writeLines(json(result), output)
