# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .R
#       format_name: percent
#   kernelspec:
#     display_name: R
#     language: R
#     name: ir
# ---

# %% [markdown]
# # A cancer trial, repeated in a hospital's file, in R
#
# The German Breast Cancer Study Group (GBSG) asked whether hormonal treatment helps women with positive lymph nodes
# (Schumacher et al. 1994, *J Clin Oncol* 12, 2086-2093). The file is public: 686 women, 299 relapses or deaths, 246
# treated (Sauerbrei and Royston 1999, *J R Stat Soc A* 162, 71-94). A hospital has women of its own: those of
# Rotterdam with positive nodes, 1,546, in whom Royston and Altman (2013, *BMC Med Res Methodol* 13, 33) fitted the
# model that they validated in the trial.
#
# Here the trial's tables and figures are repeated in the hospital's file, which nobody sees. It is public too, which is
# why it can stand in an example. In Python: [cancer-trial](cancer-trial.py).

# %%
library(hdpstats)
columns <- c("age", "meno", "size", "grade3", "nodes", "pgr", "er", "hormon", "time", "event")
in_years <- function(rows) transform(rows[columns], time = time / 365.25)
trial <- in_years(dp_load_gbsg())
c(women = nrow(trial), events = sum(trial$event), treated = sum(trial$hormon))

# %% [markdown]
# ## 1. The hospital: file, schema, check, ledger
#
# The hospital exports its rows. The schema follows from the trial's rows and the protocol, not from its file: follow-up
# ends at five years. `dp_check` is for the hospital's eyes only.

# %%
file <- tempfile(fileext = ".csv")
write.csv(in_years(subset(dp_load_rotterdam(), nodes > 0)), file, row.names = FALSE)

yes_or_no <- dp_binary(complete = TRUE)
schema <- dp_schema_from_public(
  trial, # what is not named below is declared as the trial's rows are: er
  age = dp_continuous(20, 90, complete = TRUE),
  size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE), # mm
  nodes = dp_continuous(1, 40, complete = TRUE),
  pgr = dp_continuous(0, 2000, complete = TRUE), # fmol/l
  time = dp_duration(5, unit = "years", complete = TRUE),
  meno = yes_or_no, grade3 = yes_or_no, hormon = yes_or_no, event = yes_or_no
)
rows <- read.csv(file, colClasses = "character")
dp_check(rows, schema)

# %%
ledger <- dp_ledger_open(tempfile(fileext = ".db"), dataset = "rotterdam", epsilon = 5)
study <- dp_study(private = rows, public = trial, schema = schema, ledger = ledger)
model <- Surv(time, event) ~ hormon + age + meno + size + grade3 + log1p(nodes) + log1p(pgr)
dp_plan(model, data = study, epsilon = c(0.5, 1, 2, 3), link = "cloglog")

# %% [markdown]
# For both files together little is gained. What a release buys is the hospital's own answer.
#
# ## 2. Table 1
#
# Patients by treatment, the trial's exact numbers beside the hospital's noisy ones. In the hospital doctors chose whom
# to treat: older women. So the ratio of treatment below is an association, adjusted for what is in the table.

# %%
summary(dp_describe(study, ~ age + meno + size + grade3 + nodes + pgr, by = "hormon", epsilon = 1))

# %% [markdown]
# ## 3. Kaplan-Meier curves by treatment

# %%
curves <- dp_survfit(Surv(time, event) ~ hormon, data = study, epsilon = 1, times = c(0.5, 1, 1.5, 2, 3, 4, 5))
plot(curves, labels = c("no hormonal treatment", "hormonal treatment"))
dp_logrank_test(curves)

# %% [markdown]
# ## 4. Hazard ratios, and a forest plot
#
# One fit, with the trial's rows beside the hospital's: *public only* is the trial, *private only* the hospital. The
# layout is that of a paper: reference levels, ratios with intervals, numbers of women and events below.

# %%
fit <- dp_hazard(model, data = study, epsilon = 3, link = "cloglog")
alone <- dp_fit_public(model, data = study, link = "cloglog")
labels <- c(
  hormon = "hormonal treatment", age = "age, per year", meno = "after menopause", size = "tumour size, mm",
  grade3 = "grade 3", "log1p(nodes)" = "log(1 + nodes)", "log1p(pgr)" = "log(1 + progesterone)"
)
within_five_years <- sum(trial$event * (trial$time <= 5))
fits <- list(Trial = alone, "Hospital and trial" = fit)
dp_regression_table(fits, labels = labels, events = c(Trial = within_five_years))

# %%
terms <- c("hormon", "meno", "size20-50", "size>50", "grade3", "log1p(nodes)", "log1p(pgr)")
sizes <- c("size20-50" = "tumour 20-50 mm", "size>50" = "tumour over 50 mm")
shown <- c(labels[setdiff(terms, names(sizes))], sizes)
plot(fit, exponentiate = TRUE, labels = shown, terms = terms, estimates = TRUE)

# %% [markdown]
# ## 5. What leaves the hospital
#
# The text for the paper, the record for whoever checks outputs, and what was spent.

# %%
writeLines(strwrap(strsplit(dp_methods_text(fit), "\n")[[1]], 100))

# %%
writeLines(dp_disclosure(fit), tempfile(fileext = ".json"))
writeLines(strwrap(fit$statement, 100))
ledger
