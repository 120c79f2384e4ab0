# Private rows full of secrets, and every way to make a mistake with them; what is said about it goes to the console,
# what remains into .RData. Secrets: JANEDOE (ASCII and not, in values, levels, names of rows), 773421190862.25, a day.
# Before it stand `every` and `first`: which of the kinds of rows are read, all or every so many from a first one.
library(hdpstats)

texts <- local({
  latin <- "JANEDOE\xe9"
  Encoding(latin) <- "latin1"
  wrong <- "JANEDOE\xff\xfe"
  Encoding(wrong) <- "UTF-8"
  c(latin, wrong, "JANEDOE\xff", "JANEDOE \u00e9", "JANEDOE", "773421190862.25", "1e999", NA, "", "NA")
})
number <- 773421190862.25
day <- as.Date("1679-03-07")
rows <- data.frame(
  age = rep(c(number, NA, Inf, -number, NaN), 12), nodes = number, event = rep(c(0, 1, number, NA), 15),
  size = factor(rep(c("<=20", "JANEDOE", NA, "20-50"), 15)), grade = rep(texts, 6),
  time = rep(c(number, -1, NA, Inf), 15), stringsAsFactors = FALSE, row.names = paste0("JANEDOE", 1:60)
)
with_age <- function(values) {
  rows$age <- values
  rows
}
private <- list(
  plain = rows, texts = with_age(rep(texts, 6)), days = with_age(rep(day, 60)),
  instants = with_age(rep(as.POSIXct(day), 60)), impossible_days = with_age(structure(rep(1e300, 60), class = "Date")),
  levels = with_age(factor(rep("JANEDOE", 60))), levels_of_bytes = with_age(structure(rep(1:2, 30), levels = texts[2:3], class = "factor")),
  integer64 = with_age(structure(rep(number, 60), class = "integer64")), spans = with_age(as.difftime(rows$nodes, units = "days")),
  truths = with_age(rows$nodes > 0), marked = with_age(structure(rows$nodes, note = "JANEDOE")), named = with_age(setNames(rows$nodes, rows$grade)),
  list = with_age(as.list(rows$nodes)), matrix = with_age(cbind(rows$nodes, 1)), frame = with_age(data.frame(JANEDOE = rows$nodes)),
  lt = with_age(as.POSIXlt(rep(day, 60))), units = with_age(structure(rows$nodes, class = "units")), complex = with_age(rows$nodes + 0i),
  raw = with_age(as.raw(rep(1, 60))), twice = stats::setNames(rows, c("age", "age", names(rows)[-(1:2)])), lacking = rows[-1],
  none = rows[0, ], one = rows[1, ], survival = cbind(rows, s = survival::Surv(abs(rows$nodes))),
  elements = as.list(rows), vector = rows$nodes, texts_only = texts, environment = list2env(list(x = number)), code = function(x) 773421190862.25
)
schema <- dp_schema(
  age = dp_continuous(20, 90), nodes = dp_continuous(0, 40), event = dp_binary(), time = dp_duration(2557),
  size = dp_categorical(c("<=20", "20-50", ">50")), grade = dp_categorical(c("a", "b"))
)
kept <- list()
keep <- function(x) kept[[length(kept) + 1L]] <<- x

said <- function(code) {
  shown <- function(e) {
    cat(class(e), conditionMessage(e), deparse(conditionCall(e)), capture.output(print(e)), sep = "\n")
    cat(unlist(lapply(sys.calls(), function(call) if (!identical(call[[1L]], quote(do.call))) deparse(call))), sep = "\n")
    if (inherits(e, "warning")) invokeRestart("muffleWarning")
  }
  tryCatch(keep(withCallingHandlers(code, error = shown, warning = shown)), error = function(e) {
    stopifnot(!inherits(e, "dp_internal_error"))
    keep(e)
  })
}

for (kind in names(private)[seq(first, length(private), by = every)]) {
  rows_now <- private[[kind]]
  study <- said(dp_study(private = rows_now, schema = schema, ledger = dp_ledger_open("ledger.db", dataset = kind, epsilon = 100)))
  if (!inherits(study, "dp_study")) next
  print(study)
  said(print(dp_logit(event ~ age + size + nodes + grade, study, 1, row_norm = 2, se_share = 0)))
  # What follows asks of rows that are in Python by now: of a third of the kinds.
  if (match(kind, names(private)) %% 3L != 1L) next
  said(dp_logit(event ~ log(age - 30), study, 1, se_share = 0))
  said(dp_logit(size ~ age, study, 1, se_share = 0))
  said(dp_logit(event ~ age, study, 1000, allow_large_epsilon = TRUE))
  said(dp_fit_public(event ~ age, study))
  said(dp_plan(event ~ age, study))
  study <- dp_study(private = rows_now, public = dp_load_gbsg(), schema = schema, budget = dp_budget(9))
  said(print(dp_hybrid_weights(study, ~ age + size + event, 1, distance_share = 0.1)))
  said(print(dp_importance_weights(study, ~ age + size + nodes, 1)))
  said(dp_hybrid_weights(study, "grade", 1))
  said(dp_importance_weights(study, ~ log(age - 30), 1))
}
both <- dp_study(private = rows, public = dp_load_gbsg(), schema = schema, budget = dp_budget(1))
sample <- dp_hybrid_weights(both, "size", 1)
study <- said(dp_study(private = rows, schema = schema, ledger = dp_ledger_open("ledger.db", dataset = "plain", epsilon = 100)))
said(dp_hazard(Surv(time, event) ~ age + size, study, 1, se_share = 0))
said(dp_hazard(Surv(nodes, time, event) ~ age, study, 1, se_share = 0))
mistakes <- expression(
  dp_logit(event ~ age, rows, 1), dp_logit(rows, study, 1), dp_logit(event ~ age, study, rows), dp_logit(event ~ age, study, rows$age),
  dp_logit(event ~ age, study, 1, weights = rows$age), dp_logit(event ~ age, study, 1, offset = rows),
  dp_logit(event ~ age, study, 1, mechanism = rows$grade), dp_logit(event ~ age, study, 1, nonsense = rows),
  dp_logit(bquote(event ~ age + .(rows$age)), study, 1), dp_logit(rows$grade, study, 1), dp_plan(rows, study),
  dp_hazard(Surv(time, event) ~ age, study, 1, link = rows$grade), dp_hazard(Surv(time, event) ~ age, study, 1, knots = rows$age),
  dp_study(rows, rows), dp_study(rows, schema = rows), dp_study(rows, schema = schema, budget = rows),
  dp_study(rows, schema = schema, budget = dp_budget(1), unit = rows$grade, max_rows_per_unit = 2),
  dp_study(rows, schema = schema, budget = dp_budget(1), relation = rows$grade), dp_study(rows, schema = schema, budget = dp_budget(1), extra = rows),
  dp_budget(rows), dp_continuous(rows$age, 3), dp_binary(rows), dp_categorical(rows$grade), dp_schema(age = rows), dp_schema(rows),
  dp_hybrid_weights(rows, "age", 1), dp_hybrid_weights(study, rows$grade, 1), dp_hybrid_weights(study, rows$age, 1),
  dp_hybrid_weights(study, rows, 1), dp_hybrid_weights(study, "age", rows$age), dp_hybrid_weights(study, "age", 1, select = rows$grade),
  dp_importance_weights(study, rows$grade, 1), dp_importance_weights(study, ~ age, 1, ridge = rows), dp_importance_weights(rows, ~ age, 1),
  dp_sample_mean(rows, "age"), dp_sample_mean(sample, rows), dp_sample_mean(sample, rows$grade), dp_sample_mean(sample, rows$age),
  dp_sample_mean(sample, ~ rows$grade), dp_sample_quantile(sample, "age", q = rows$age), dp_sample_quantile(sample, "age", q = rows$grade),
  dp_sample_table(sample, rows$grade), dp_sample_table(sample, rows), dp_sample_table(sample, "size", level = rows$age),
  dp_sample_fit(sample, rows), dp_sample_fit(sample, event ~ age, rows$grade), dp_write_sample(rows, "x.json"), dp_read_sample(rows$grade),
  dp_ledger(rows), dp_ledger_open(rows$grade), dp_tidy(rows), dp_read_result(rows$grade), dp_write_result(rows, "x.json"),
  do.call(dp_study, list(private = rows, schema = 3)), do.call("dp_study", list(private = rows, schema = schema, budget = 3))
)
for (mistake in mistakes) {
  found <- tryCatch(eval(mistake), error = identity)
  stopifnot(inherits(found, "dp_error"), !inherits(found, "dp_internal_error"))
  cat(conditionMessage(found), deparse(conditionCall(found)), "\n")
  keep(found)
}
print(dp_ledger(study))
print(as.data.frame(dp_ledger(study)))
rm(list = setdiff(ls(), c("kept", "study", "schema")))
save.image()
cat("the end\n")
