#!/usr/bin/env Rscript
# Logistic regressions by R's glm() on the example data of hdpstats, written to tests/reference/glm.json.
#
#   Rscript tests/reference/glm.R [CSV DIRECTORY] [OUTPUT FILE]      (from the project's root)
#
# The rows are those of the package's own CSV files; the common columns are derived here a second time, in R.
# Rows with a missing outcome drop as glm() drops them. Numbers have 17 significant digits, NA is null.

arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments) >= 1) arguments[1] else file.path("hdpstats", "data", "csv")
output <- if (length(arguments) >= 2) arguments[2] else file.path("tests", "reference", "glm.json")

# Data -----------------------------------------------------------------------------------------------------

size_levels <- c("<=20", "20-50", ">50")
three_years <- 3 * 365.25

common <- function(raw, size, time, event) {
  event3 <- rep(NA_real_, nrow(raw))
  event3[time <= three_years & event == 1] <- 1
  event3[time > three_years] <- 0
  data.frame(
    age = raw$age, nodes = raw$nodes, size = factor(size, levels = size_levels),
    grade3 = as.integer(raw$grade == 3), hormon = raw$hormon, meno = raw$meno, pgr = raw$pgr, er = raw$er,
    time = time, event = event, event3 = event3
  )
}

read <- function(name) read.csv(file.path(directory, paste0(name, ".csv")))

raw <- read("rotterdam")
rotterdam <- common(
  raw, raw$size,
  time = ifelse(raw$recur == 1, raw$rtime, raw$dtime), event = pmax(raw$recur, raw$death)
)
raw <- read("gbsg")
gbsg <- common(
  raw, ifelse(raw$size <= 20, "<=20", ifelse(raw$size <= 50, "20-50", ">50")),
  time = raw$rfstime, event = raw$status
)

# Further columns, which a test derives again from the same words
derived <- list(
  w = "1 + nodes %% 4",       # prior weight: 1, 2, 3 or 4
  o = "grade3 - 0.5",         # offset
  age_copy = "age"            # the same column twice
)
derive <- function(frame) {
  for (name in names(derived)) frame[[name]] <- eval(parse(text = derived[[name]]), frame)
  frame
}
frames <- list(gbsg = derive(gbsg), rotterdam = derive(rotterdam))

# Fits -----------------------------------------------------------------------------------------------------

specifications <- list(
  main               = list(formula = "event3 ~ age + size + grade3 + log1p(nodes) + hormon"),
  interaction        = list(formula = "event3 ~ age * hormon"),
  factor_interaction = list(formula = "event3 ~ size * grade3 + age"),
  power              = list(formula = "event3 ~ age + I(age^2) + grade3"),
  no_intercept       = list(formula = "event3 ~ age + size + hormon - 1"),
  factor             = list(formula = "event3 ~ age + factor(size) + hormon"),
  offset             = list(formula = "event3 ~ age + log1p(nodes)", offset = "o"),
  weights            = list(formula = "event3 ~ age + size + hormon", weights = "w"),
  offset_weights     = list(formula = "event3 ~ age + size + hormon", offset = "o", weights = "w"),
  # glm() calls columns dependent at a tolerance of epsilon / 1000, which must stay above rounding
  rank_deficient     = list(formula = "event3 ~ age + age_copy + hormon", epsilon = 1e-11)
)

# The score equation X'w(y - mu) = 0 must hold up to rounding.
relative_score <- function(model) {
  X <- model.matrix(model)
  w <- model$prior.weights
  max(abs(crossprod(X, w * (model$y - fitted(model)))) / crossprod(abs(X), w))
}

fit <- function(data, formula, weights = NULL, offset = NULL, epsilon = 1e-14) {
  frame <- frames[[data]]
  frame$.weights <- if (is.null(weights)) rep(1, nrow(frame)) else frame[[weights]]
  frame$.offset <- if (is.null(offset)) rep(0, nrow(frame)) else frame[[offset]]
  control <- glm.control(epsilon = epsilon, maxit = 100)
  arguments <- list(
    as.formula(formula), family = binomial, data = frame, weights = quote(.weights), offset = quote(.offset),
    control = control
  )
  model <- do.call(glm, arguments)
  # R takes standard errors from the weights before the last step: a second pass starts at the solution.
  start <- ifelse(is.na(coef(model)), 0, coef(model))
  model <- do.call(glm, c(arguments, list(start = start)))
  stopifnot(model$converged, relative_score(model) < 5e-14)
  covariance <- vcov(model, complete = TRUE)
  list(
    data = data, formula = formula, weights = weights, offset = offset, epsilon = epsilon,
    nobs = nobs(model), rank = model$rank, terms = names(coef(model)), coefficients = unname(coef(model)),
    std_errors = unname(sqrt(diag(covariance))), deviance = deviance(model)
  )
}

fits <- list()
for (data in names(frames)) {
  for (name in names(specifications)) {
    fits[[paste(data, name, sep = ".")]] <- do.call(fit, c(list(data = data), specifications[[name]]))
  }
}

# What a reader of the same rows must find -------------------------------------------------------------------

summarise <- function(frame) {
  number <- Filter(is.numeric, frame[!names(frame) %in% names(derived)])
  list(
    rows = nrow(frame),
    sums = lapply(number, sum, na.rm = TRUE),
    sums_of_squares = lapply(number, function(x) sum(x^2, na.rm = TRUE)),
    size = as.list(table(frame$size)),
    event3_missing = sum(is.na(frame$event3))
  )
}

# JSON -----------------------------------------------------------------------------------------------------

quoted <- function(text) paste0("\"", gsub("([\"\\\\])", "\\\\\\1", text), "\"")

atom <- function(value) {
  if (is.na(value)) "null" else if (is.character(value)) quoted(value) else sprintf("%.17g", value)
}

json <- function(value, indent = "") {
  inner <- paste0(indent, "  ")
  if (is.null(value)) return("null")
  if (is.list(value)) {
    entries <- vapply(
      names(value), function(key) paste0(inner, quoted(key), ": ", json(value[[key]], inner)), character(1)
    )
    return(paste0("{\n", paste(entries, collapse = ",\n"), "\n", indent, "}"))
  }
  items <- vapply(value, atom, character(1))
  if (length(items) == 1) items else paste0("[", paste(items, collapse = ", "), "]")
}

writeLines(json(list(
  software = list(
    R = R.version.string, platform = R.version$platform, stats = packageDescription("stats")$Version,
    survival = packageDescription("survival")$Version
  ),
  derived = derived,
  frames = lapply(frames, summarise),
  fits = fits
)), output)
cat("wrote", length(fits), "fits to", output, "\n")
