#!/usr/bin/env Rscript
# Write the example data of hdpstats: six data sets of R's `survival` package, unchanged, as CSV.
#
#   Rscript tools/export_datasets.R [DIRECTORY]      (default: hdpstats/schema/csv)
#
# Made with R 4.2.2 and survival 3.5-3 (Terry Therneau and others; licence LGPL >= 2).
# Rows, columns, column names and values are R's own, to 15 digits. Missing values are empty fields, logicals are TRUE and
# FALSE, rows are in R's order without row names. Each file is read back and compared with R's data set.

suppressPackageStartupMessages(library(survival))

data_sets <- c("rotterdam", "gbsg", "flchain", "nwtco", "colon", "pbcseq")
arguments <- commandArgs(trailingOnly = TRUE)
directory <- if (length(arguments)) arguments[1] else file.path("hdpstats", "schema", "csv")

export <- function(name) {
  frame <- as.data.frame(get(name, envir = asNamespace("survival")))
  rownames(frame) <- NULL
  path <- file.path(directory, paste0(name, ".csv"))
  write.csv(frame, path, quote = FALSE, row.names = FALSE, na = "", eol = "\n")
  copy <- read.csv(path, na.strings = "", check.names = FALSE)
  for (column in names(frame)) {
    original <- frame[[column]]
    if (is.factor(original)) original <- as.character(original)
    stopifnot(length(original) == nrow(copy), isTRUE(all.equal(original, copy[[column]], tolerance = 1e-14)))
  }
  cat(sprintf("%-10s %5d rows %3d columns\n", name, nrow(frame), ncol(frame)))
}

for (name in data_sets) export(name)
cat(R.version.string, "; survival ", packageDescription("survival")$Version, "\n", sep = "")
