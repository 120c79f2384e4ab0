# Tables with broom's names of columns. The functions work without any other package; the generics' methods are registered as well.

dp_tidy <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE) {
  asked <- list(result = x, conf_level = conf.level, exponentiate = exponentiate)
  table <- .broom_names(.py(if (inherits(x, "dp_aggregate")) "aggregate_tidy" else "tidy", asked))
  if (inherits(x, "dp_result")) table <- .in_order(table, x)
  if (conf.int) table else table[setdiff(names(table), c("conf.low", "conf.high"))]
}

# Numbers only, as tables of several models show them below each other; what is text is in summary().
dp_glance <- function(x) .numbers_of(.broom_names(.py("glance", list(result = x))))

.numbers_of <- function(table) table[vapply(table, is.numeric, NA)]

dp_estimates <- function(x, conf.level = 0.95) {
  table <- .broom_names(.py("estimates", list(result = x, conf_level = conf.level)))
  parts <- split(table, factor(table$label, unique(table$label)))
  stats::setNames(do.call(rbind, c(lapply(parts, .in_order, x = x), make.row.names = FALSE)), names(table))
}

dp_modelsummary <- function(x, conf.level = 0.95, exponentiate = FALSE) {
  table <- dp_tidy(x, conf.int = TRUE, conf.level = conf.level, exponentiate = exponentiate)
  # The same facts of every fit: others, such as a test of some fits, would be lines that are empty for the rest.
  facts <- dp_glance(x)
  shown <- c(nobs = "nobs", "Public rows" = "public.rows", Epsilon = "epsilon", Delta = "delta")
  missing <- setdiff(shown, names(facts))
  facts[missing] <- NA_real_
  structure(list(tidy = table, glance = stats::setNames(facts[shown], names(shown))), class = "modelsummary_list")
}

tidy.dp_result <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  dp_tidy(x, conf.int = conf.int, conf.level = conf.level, exponentiate = exponentiate)
}

glance.dp_result <- function(x, ...) dp_glance(x)

as.data.frame.dp_result <- function(x, row.names = NULL, optional = FALSE, stringsAsFactors = FALSE, ...) dp_tidy(x, conf.int = TRUE, ...)

# ---- Every other object ---------------------------------------------------------------------------------------------

# What an object is as a table; generics of broom, and tibble's, go by it.
.tidy_table <- function(x, ...) as.data.frame(x, ...)

.as_tibble <- function(x, ...) tibble::as_tibble(as.data.frame(x), ...)

as.data.frame.summary.dp_result <- function(x, row.names = NULL, optional = FALSE, ...) {
  as.data.frame(x$of, conf.level = x$level)
}

as.data.frame.summary.dp_curves <- function(x, row.names = NULL, optional = FALSE, ...) x$table

as.data.frame.summary.dp_description <- as.data.frame.summary.dp_curves

as.data.frame.summary.dp_weighted_sample <- function(x, row.names = NULL, optional = FALSE, ...) tidy.dp_weighted_sample(x$of)

as.data.frame.dp_logrank_test <- function(x, row.names = NULL, optional = FALSE, ...) tidy.dp_logrank_test(x)

as.data.frame.dp_schema <- function(x, row.names = NULL, optional = FALSE, ...) .py("schema_table", list(schema = x))

tidy.dp_weighted_sample <- function(x, conf.level = 0.95, ...) {
  .no_more("tidy", ...)
  as.data.frame(dp_sample_balance(x, level = conf.level))
}

tidy.dp_anova <- function(x, ...) {
  data.frame(term = rownames(x), df = x$Df, statistic = x$Chisq, p.value = x[["Pr(>Chisq)"]])
}

glance.dp_curves <- function(x, ...) {
  .no_more("glance", ...)
  of_one <- if (is.null(x$table$cause)) x$table else x$table[x$table$cause != "(event-free)", ]
  data.frame(epsilon = x$epsilon, delta = x$delta, nobs = sum(x$medians$people), events = sum(of_one$events),
             groups = length(x$groups), intervals = length(x$times))
}

glance.dp_description <- function(x, ...) {
  .no_more("glance", ...)
  counts <- x$table[x$table$statistic == "n" & is.na(x$table$variable), "estimate"]
  data.frame(epsilon = x$epsilon, delta = x$delta, nobs = if (length(counts)) sum(counts) else NA_real_, columns = length(x$columns))
}

glance.dp_weighted_sample <- function(x, ...) {
  .no_more("glance", ...)
  records <- x$records
  data.frame(epsilon = x$epsilon, delta = x$delta, nobs = if (is.null(records)) NA_real_ else records, public.rows = nrow(x$frame),
             effective.size = x$effective_size, overlap = x$overlap, max.weight = x$max_weight)
}

glance.dp_aggregate <- function(x, ...) {
  .no_more("glance", ...)
  table <- as.data.frame.dp_aggregate(x)
  data.frame(results = length(unique(table$path[table$members == 0L])), groups = length(unique(table$path[table$members > 0L])),
             terms = length(x$coefficients))
}

glance.dp_comparison <- function(x, ...) {
  .no_more("glance", ...)
  data.frame(relative.error = x$relative_error, terms = nrow(x$table))
}

glance.dp_average_effects <- function(x, ...) {
  .no_more("glance", ...)
  data.frame(epsilon = attr(x, "epsilon"), delta = attr(x, "delta"), effects = nrow(x))
}

# Of a joint test of constraints; tests of several terms have no single statistic.
glance.dp_wald_test <- function(x, ...) {
  .no_more("glance", ...)
  if (nrow(x) != 1L) .refuse("glance() is for one test: dp_wald_test(fit, hypothesis); tidy() has the tests of all terms", sys.call())
  as.data.frame(x)[c("statistic", "p.value", "df")]
}

# The rows of terms in the order of coef().
.in_order <- function(table, x) {
  table <- table[match(names(x$coefficients), table$term), , drop = FALSE]
  rownames(table) <- NULL
  table
}

.broom_names <- function(table) stats::setNames(table, gsub("_", ".", names(table), fixed = TRUE))
