# Public data, the same rows and columns as in Python.

dp_load_rotterdam <- function(harmonised = TRUE) .py("load_rotterdam", list(harmonised = harmonised))

dp_load_gbsg <- function(harmonised = TRUE) .py("load_gbsg", list(harmonised = harmonised))

dp_load_flchain <- function() .py("load_flchain")

dp_load_nwtco <- function() .py("load_nwtco")

dp_load_colon <- function() .py("load_colon")

dp_load_pbcseq <- function() .py("load_pbcseq")
