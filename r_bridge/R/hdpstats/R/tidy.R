# Tables with broom's names of columns. The functions work without any other package; the generics' methods are registered as well.

dp_tidy <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE) {
  asked <- list(result = x, conf_level = conf.level, exponentiate = exponentiate)
  table <- .broom_names(.py(if (inherits(x, "dp_aggregate")) "aggregate_tidy" else "tidy", asked))
  if (inherits(x, "dp_result")) table <- .in_order(table, x)
  if (conf.int) table else table[setdiff(names(table), c("conf.low", "conf.high"))]
}

dp_glance <- function(x) .broom_names(.py("glance", list(result = x)))

dp_estimates <- function(x, conf.level = 0.95) {
  table <- .broom_names(.py("estimates", list(result = x, conf_level = conf.level)))
  parts <- split(table, factor(table$label, unique(table$label)))
  stats::setNames(do.call(rbind, c(lapply(parts, .in_order, x = x), make.row.names = FALSE)), names(table))
}

dp_modelsummary <- function(x, conf.level = 0.95, exponentiate = FALSE) {
  table <- dp_tidy(x, conf.int = TRUE, conf.level = conf.level, exponentiate = exponentiate)
  structure(list(tidy = table, glance = dp_glance(x)), class = "modelsummary_list")
}

tidy.dp_result <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  dp_tidy(x, conf.int = conf.int, conf.level = conf.level, exponentiate = exponentiate)
}

glance.dp_result <- function(x, ...) dp_glance(x)

as.data.frame.dp_result <- function(x, row.names = NULL, optional = FALSE, ...) dp_tidy(x, conf.int = TRUE, ...)

# The rows of terms in the order of coef().
.in_order <- function(table, x) {
  table <- table[match(names(x$coefficients), table$term), , drop = FALSE]
  rownames(table) <- NULL
  table
}

.broom_names <- function(table) stats::setNames(table, gsub("_", ".", names(table), fixed = TRUE))
