# CPU seconds of R's survfit() on survival times: the first and the median of the others, as a line of JSON.
#
#   Rscript benchmarks/workers/survfit.R TIMES.csv REPEATS

arguments <- commandArgs(trailingOnly = TRUE)
library(survival)
rows <- read.csv(arguments[1])
seconds <- replicate(as.integer(arguments[2]) + 1L, {
  time <- system.time(survfit(Surv(time, event) ~ 1, data = rows))
  sum(time[c("user.self", "sys.self")])
})
cat(sprintf(
  "{\"first\": %.6f, \"seconds\": %.6f, \"versions\": {\"R\": \"%s\", \"survival\": \"%s\"}}\n",
  seconds[1], median(seconds[-1]), getRversion(), packageVersion("survival")
))
