# Discrete-time hazard by R's glm() on person-period rows: reads spells, fits, prints one line of JSON.
#
#   Rscript benchmarks/workers/glm_hazard.R BASELINE.csv SPELLS.csv REPEATS
#
# Seconds are user and system time of glm() alone; the memory is what the rows and the first fit add to the process.

arguments <- commandArgs(trailingOnly = TRUE)
A <- as.matrix(read.csv(arguments[1]))
spells <- read.csv(arguments[2])

peak <- function() {
  line <- grep("^VmHWM:", readLines("/proc/self/status"), value = TRUE)
  as.numeric(sub("[^0-9]*([0-9]+).*", "\\1", line)) / 1024
}

invisible(glm(y ~ 0 + x, family = binomial(), data = data.frame(x = 1:20, y = rep(0:1, 10))))
invisible(gc())
cat("5", file = "/proc/self/clear_refs")
before <- peak()

person <- rep(seq_len(nrow(spells)), spells$exit)
interval <- sequence(spells$exit)
covariates <- spells[grep("^z", names(spells))]
rows <- data.frame(A[interval, ], covariates[person, ], row.names = NULL)
rows$y <- as.numeric(spells$event[person] == 1 & interval == spells$exit[person])

seconds <- c()
added <- NA
for (fit in seq_len(as.integer(arguments[3]))) {
  time <- system.time(model <- glm(y ~ 0 + ., family = binomial(), data = rows))
  seconds <- c(seconds, sum(time[c("user.self", "sys.self")]))
  if (is.na(added)) added <- peak() - before
}
cat(sprintf(
  "{\"coefficients\": [%s], \"seconds\": %.6f, \"added_mb\": %.3f, \"versions\": {\"R\": \"%s\"}}\n",
  paste(sprintf("%.17g", coef(model)), collapse = ", "), median(seconds), added, getRversion()
))
