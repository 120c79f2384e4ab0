# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .R
#       format_name: percent
#   kernelspec:
#     display_name: R (hdpstats)
#     language: R
#     name: hdpstats-r
# ---

# %% [markdown]
# # From coxph to a private fit
#
# For readers who know `coxph(Surv(time, event) ~ ...)` well. This is an R notebook on the kernel **R
# (hdpstats)**: ordinary R in which the functions `dp_...` are already attached. What epsilon means and what a
# ledger does is explained in `vignette("start-here", "hdpstats")`.
#
# You have the trial of the German Breast Cancer Study Group (GBSG), 686 women. Anybody may download it. Somewhere
# else lies the Rotterdam tumour bank, 2,982 women, which you may not see but may ask. The question: **what do grade
# and the number of positive lymph nodes say about relapse or death within five years?**
#
# Rotterdam is in fact public as well, which is why it can stand in an example. We treat it as if nobody could see
# it, until the last section.

# %%
library(survival)
rotterdam <- transform(dp_load_rotterdam(), time = time / 365.25)
gbsg <- transform(dp_load_gbsg(), time = time / 365.25)
head(gbsg)

# %% [markdown]
# ## The analysis that you would write today
#
# Five years, because only 36 of the German women were followed for more than six.

# %%
five_years <- transform(gbsg, event = event * (time <= 5), time = pmin(time, 5))
cox <- coxph(Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon, data = five_years)
cox

# %% [markdown]
# Nodes and hormonal treatment stand out. Tumour size is where you would like more women: 53 had a tumour of more than
# 50 mm, and the standard error says so. Are the hazards proportional?

# %%
cox.zph(cox)

# %% [markdown]
# Those of `age` and `grade3` are not quite: what grade says fades with the years. So read its ratio as an average
# over the five years, here as below. Such checks are free on public rows. On private rows each of them would be a
# release that is charged, so settle the model here.

# %% [markdown]
# ## What has to change, and why
#
# **No Cox model.** Its baseline jumps on the days on which somebody relapsed. Each jump is one woman's day and
# cannot be released. Time is cut into intervals at public points instead, and the model is the probability of the
# event in an interval for those who reach it. With the link `"cloglog"` the coefficients are still log hazard ratios
# (Prentice and Gloeckler 1978).
#
# **Nothing is read off the records.** Bounds, levels, the reference level, and the horizon at which follow-up ends are
# declared by the custodian, from the protocol and the code book.

# %%
schema <- dp_schema(
  age = dp_continuous(20, 90, complete = TRUE),
  size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE), # mm; the first level is the reference
  grade3 = dp_binary(complete = TRUE),
  nodes = dp_continuous(0, 40, complete = TRUE), # positive lymph nodes
  hormon = dp_binary(complete = TRUE), # hormonal treatment
  time = dp_duration(5, unit = "years", complete = TRUE),
  event = dp_binary(complete = TRUE) # relapse or death
)
schema

# %% [markdown]
# **Somebody counts.** The custodian allows a total of epsilon = 2 for this data set, once, in a file.

# %%
ledger <- dp_ledger_open("from-coxph.db", dataset = "rotterdam", epsilon = 2)
study <- dp_study(private = rotterdam, public = gbsg, schema = schema, ledger = ledger)
study

# %% [markdown]
# A study prints what is public about it, never a row.
#
# ## Does the new model say what Cox said?
#
# `dp_fit_public` fits it to the German women alone: ordinary maximum likelihood, no noise, no cost. Twenty quarters,
# and a smooth baseline of four coefficients.

# %%
formula <- Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon
free <- dp_fit_public(formula, data = study, intervals = 20, df = 4, link = "cloglog")
beside_cox <- dp_compare(free, cox)
columns <- c("estimate", "reference.estimate", "std.error", "reference.std.error")
data.frame(term = beside_cox$table$term, round(beside_cox$table[columns], 3))

# %%
apart <- max(abs(beside_cox$table$difference.in.se))
cat("furthest from coxph, in standard errors:", round(apart, 2), "\n")
stopifnot(apart < 0.25)

# %% [markdown]
# And the survival curve? Kaplan and Meier's of the German women, and the mean of the model's curves of the same women:

# %%
km <- survfit(Surv(time, event) ~ 1, data = five_years)
curves <- dp_predict_survival(free, gbsg, times = seq(0, 5, 0.25), conf.int = FALSE)
mean_curve <- tapply(curves$survival, curves$time, mean)
gap <- max(abs(mean_curve[-1] - summary(km, times = seq(0.25, 5, 0.25))$surv))
cat("largest gap between the curves:", round(gap, 3), "\n")
stopifnot(gap < 0.03)

# %% [markdown]
# So the software does what it should where we can look. The rest is about noise.
#
# ## What would an answer cost?
#
# `dp_plan` predicts the standard errors at each epsilon, from public rows and the number of private
# records. It reads no private record.

# %%
dp_plan(
  formula, data = study, epsilon = c(0.1, 0.5, 1, 2, 10),
  intervals = 20, df = 4, link = "cloglog"
)

# %% [markdown]
# At 0.1 the noise is larger than what Rotterdam adds. At 10 hardly any noise is left, and little is guaranteed.
# With 1 the standard error of large tumours falls from 0.24 to 0.14, which in the open would have taken nearly three
# times as many women, and half of the total is left for the next question.
#
# ## Ask
#
# This line spends. The charge is in the ledger before a private record is read.

# %%
fit <- dp_hazard(
  formula, data = study, epsilon = 1,
  intervals = 20, df = 4, link = "cloglog"
)
fit

# %% [markdown]
# The noise comes from the operating system and has no seed: whoever could repeat it could subtract it. So your
# numbers are not those of your neighbour, and the text quotes none.
#
# Look at three things. The **standard errors** count sampling and privacy noise; nothing has to be added. *Estimates
# side by side* opens to the **public, private and pooled** ones; where the first two differ by more than their errors,
# women in a trial and women in a tumour bank are different women. The **noise share** says how much of the variance
# privacy is to blame for. `summary(fit)` is text, and `dp_estimates(fit)` has all three estimates.
#
# As a table for the paper, hazard ratios with 95% intervals, and those of `coxph` in the German trial alone:

# %%
covariates <- names(coef(fit))[-(1:4)] # behind the baseline
ratios <- dp_tidy(fit, conf.int = TRUE, exponentiate = TRUE)
ratios <- ratios[ratios$term %in% covariates, c("term", "estimate", "conf.low", "conf.high")]
ratios$GBSG.alone <- exp(coef(cox))
data.frame(term = ratios$term, round(ratios[-1], 2), row.names = NULL)

# %%
par(mar = c(4.5, 4.5, 2, 1))
plot(fit, exponentiate = TRUE, xlab = "hazard ratio (95% interval)")

# %% [markdown]
# A ratio belongs to one unit of its covariate. For 12 nodes against 3 take that of `log1p(nodes)` to the power
# log(13/4) = 1.18. Nobody was randomised to hormonal treatment in Rotterdam; its ratio is an association.
#
# ## Curves
#
# Three women of 55 years with a tumour of 20 to 50 mm and no hormonal treatment. No woman of the German trial was
# without a positive node: of the first curve we know what Rotterdam says, and that log(1 + nodes) is taken to act linearly.

# %%
women <- data.frame(
  age = 55, size = "20-50", grade3 = c(0, 0, 1), nodes = c(0, 3, 12), hormon = 0,
  row.names = c("no node", "3 nodes", "12 nodes, grade 3")
)
dp_predict_survival(fit, women, times = c(1, 3, 5))

# %%
par(mar = c(4.5, 4.5, 1, 1))
plot(fit, newdata = women, xlab = "years since surgery", ylab = "alive without relapse")

# %% [markdown]
# The bands are pointwise 95% limits and include the privacy noise. The hazard is constant within every quarter,
# whether anything happened in it or not. Kaplan and Meier's curves step on the days of events; those below are of German women only.
# Dots: the model, averaged over the same women.

# %%
groups <- cut(gbsg$nodes, c(0, 3, 9, 60), c("1-3 nodes", "4-9 nodes", "10 nodes or more"))
colours <- c("#0072B2", "#E69F00", "#D55E00")
observed <- survfit(Surv(time, event) ~ groups, data = five_years)
par(mar = c(4.5, 4.5, 1, 1))
plot(observed, col = colours, lwd = 2, las = 1, xlab = "years", ylab = "alive without relapse")
curves <- dp_predict_survival(fit, gbsg, times = 0:5, conf.int = FALSE)
means <- tapply(curves$survival, list(curves$time, groups[as.integer(curves$row)]), mean)
matpoints(0:5, means, pch = 19, col = colours)
legend("bottomleft", levels(groups), col = colours, lwd = 2, bty = "n")

# %% [markdown]
# ## What it cost

# %%
ledger

# %% [markdown]
# The same line again is free and gives the same numbers, noise included; free fresh draws would let anybody average
# the noise away. A request beyond what is left is refused before a private record is read. What arrives is an ordinary R
# condition, and says what can still be had:

# %%
ask <- function(epsilon) {
  dp_hazard(formula, data = study, epsilon = epsilon, intervals = 20, df = 4, link = "cloglog")
}
cat("same numbers:", identical(coef(ask(1)), coef(fit)), "\n")
tryCatch(
  ask(1.5),
  dp_insufficient_budget = function(e) writeLines(strwrap(conditionMessage(e), 80))
)

# %% [markdown]
# ## What did privacy cost?
#
# In a real study nobody could run this cell. Rotterdam is in fact public, so here is the Cox model of all its
# women, next to what the noise let through (*private only*), and how far apart they are in standard errors:

# %%
opened <- transform(rotterdam, event = event * (time <= 5), time = pmin(time, 5))
truth <- coxph(Surv(time, event) ~ age + size + grade3 + log1p(nodes) + hormon, data = opened)
behind <- subset(dp_estimates(fit), label == "private only" & !baseline)
data.frame(
  term = behind$term, coxph = round(coef(truth), 3), se = round(sqrt(diag(vcov(truth))), 3),
  private_only = round(behind$estimate, 3), se_private = round(behind$std.error, 3),
  apart = round((behind$estimate - coef(truth)) / behind$std.error, 1), row.names = NULL
)

# %% [markdown]
# Three things are in the last column.
#
# - **Noise**, which `se_private` accounts for.
# - **Different women.** `se_private` takes the spread of covariates from the German women. 36% of them had hormonal
#   treatment, but 11% in Rotterdam, so Rotterdam tells less about `hormon` than the standard error has it.
# - **A different average.** In Rotterdam, what size and nodes say fades with the years (`cox.zph(truth)`). A private fit
#   ends the follow-up of women at high risk early, by the *cap* in the page above, so its averages lean to the first
#   years, where these ratios are larger. Where hazards are proportional there is no such difference.
#
# `vignettes/start-here.py` looks into the second, `vignettes/survival.py` into the third.
#
# ## Before you report
#
# - Say which columns, bounds and horizon were declared, and that they were declared before. `dp_write_schema` keeps them.
# - Say that the standard errors take the spread of covariates from the public women, and how alike the two groups are.
# - `fit$statement` is the guarantee in words; `dp_disclosure(fit)` is the same for a machine, or for the person who
#   checks outputs; `dp_write_result` keeps the whole result, for R and Python alike.

# %%
writeLines(strwrap(fit$statement, 80))
