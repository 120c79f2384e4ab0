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
# # Hormonal treatment in a registry, in R
#
# Does hormonal treatment prevent relapses of breast cancer? The trial of the German Breast Cancer Study Group (GBSG, 686
# women) is public. The Rotterdam tumour bank is a registry in which doctors chose whom to treat, and is private here. The
# same story in Python, with the rows themselves at the end, is the vignette *hormonal-treatment*.

# %%
rotterdam <- dp_load_rotterdam()
gbsg <- dp_load_gbsg()
schema <- dp_schema(
  age = dp_continuous(20, 90, complete = TRUE),
  nodes = dp_continuous(0, 40, complete = TRUE),
  size = dp_categorical(c("<=20", "20-50", ">50"), complete = TRUE),
  hormon = dp_binary(complete = TRUE, label = "hormonal treatment"),
  event3 = dp_binary(),
  time = dp_duration(2557, unit = "days"),
  event = dp_binary()
)
study <- dp_study(private = rotterdam, public = gbsg, schema = schema, budget = dp_budget(epsilon = 10))
study

# %% [markdown]
# ## Who was treated
#
# An ordinary private logistic regression, with the coefficients from the registry's women alone.

# %%
ps <- dp_propensity(hormon ~ age + log1p(nodes) + size, study, epsilon = 2)
round(coef(summary(ps)), 2)

# %%
plot(ps)
ps$effective_size

# %% [markdown]
# A treated woman weighs 1 less her chance of treatment, an untreated one her chance: those count whose treatment was in
# doubt.
#
# ## The effect

# %%
w <- dp_weights(ps)
request <- dp_treatment_effect(event3 ~ hormon, study, w)
dp_plan(request, epsilon = c(1, 2))

# %%
effect <- dp_treatment_effect(event3 ~ hormon, study, w, epsilon = 2)
summary(effect)

# %%
plot(effect)

# %% [markdown]
# ## Balance

# %%
balance <- dp_describe(study, c("age", "nodes", "size"), weighting = w, epsilon = 2)
plot(balance)

# %% [markdown]
# ## Adjusted survival curves
#
# The same weights give both arms' curves, with a log-rank test whose variance counts the estimation of the weights.

# %%
curves <- dp_survfit(Surv(time, event) ~ hormon, study, epsilon = 2, times = c(365.25 * 1:6, 2557), weighting = w)
plot(curves)

# %%
dp_restricted_mean(curves, upto = 1826, differences = TRUE)
dp_logrank_test(curves)

# %% [markdown]
# ## Does it differ among women?
#
# A regression of the same weighted women: a marginal structural model.

# %%
differing <- dp_logit(event3 ~ hormon * log1p(nodes), study, epsilon = 2, weighting = w)
round(coef(summary(differing)), 2)

# %% [markdown]
# ## Beside the trial
#
# The randomised women can be compared as they are.

# %%
round(diff(tapply(gbsg$event3, gbsg$hormon, mean, na.rm = TRUE)), 3)
cat(dp_methods_text(effect))
