#!/usr/bin/env Rscript
# Linear, Poisson and exponential regressions by R's lm(), glm() and survreg() on the example data of hdpstats, written to
# tests/reference/losses.json.
#
#   Rscript tests/reference/losses.R [CSV DIRECTORY] [OUTPUT FILE]      (from the project's root)
#
# The rows are those of the package's own CSV file of gbsg; the common columns are derived here a second time, in R.
# Follow-up ends at the horizon of 2557 days. Numbers have 17 significant digits, NA is null.

suppressPackageStartupMessages(library(survival))

arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments) >= 1) arguments[1] else file.path("hdpstats", "data", "csv")
output <- if (length(arguments) >= 2) arguments[2] else file.path("tests", "reference", "losses.json")
horizon <- 2557

raw <- read.csv(file.path(directory, "gbsg.csv"))
gbsg <- data.frame(
  age = raw$age, nodes = raw$nodes, hormon = raw$hormon, grade3 = as.integer(raw$grade == 3),
  size = factor(ifelse(raw$size <= 20, "<=20", ifelse(raw$size <= 50, "20-50", ">50")), levels = c("<=20", "20-50", ">50")),
  time = pmin(raw$rfstime, horizon), event = ifelse(raw$rfstime > horizon, 0, raw$status)
)
gbsg$w <- 1 + gbsg$nodes %% 4
gbsg$o <- gbsg$grade3 - 0.5
gbsg$age_copy <- gbsg$age

number <- function(x) ifelse(is.na(x), "null", formatC(x, digits = 17, format = "g"))
vector <- function(x) paste0("[", paste(number(x), collapse = ","), "]")
quoted <- function(x) paste0("\"", x, "\"")
entry <- function(kind, formula, fit, errors, weights = NULL, offset = NULL, sign = 1) {
  paste0(
    "{\"kind\":", quoted(kind), ",\"formula\":", quoted(formula), ",\"weights\":", if (is.null(weights)) "null" else quoted(weights),
    ",\"offset\":", if (is.null(offset)) "null" else quoted(offset), ",\"terms\":[", paste(quoted(names(coef(fit))), collapse = ","),
    "],\"coefficients\":", vector(sign * coef(fit)), ",\"errors\":", vector(errors), "}"
  )
}
aligned <- function(fit) {
  errors <- setNames(rep(NA_real_, length(coef(fit))), names(coef(fit)))
  found <- coef(summary(fit))[, "Std. Error"]
  errors[names(found)] <- found
  errors
}

entries <- c()
for (text in c("nodes ~ age + size + hormon", "age ~ log1p(nodes) + grade3", "age ~ 0 + nodes + size", "nodes ~ age + age_copy + hormon")) {
  fit <- lm(as.formula(text), gbsg)
  entries <- c(entries, entry("linear", text, fit, aligned(fit)))
}
text <- "nodes ~ age + size"
fit <- lm(as.formula(text), gbsg, weights = w, offset = o)
entries <- c(entries, entry("linear", text, fit, aligned(fit), weights = "w", offset = "o"))
for (text in c("nodes ~ age + size + hormon", "nodes ~ log1p(age) + grade3")) {
  fit <- glm(as.formula(text), poisson(), gbsg, control = glm.control(epsilon = 1e-14, maxit = 100))
  entries <- c(entries, entry("poisson", text, fit, aligned(fit)))
}
text <- "nodes ~ age + hormon"
fit <- glm(as.formula(text), poisson(), gbsg, weights = w, offset = o, control = glm.control(epsilon = 1e-14, maxit = 100))
entries <- c(entries, entry("poisson", text, fit, aligned(fit), weights = "w", offset = "o"))
for (text in c("Surv(time, event) ~ age + size + hormon", "Surv(time, event) ~ log1p(nodes) + grade3")) {
  fit <- survreg(as.formula(text), gbsg, dist = "exponential", control = survreg.control(rel.tolerance = 1e-14, maxiter = 100))
  errors <- sqrt(diag(vcov(fit)))[names(coef(fit))]
  entries <- c(entries, entry("exponential", text, fit, errors, sign = -1))
}
cat(
  "{\"r\":", quoted(R.version.string), ",\"survival\":", quoted(as.character(packageVersion("survival"))),
  ",\"horizon\":", horizon, ",\"fits\":[\n", paste(entries, collapse = ",\n"), "\n]}\n", sep = "", file = output
)
