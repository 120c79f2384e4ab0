#!/usr/bin/env Rscript
# Concordance, Kaplan-Meier, Aalen-Johansen and Brier scores by R's survival, written to tests/reference/discrimination.json.
#
#   Rscript tests/reference/discrimination.R [CSV DIRECTORY] [OUTPUT FILE]      (from the project's root)
#
# The rows are those of rotterdam.csv. Times are also cut into half-years, so that many are tied. Numbers have 17
# significant digits. `Surv` events come before censorings of the same time, as in the package.

library(survival)

arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments) >= 1) arguments[1] else file.path("hdpstats", "data", "csv")
output <- if (length(arguments) >= 2) arguments[2] else file.path("tests", "reference", "discrimination.json")

raw <- read.csv(file.path(directory, "rotterdam.csv"))
rows <- within(raw, {
  half <- ceiling(rtime / 180)                               # tied times
  entry <- pmax(0, half - 1 - pid %% 6)                      # late entry, before every end
  score <- round(age / 5) + nodes                            # tied scores
  weight <- 1 + pid %% 3
  cluster <- pid %/% 3
  cause <- ifelse(recur == 1, 1, ifelse(death == 1 & dtime <= rtime, 2, 0))
})

# Concordance: a higher score goes with an earlier event ---------------------------------------------------------

concordances <- list(
  days     = concordance(Surv(rtime, recur) ~ score, rows, reverse = TRUE),
  tied     = concordance(Surv(half, recur) ~ score, rows, reverse = TRUE),
  weighted = concordance(Surv(half, recur) ~ score, rows, weights = weight, reverse = TRUE),
  entry    = concordance(Surv(entry, half, recur) ~ score, rows, reverse = TRUE),
  cluster  = concordance(Surv(entry, half, recur) ~ score, rows, cluster = cluster, reverse = TRUE),
  cause1   = concordance(Surv(half, cause == 1) ~ score, rows, reverse = TRUE),
  cause2   = concordance(Surv(half, cause == 2) ~ score, rows, reverse = TRUE)
)
of_concordance <- function(fit) {
  list(
    value = unname(fit$concordance), std_error = sqrt(unname(fit$var)),
    pairs = sum(fit$count[c("concordant", "discordant", "tied.x")])
  )
}

# Product-limit curves, at a few of their times -------------------------------------------------------------------

of_survfit <- function(fit, every) {
  at <- seq(1, length(fit$time), by = every)
  list(times = fit$time[at], survival = fit$surv[at], std_errors = (fit$surv * fit$std.err)[at])
}
curves <- list(
  days     = of_survfit(survfit(Surv(rtime, recur) ~ 1, rows), 97),
  tied     = of_survfit(survfit(Surv(half, recur) ~ 1, rows), 4),
  weighted = of_survfit(survfit(Surv(half, recur) ~ 1, rows, weights = weight, robust = FALSE), 4),
  entry    = of_survfit(survfit(Surv(entry, half, recur) ~ 1, rows), 4)
)

states <- survfit(Surv(half, factor(cause)) ~ 1, rows)
at <- seq(1, length(states$time), by = 4)
incidences <- list(
  times = states$time[at], survival = states$pstate[at, 1], cause1 = states$pstate[at, 2], cause2 = states$pstate[at, 3]
)

# Brier scores by their definition (Graf et al. 1999), with R's own estimate of the distribution of censoring.
# Events and censorings never share a day here: a censoring is put half a day later.

day <- rows$rtime + ifelse(rows$recur == 1, 0, 0.5)
free <- survfit(Surv(day, 1 - rows$recur) ~ 1)
uncensored <- stepfun(free$time, c(1, free$surv))
before <- function(t) uncensored(t - 0.25)
predicted <- function(t) 1 - exp(-t / 4000 * exp(0.05 * (rows$score - 14)))
brier <- function(t) {
  risk <- predicted(t)
  failed <- day <= t & rows$recur == 1
  mean(ifelse(failed, (1 - risk)^2 / before(day), ifelse(day > t, risk^2 / uncensored(t), 0)))
}
times <- c(365, 1000, 1826.25, 3000, 5000)
briers <- list(times = times, scores = vapply(times, brier, 0))

# JSON --------------------------------------------------------------------------------------------------------------

json <- function(value, indent = "") {
  inner <- paste0(indent, "  ")
  if (is.list(value)) {
    entries <- vapply(names(value), function(key) paste0(inner, "\"", key, "\": ", json(value[[key]], inner)), "")
    return(paste0("{\n", paste(entries, collapse = ",\n"), "\n", indent, "}"))
  }
  items <- if (is.character(value)) paste0("\"", value, "\"") else sprintf("%.17g", value)
  if (length(items) == 1) items else paste0("[", paste(items, collapse = ", "), "]")
}

writeLines(json(list(
  software = list(R = R.version.string, survival = as.character(packageVersion("survival"))),
  concordances = lapply(concordances, of_concordance),
  curves = curves,
  incidences = incidences,
  brier = briers
)), output)
