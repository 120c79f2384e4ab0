#!/usr/bin/env Rscript
# Fits by R's glm() whose maximum-likelihood estimate does not exist in some coefficients: tests/reference/separation.json.
#
#   Rscript tests/reference/separation.R [OUTPUT FILE]      (from the project's root)
#
# A coefficient has no finite estimate where ten more iterations move it on (detectseparation::check_infinite_estimates)
# or its standard error explodes. The others are those of the last iteration. Rows are made by rules: a test has the same.

arguments <- commandArgs(trailingOnly = TRUE)
output <- if (length(arguments) >= 1) arguments[1] else file.path("tests", "reference", "separation.json")

n <- 240
i <- seq_len(n)
frame <- data.frame(
  x = (i * 37) %% 101 / 10,
  z = (i * 53) %% 97 / 10,
  g = factor(c("a", "b", "c")[1 + (i * 7) %% 11 %% 3], levels = c("a", "b", "c", "d")),
  rare = as.numeric(i %% 40 == 0)
)
coin <- (i * 71) %% 113 / 113
frame$y <- as.numeric(coin < plogis(0.4 * (frame$x - 5) - 0.2 * frame$z))
frame$quasi <- ifelse(frame$rare == 1, 1, frame$y)                                     # a level with outcome 1 only
frame$complete <- as.numeric(frame$x > 5)                                              # a column says it all
frame$nested <- ifelse(frame$g == "c", 1, ifelse(frame$rare == 1, 0, frame$y))         # two levels, each its own way
frame$within <- ifelse(frame$g == "a", frame$y, ifelse(frame$g == "b", frame$z > 5, 1)) * 1
frame$count <- ifelse(frame$rare == 1, 0, (i * 29) %% 5)
frame$time <- 1 + (i * 11) %% 6
frame$event <- ifelse(frame$rare == 1 | frame$time == 3, 0, frame$y)                   # no event there, nor in interval 3

long <- frame[rep(i, frame$time), ]
long$interval <- factor(sequence(frame$time), levels = 1:6)
long$ends <- as.numeric(long$event == 1 & sequence(frame$time) == rep(frame$time, frame$time))

specifications <- list(
  quasi = list(quasi ~ x + z + g + rare, binomial(), frame),
  complete = list(complete ~ x + z + g, binomial(), frame),
  nested = list(nested ~ x + z + g + rare, binomial(), frame),
  within = list(within ~ x + g + g:z, binomial(), frame),
  missing_level = list(y ~ x + g, binomial(), frame),
  count = list(count ~ x + z + rare, poisson(), frame),
  hazard_logit = list(ends ~ interval - 1 + x + rare, binomial(), long),
  hazard_cloglog = list(ends ~ interval - 1 + x + rare, binomial("cloglog"), long)
)

fit <- function(spec, iterations) {
  suppressWarnings(glm(
    spec[[1]], spec[[2]], spec[[3]], control = glm.control(epsilon = 1e-300, maxit = iterations), x = TRUE
  ))
}

number <- function(values) {
  paste0("[", paste(ifelse(is.finite(values), formatC(values, digits = 17, format = "g"), "null"), collapse = ", "), "]")
}

entry <- function(name) {
  spec <- specifications[[name]]
  few <- fit(spec, 12)
  many <- fit(spec, 22)
  errors <- rep(NA_real_, length(coef(many)))
  named <- sqrt(diag(vcov(many, complete = FALSE)))
  errors[match(names(named), names(coef(many)))] <- named
  infinite <- abs(coef(many) - coef(few)) > 0.5 | errors > 1000   # or left undetermined by the others
  values <- ifelse(is.na(coef(many)) | infinite, NA, coef(many))
  errors[is.na(values)] <- NA
  sprintf(
    '  "%s": {"formula": "%s", "terms": ["%s"], "coefficients": %s, "std_errors": %s}',
    name, paste(deparse(spec[[1]]), collapse = " "), paste(names(values), collapse = '", "'), number(values), number(errors)
  )
}

writeLines(c("{", paste(vapply(names(specifications), entry, ""), collapse = ",\n"), "}"), output)
