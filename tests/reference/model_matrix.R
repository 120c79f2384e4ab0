#!/usr/bin/env Rscript
# Design matrices by R's model.matrix() on twelve made-up rows, written to tests/reference/model_matrix.json.
#
#   Rscript tests/reference/model_matrix.R [OUTPUT FILE]      (from the project's root)
#
# Formulas are written as R reads them; numbers have 17 significant digits. The splines of `beyond` have boundary knots
# inside the range of the rows: the polynomials of bs() go on there, with a warning; ns() is linear.

library(splines)

arguments <- commandArgs(trailingOnly = TRUE)
output <- if (length(arguments) >= 1) arguments[1] else file.path("tests", "reference", "model_matrix.json")

levels_of <- list(size = c("<=20", "20-50", ">50"), grade = c("1", "2", "3"), meno = c("pre", "post"))

numbers <- data.frame(
  y = c(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0),
  age = c(45, 61.5, 38, 72, 55, 49.25, 90, 20, 66, 58, 33, 47),
  nodes = c(0, 3, 1, 40, 7, 2, 0, 12, 5, 1, 25, 4),
  pgr = c(0.5, 120, 33, 2, 1, 900, 15, 61, 7.25, 0.125, 250, 44),
  change = c(-2, 1.5, 0, 3, -0.5, 2.25, -1, 0.75, 1, -1.75, 2.5, 0.1),
  hormon = c(1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1)
)
numbers[["age at entry"]] <- numbers$age - 0.5
codes <- list(
  size = c(0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2),
  grade = c(2, 1, 0, 1, 1, 2, 0, 2, 0, 1, 2, 0),
  meno = c(0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0)
)
frame <- numbers
for (name in names(codes)) frame[[name]] <- factor(levels_of[[name]][codes[[name]] + 1], levels_of[[name]])

formulas <- c(
  "y ~ 1", "y ~ age", "y ~ age - 1", "y ~ 0 + age", "y ~ -1 + age", "y ~ age - 1 + 1", "y ~ 0 + age + 1", "y ~ -0 + age",
  "y ~ size", "y ~ size - 1", "y ~ 0 + size + meno", "y ~ 0 + age + size + meno", "y ~ factor(size) + C(grade)",
  "y ~ age + size + grade + hormon", "y ~ age * nodes", "y ~ age:nodes", "y ~ age:age",
  "y ~ age * size", "y ~ age:size", "y ~ 0 + age:size", "y ~ 0 + age + age:size", "y ~ size + age:size", "y ~ size / age",
  "y ~ size * meno", "y ~ size:meno", "y ~ 0 + size:meno", "y ~ size + size:meno", "y ~ meno + size:meno",
  "y ~ size * meno - 1", "y ~ size * meno - size", "y ~ size * meno - meno", "y ~ size * meno - size - meno",
  "y ~ age:size + age:meno", "y ~ 0 + age:size + meno", "y ~ size:meno + age:size",
  "y ~ size * meno * grade", "y ~ size * meno * age", "y ~ size:meno:grade", "y ~ size:meno + size:grade",
  "y ~ size:age:meno", "y ~ age + nodes:size:meno", "y ~ size + meno + size:meno:age",
  "y ~ (size + meno + age)^2", "y ~ (age + nodes + pgr + change)^3", "y ~ (size + meno)^2 - size:meno",
  "y ~ (age + size) * (nodes + meno)", "y ~ (age + size) / nodes", "y ~ age * size / meno", "y ~ (age + nodes):size",
  "y ~ age + nodes * size^2", "y ~ age * (size - meno)", "y ~ (age + nodes)^2 - age",
  "y ~ log(pgr)", "y ~ log2(pgr) + log10(pgr) + log1p(nodes)", "y ~ sqrt(nodes) + exp(change) + abs(change)",
  "y ~ age + I(age^2) + I(age^3) + I(change^4)", "y ~ I(age - 50) + I(-change^2) + I(2 * change + 1)",
  "y ~ I(age / 10) + I((age - 50) / 10) + I(nodes / pgr) + I(1 / age)", "y ~ I(change * -2) + I(age - change - 1)",
  "y ~ I((change + 1)^2 / (age + 1))", "y ~ log(age / 10 + nodes) + log1p(nodes^2) + sqrt(age * pgr)",
  "y ~ scale(age, center = 50, scale = 10) + scale(log(pgr), center = -1.5, scale = 2)",
  "y ~ scale(age, center = 50, scale = 10) * size", "y ~ log(pgr):size + log(pgr):age:meno",
  "y ~ `age at entry` + log(`age at entry`)", "y ~ `age at entry`:size", "y ~ factor(size):log(pgr) + factor(size)",
  "y ~ C(size) * hormon", "y ~ hormon:size", "y ~ size:hormon:meno + hormon", "change ~ age + size",
  "y ~ bs(age, knots = c(40, 60), Boundary.knots = c(20, 90))", "y ~ bs(age, knots = 55, Boundary.knots = c(20, 90))",
  "y ~ bs(age, df = 3, Boundary.knots = c(20, 90))", "y ~ bs(age, knots = c(40, 60), degree = 1, Boundary.knots = c(0, 100))",
  "y ~ bs(age, knots = c(30, 35, 60), degree = 2, Boundary.knots = c(20, 90))",
  "y ~ bs(age, knots = c(50.5, 51, 70), degree = 5, Boundary.knots = c(10, 95.5))",
  "y ~ bs(log1p(nodes), knots = c(0.5, 1, 2), Boundary.knots = c(0, 4))",
  "y ~ bs(change, knots = 0, Boundary.knots = c(-2, 3)) * size - 1",
  "y ~ ns(age, knots = c(40, 60), Boundary.knots = c(20, 90))", "y ~ ns(age, knots = 55, Boundary.knots = c(20, 90))",
  "y ~ ns(age, df = 1, Boundary.knots = c(20, 90))", "y ~ ns(age, knots = c(45, 50, 61), Boundary.knots = c(35, 70))",
  "y ~ ns(change, knots = c(-1, -0.5, 0, 0.25, 1.5, 2), Boundary.knots = c(-3, 3))",
  "y ~ ns(log(pgr), knots = c(1, 3, 5), Boundary.knots = c(0, 6)) + size",
  "y ~ ns(age, knots = c(40, 60), Boundary.knots = c(20, 90)):size + size",
  "y ~ meno:ns(age, knots = 55, Boundary.knots = c(20, 90)):bs(change, df = 3, Boundary.knots = c(-2, 3))"
)
beyond <- c(
  "y ~ bs(age, knots = c(45, 60), Boundary.knots = c(30, 80))", "y ~ bs(age, knots = 50, degree = 2, Boundary.knots = c(30, 80))",
  "y ~ ns(age, knots = c(45, 60), Boundary.knots = c(30, 80))"
)

entry <- function(formula) {
  X <- suppressWarnings(model.matrix(as.formula(formula), frame))
  list(formula = formula, names = colnames(X), matrix = lapply(seq_len(ncol(X)), function(j) unname(X[, j])))
}

quoted <- function(text) paste0("\"", gsub("([\"\\\\])", "\\\\\\1", text), "\"")
array_of <- function(items, break_with = ", ") paste0("[", paste(items, collapse = break_with), "]")
array_of_numbers <- function(values) array_of(sprintf("%.17g", values))
object <- function(entries, break_with = ",\n  ") {
  paste0("{", paste(paste0(quoted(names(entries)), ": ", entries), collapse = break_with), "}")
}

written <- function(formulas) {
  designs <- vapply(formulas, function(formula) {
    made <- entry(formula)
    object(c(
      formula = quoted(made$formula), names = array_of(quoted(made$names)),
      columns = array_of(vapply(made$matrix, array_of_numbers, character(1)), ",\n    ")
    ), ",\n   ")
  }, character(1))
  array_of(designs, ",\n  ")
}

writeLines(object(c(
  source = quoted("tests/reference/model_matrix.R"),
  R = quoted(R.version.string),
  levels = object(vapply(levels_of, function(levels) array_of(quoted(levels)), character(1))),
  numbers = object(vapply(numbers, array_of_numbers, character(1))),
  codes = object(vapply(codes, array_of_numbers, character(1))),
  designs = written(formulas),
  beyond = written(beyond)
)), output)
