#!/usr/bin/env Rscript
# Discrete-time hazards by R's glm() on person-period rows, and Cox models, written to tests/reference/hazard.json.
#
#   Rscript tests/reference/hazard.R [CSV DIRECTORY] [OUTPUT FILE]      (from the project's root)
#
# gbsg, rotterdam, flchain and nwtco are read from the package's own CSV files; pbc and lung come from R's survival and
# their columns are written to the output. Numbers have 17 significant digits, NA is null. Takes about 2 minutes and 2 GB.

library(survival)
arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments) >= 1) arguments[1] else file.path("hdpstats", "data", "csv")
output <- if (length(arguments) >= 2) arguments[2] else file.path("tests", "reference", "hazard.json")
read <- function(name) read.csv(file.path(directory, paste0(name, ".csv")))

# Data: numeric covariates, time, event -------------------------------------------------------------------------

breast <- function(raw, size, time, event) {
  data.frame(
    age = raw$age, nodes = raw$nodes, size20 = as.integer(size == "20-50"), size50 = as.integer(size == ">50"),
    grade3 = as.integer(raw$grade == 3), hormon = raw$hormon, time = time, event = event,
    w = 1 + raw$nodes %% 4, o = (raw$grade == 3) - 0.5, start = 250 * (raw$pid %% 5)
  )
}
raw <- read("rotterdam")
rotterdam <- breast(raw, raw$size, ifelse(raw$recur == 1, raw$rtime, raw$dtime), pmax(raw$recur, raw$death))
raw <- read("gbsg")
gbsg <- breast(raw, ifelse(raw$size <= 20, "<=20", ifelse(raw$size <= 50, "20-50", ">50")), raw$rfstime, raw$status)
pbc <- with(survival::pbc, data.frame(age, edema, bili, albumin, protime, time, event = as.integer(status == 2)))
pbc <- na.omit(pbc)
lung <- with(survival::lung, data.frame(age, sex, ph.ecog, time, event = as.integer(status == 2)))
lung <- na.omit(lung)
frames <- list(gbsg = gbsg, rotterdam = rotterdam, pbc = pbc, lung = lung)
horizons <- list(gbsg = 2400, rotterdam = 6000, pbc = 4000, lung = 900)
covariates <- list(
  gbsg = c("age", "nodes", "size20", "size50", "grade3", "hormon"),
  rotterdam = c("age", "nodes", "size20", "size50", "grade3", "hormon"),
  pbc = c("age", "edema", "bili", "albumin", "protime"), lung = c("age", "sex", "ph.ecog")
)

# Person-period rows ----------------------------------------------------------------------------------------------

# Natural cubic spline of s / q with knots 0, 1/2, 1 (Nguyen and Hui 2017, section 3.2)
spline_basis <- function(q) {
  t <- (1:q) / q
  d <- function(k) (pmax(t - k, 0)^3 - pmax(t - 1, 0)^3) / (1 - k)
  cbind(b1 = 1, b2 = t, b3 = d(0) - d(0.5))
}

dummy_basis <- function(q) structure(diag(q), dimnames = list(NULL, paste0("s", 1:q)))

# Rows of people at risk in the intervals entry + 1, ..., exit
expand <- function(Z, entry, exit, event, A, weights = NULL, offset = NULL) {
  lengths <- pmax(exit - entry, 0)
  person <- rep(seq_along(exit), lengths)
  s <- sequence(lengths) + entry[person]
  list(
    X = cbind(A[s, , drop = FALSE], Z[person, , drop = FALSE]), y = as.numeric(event[person] == 1 & s == exit[person]),
    weights = if (is.null(weights)) rep(1, length(s)) else weights[person],
    offset = if (is.null(offset)) rep(0, length(s)) else offset[person]
  )
}

interval_of <- function(time, cuts) ifelse(time <= 0, 0, pmin(findInterval(time, cuts, left.open = TRUE) + 1, length(cuts)))

# Fits ------------------------------------------------------------------------------------------------------------

relative_score <- function(model, rows, link) {
  slope <- binomial(link)$mu.eta(model$linear.predictors)
  residual <- rows$weights * (rows$y - model$fitted.values) * slope / (model$fitted.values * (1 - model$fitted.values))
  max(abs(crossprod(rows$X, residual)) / crossprod(abs(rows$X), abs(residual)))
}

fit <- function(rows, link) {
  arguments <- list(
    x = rows$X, y = rows$y, weights = rows$weights, offset = rows$offset, family = binomial(link),
    control = glm.control(epsilon = 1e-14, maxit = 100)
  )
  # glm stops when the deviance does; it is started again until the score equation holds
  model <- suppressWarnings(do.call(glm.fit, arguments))
  for (again in 1:50) {
    if (relative_score(model, rows, link) < 1e-12) break
    model <- suppressWarnings(do.call(glm.fit, c(arguments, list(start = model$coefficients))))
  }
  model <- suppressWarnings(do.call(glm.fit, c(arguments, list(start = model$coefficients))))
  stopifnot(all(is.finite(model$coefficients)), model$converged, relative_score(model, rows, link) < 1e-12)
  list(
    rows = length(rows$y), events = sum(rows$y), terms = colnames(rows$X), coefficients = unname(model$coefficients),
    std_errors = unname(sqrt(diag(chol2inv(model$qr$qr[seq_len(model$rank), seq_len(model$rank)])))),
    deviance = model$deviance
  )
}

person_period <- function(data, link, baseline = "spline", start = FALSE, weights = FALSE, offset = FALSE) {
  frame <- frames[[data]]
  q <- 20
  cuts <- horizons[[data]] * (1:q) / q
  rows <- expand(
    as.matrix(frame[covariates[[data]]]),
    entry = if (start) interval_of(frame$start, cuts) else rep(0, nrow(frame)),
    exit = pmax(interval_of(frame$time, cuts), 1), event = frame$event == 1 & frame$time <= horizons[[data]],
    A = if (baseline == "spline") spline_basis(q) else dummy_basis(q),
    weights = if (weights) frame$w, offset = if (offset) frame$o
  )
  specification <- list(
    data = data, link = link, baseline = baseline, intervals = q, horizon = horizons[[data]],
    start = start, weights = weights, offset = offset
  )
  c(specification, fit(rows, link))
}

fits <- list()
for (link in c("logit", "cloglog", "probit")) {
  for (data in names(frames)) fits[[paste(data, link, sep = ".")]] <- person_period(data, link)
  for (data in c("pbc", "rotterdam")) {
    fits[[paste(data, link, "dummies", sep = ".")]] <- person_period(data, link, baseline = "dummies")
  }
  fits[[paste("gbsg", link, "weighted", sep = ".")]] <- person_period("gbsg", link, weights = TRUE, offset = TRUE)
  fits[[paste("rotterdam", link, "late", sep = ".")]] <- person_period("rotterdam", link, start = TRUE)
  fits[[paste("rotterdam", link, "late_weighted", sep = ".")]] <-
    person_period("rotterdam", link, start = TRUE, weights = TRUE, offset = TRUE)
}

# 200 intervals and Cox models: covariates centred and divided by their range, then by the largest row norm -----------

flchain <- read("flchain")
flchain$male <- as.integer(flchain$sex == "M")
nwtco <- read("nwtco")
studies <- list(
  flchain6 = list(
    frame = flchain, time = "futime", event = "death",
    columns = c("age", "male", "kappa", "lambda", "flc.grp", "mgus")
  ),
  flchain8 = list(
    frame = flchain, time = "futime", event = "death",
    columns = c("age", "male", "sample.yr", "kappa", "lambda", "flc.grp", "creatinine", "mgus")
  ),
  nwtco5 = list(
    frame = nwtco, time = "edrel", event = "rel", columns = c("instit", "histol", "stage", "study", "age")
  )
)
scaled <- list()
for (name in names(studies)) {
  study <- studies[[name]]
  frame <- na.omit(study$frame[c(study$columns, study$time, study$event)])
  Z <- scale(as.matrix(frame[study$columns]), scale = FALSE)
  Z <- sweep(Z, 2, apply(Z, 2, function(x) diff(range(x))), "/")
  Z <- Z / max(sqrt(rowSums(Z^2)))
  time <- frame[[study$time]]
  event <- frame[[study$event]]
  cox <- coxph(Surv(time, event) ~ Z, control = coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50))
  exit <- pmax(ceiling(200 * time / max(time)), 1)
  rows <- expand(Z, entry = rep(0, nrow(Z)), exit = exit, event = event, A = spline_basis(200))
  scaled[[name]] <- c(
    list(people = nrow(Z), columns = study$columns, cox = unname(coef(cox))),
    list(link = "logit", intervals = 200), fit(rows, "logit")
  )
}

# JSON ------------------------------------------------------------------------------------------------------------

quoted <- function(text) paste0("\"", gsub("([\"\\\\])", "\\\\\\1", text), "\"")

atom <- function(value) {
  if (is.na(value)) "null"
  else if (is.character(value)) quoted(value)
  else if (is.logical(value)) tolower(as.character(value))
  else sprintf("%.17g", value)
}

json <- function(value, indent = "") {
  inner <- paste0(indent, "  ")
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
  covariates = covariates,
  data = list(pbc = as.list(pbc), lung = as.list(lung)),
  fits = fits,
  scaled = scaled
)), output)
cat("wrote", length(fits) + length(scaled), "fits to", output, "\n")
