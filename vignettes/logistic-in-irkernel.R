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
# # A logistic regression in the R that you already have
#
# This notebook runs on IRkernel, the usual Jupyter kernel of R. Nothing about the kernel is special: `python -m r_bridge
# install` has put the R package into a library, and the package remembers which Python it belongs to. The same lines run
# in RStudio and under `Rscript`. Python starts in this R process at the first call, which takes a few seconds, once.

# %%
library(hdpstats)
dp_versions()

# %% [markdown]
# Relapse or death within three years of surgery for breast cancer (`event3`), by age, tumour size, grade and number of
# positive lymph nodes. Private: the Rotterdam tumour bank, 2,982 women (in fact public; we treat them as private).
# Public: the trial of the German Breast Cancer Study Group, 686 women.

# %%
rotterdam <- dp_load_rotterdam()
gbsg <- dp_load_gbsg()
tail(gbsg[c("age", "size", "grade3", "nodes", "event3")])

# %% [markdown]
# These are ordinary data frames. `size` is a factor, and `event3` is `NA` for women who were lost before three years; both
# cross to Python and back unharmed. What bounds and levels are is declared, not looked up; what a missing private value
# becomes is declared as well (the last column), because a warning that counts them would disclose something about the
# records.

# %%
schema <- dp_schema(
  age = dp_continuous(20, 90, complete = TRUE),
  size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE), # mm; the first level is the reference
  grade3 = dp_binary(complete = TRUE),
  nodes = dp_continuous(0, 40, complete = TRUE),
  event3 = dp_binary()
)
budget <- dp_budget(epsilon = 1.5)
study <- dp_study(private = rotterdam, public = gbsg, schema = schema, budget = budget)
schema

# %% [markdown]
# `budget =` keeps the account in memory, for an example. In earnest it is a file, `ledger =
# dp_ledger_open("trial.db", ...)`, which survives the session and counts everybody's questions.
#
# ## First where looking is free
#
# On the public rows alone there is no noise, and the fit has to be that of `glm`.

# %%
formula <- event3 ~ age + size + grade3 + log1p(nodes)
by_glm <- glm(formula, family = binomial, data = gbsg)
free <- dp_fit_public(formula, data = study)
round(cbind(glm = coef(by_glm), hdpstats = coef(free)), 6)

# %%
stopifnot(all.equal(unname(coef(free)), unname(coef(by_glm)), tolerance = 1e-6))
stopifnot(all.equal(unname(vcov(free)), unname(vcov(by_glm)), tolerance = 1e-5))

# %% [markdown]
# Also free: the standard errors to expect. Each column of the table is one epsilon.

# %%
epsilon <- c(0.1, 0.25, 0.5, 1, 3, 10)
plan <- dp_plan(formula, data = study, epsilon = epsilon)
round(plan$table, 3)

# %%
options(repr.plot.width = 9, repr.plot.height = 5.5, repr.plot.pointsize = 15)
percent <- 100 * plan$table[-1, -1] / plan$table[-1, "public only"]
colours <- c("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7")
par(mar = c(4.5, 4.5, 1, 1))
matplot(
  epsilon, t(percent), type = "b", pch = 19, lty = 1, col = colours,
  log = "x", ylim = c(0, max(percent)), las = 1, ylab = "standard error, % of that from public rows"
)
abline(h = 100, lty = 3)
legend("topright", rownames(percent), col = colours, pch = 19, lty = 1, bty = "n", y.intersp = 1.3)

# %% [markdown]
# ## Ask
#
# The curves are steep up to 1 and flat beyond: epsilon = 1 brings most of what 10 would. Above the dotted line noise hides
# whether private coefficients are those of the public rows, and the standard error allows for that. The charge is in the
# account before a private record is read.

# %%
fit <- dp_logit(formula, data = study, epsilon = 1)
summary(fit)

# %% [markdown]
# The coefficients are the pooled ones, public and private women together; `dp_estimates(fit)` has all three. A small part
# of epsilon went into the number of complete records and averages of the covariates, by which public rows are re-weighted
# and re-scaled for the standard errors. These include the noise. The numbers differ from reader to reader: the noise has
# no seed, since whoever could repeat it could subtract it.

# %%
odds <- dp_tidy(fit, conf.int = TRUE, exponentiate = TRUE)
data.frame(term = odds$term, round(odds[c("estimate", "conf.low", "conf.high")], 2))

# %%
par(mar = c(4.5, 4.5, 2, 1))
plot(fit)

# %% [markdown]
# Did the private women change anything? The new standard errors in percent of those that the public rows gave:

# %%
rbind(percent = round(100 * fit$bse / free$bse))

# %% [markdown]
# Predictions are for rows that you may see.

# %%
patients <- data.frame(
  age = c(45, 65), size = c("<=20", ">50"), grade3 = c(0, 1), nodes = c(1, 12),
  row.names = c("45 y, small tumour, 1 node", "65 y, large tumour, grade 3, 12 nodes")
)
round(predict(fit, patients, type = "response", interval = "confidence"), 2)

# %% [markdown]
# ## What is refused
#
# Residuals and AIC are computed from the private rows and were not released, so they are errors and not `NULL`. A question
# that no account affords any more is refused before a private record is read. Both are ordinary R conditions with a class to catch:

# %%
said <- function(e) writeLines(c(class(e)[1], strwrap(conditionMessage(e), 80, prefix = "  ")))
tryCatch(AIC(fit), error = said)
tryCatch(dp_logit(formula, data = study, epsilon = 3), error = said)

# %% [markdown]
# ## What it cost

# %%
dp_ledger(study)

# %% [markdown]
# The fit outlives the session: a file of it is exact to the last bit, and Python reads it too.

# %%
dp_write_result(fit, "three-years.json")
identical(coef(dp_read_result("three-years.json")), coef(fit))
