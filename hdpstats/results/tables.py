"""Tables of a result: broom's columns, ratios, and the columns that the maketables package asks for."""

import numpy as np
import pandas as pd
from scipy.special import ndtri

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice, real
from hdpstats.losses import LINKS
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.estimate import Estimate
from hdpstats.results.disagreement import Disagreement
from hdpstats.results.facts import ModelFacts, covariates


def normal_quantile(alpha: float) -> float:
    """Return the ``1 - alpha / 2`` quantile of the normal distribution; ``alpha`` in [0.001, 0.999]."""
    return -float(ndtri(real(alpha, name="alpha", lower=0.001, upper=0.999) / 2.0))


def tidy(estimate: Estimate, *, exponentiate: bool = False, conf_level: float = 0.95) -> pd.DataFrame:
    """Return one row per coefficient, in broom's words.

    As in broom, ``exponentiate`` applies to the estimate and its limits; the standard error stays that of the
    coefficient.
    """
    level = real(conf_level, name="conf_level", lower=0.001, upper=0.999)
    limits = estimate.conf_int(1.0 - level)
    shown = np.exp if exponentiate else np.asarray
    return pd.DataFrame(
        {
            "term": list(estimate.terms),
            "estimate": shown(estimate.values),
            "std_error": estimate.bse.to_numpy(),
            "statistic": estimate.tvalues.to_numpy(),
            "p_value": estimate.pvalues.to_numpy(),
            "conf_low": shown(limits[0].to_numpy()),
            "conf_high": shown(limits[1].to_numpy()),
        }
    )


def glance(
    facts: ModelFacts, estimate: Estimate, guarantee: Guarantee | None, disagreement: Disagreement | None = None
) -> pd.DataFrame:
    """Return one row about the model: public facts only; with how many sites took part where there are several."""
    hazard = facts.hazard
    where = {} if guarantee is None or guarantee.sites == 1 else {"sites": [guarantee.sites]}
    agree = {}
    if disagreement is not None:
        agree = {
            "q_statistic": [disagreement.statistic],
            "q_df": [disagreement.df],
            "q_p_value": [disagreement.pvalue],
        }
    axis = {} if hazard is None else {"link": [hazard.link], "intervals": [hazard.grid.intervals]}
    return pd.DataFrame(
        {
            "model": [facts.model],
            "method": [facts.method],
            "epsilon": [np.nan if guarantee is None else float(guarantee.epsilon)],
            "delta": [np.nan if guarantee is None else float(guarantee.delta)],
            "relation": [None if guarantee is None else guarantee.relation.value],
            "unit": [None if guarantee is None else guarantee.unit],
            "nobs": pd.array([facts.records], dtype="Int64"),
            "public_rows": pd.array([facts.public_rows], dtype="Int64"),
            "terms": [len(estimate.terms)],
            **where,
            **axis,
            **agree,
        }
    )


def ratios(facts: ModelFacts, estimate: Estimate, *, kind: str, alpha: float) -> pd.DataFrame:
    r"""Return exponentiated coefficients with exponentiated limits, by term; of a hazard model those of covariates.

    The standard error is that of the delta method, :math:`e^{\beta} \mathrm{se}(\beta)`; the limits are the
    exponentials of the coefficient's limits and not symmetric around the estimate.
    """
    if facts.exponentiated != kind and not (kind == "rate ratio" and facts.exponentiated.endswith(kind)):
        raise ArgumentError(_no_ratio(facts, kind), argument="kind")
    places = covariates(facts, estimate)
    with np.errstate(over="ignore"):  # infinite, as in R, where the rows nearly separate the outcomes
        low, high = np.exp(estimate.conf_int(alpha).to_numpy()[places].T)
        value = np.exp(estimate.params.to_numpy()[places])
    return pd.DataFrame(
        {
            "estimate": value,
            "conf_low": low,
            "conf_high": high,
            "std_error": value * estimate.bse.to_numpy()[places],
        },
        index=pd.Index([estimate.terms[place] for place in places], name="term"),
    )


def _no_ratio(facts: ModelFacts, kind: str) -> str:
    if facts.hazard is None and facts.exponentiated == "exponential":
        reason = "coefficients are differences on the outcome's own scale; ask for tidy() or conf_int()"
    elif facts.hazard is None:
        own = "odds_ratios() or " if facts.exponentiated == "odds ratio" else ""
        other = "rate_ratios() or " if facts.exponentiated.endswith("rate ratio") else own
        reason = f"it is: {facts.exponentiated}; ask for {other}tidy(exponentiate=True)"
    elif facts.exponentiated == "exponential":
        effects = LINKS[facts.hazard.link].scale
        reason = f"with the {facts.hazard.link} link effects are {effects}; ask for predict_survival(frame)"
    else:
        other = {"odds ratio": "odds_ratios()", "hazard ratio": "hazard_ratios()"}[facts.exponentiated]
        reason = (
            f"with the {facts.hazard.link} link it is: {facts.exponentiated}; ask for {other}, or fit with link="
            + repr("cloglog" if kind == "hazard ratio" else "logit")
        )
    return f"the exponential of a coefficient of this model is no {kind}: {reason}"


def place_of(estimate: Estimate, term: str | None) -> int:
    """Return the place of a term; without one, of the first that is not the intercept."""
    terms = estimate.terms
    if term is None:
        return next((place for place, name in enumerate(terms) if name != "Intercept"), 0)
    return terms.index(choice(term, name="term", options=terms))


def maketables(estimate: Estimate) -> pd.DataFrame:
    """Return the coefficient table of the maketables plug-in protocol."""
    table = tidy(estimate).set_index("term").rename_axis("Coefficient")
    return table.set_axis(["b", "se", "t", "p", "ci95l", "ci95u"], axis=1)


def statistic(key: str, facts: ModelFacts, guarantee: Guarantee | None) -> int | float | str | None:
    """Return a statistic by maketables' key; None for what a private fit does not disclose."""
    known: dict[str, int | float | str | None] = {
        "N": facts.public_rows if guarantee is None else facts.records,
        "public_rows": facts.public_rows,
        "model": facts.model,
        "method": facts.method,
        "se_type": "sampling" if guarantee is None else "sampling + privacy noise",
    }
    if guarantee is not None:
        known |= {"epsilon": float(guarantee.epsilon), "delta": float(guarantee.delta)}
    return known.get(key)
