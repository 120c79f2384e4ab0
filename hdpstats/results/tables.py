"""Tables of a result in others' words: broom's columns, ratios, the columns that the maketables package asks for.

`explain` says of names that results of others have why a result here does not have them, and what to ask instead.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice, real
from hdpstats.losses import LINKS
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.estimate import Estimate
from hdpstats.results.disagreement import Disagreement
from hdpstats.results.facts import ModelFacts, covariates


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
            **cost_columns(guarantee),
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


def cost_columns(guarantee: Guarantee | None) -> dict[str, list[float]]:
    """Return the columns epsilon and delta of a row about a result; NaN where no private record was used."""
    return {
        "epsilon": [np.nan if guarantee is None else float(guarantee.epsilon)],
        "delta": [np.nan if guarantee is None else float(guarantee.delta)],
    }


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
        named = {"odds ratio": "odds_ratios()", "hazard ratio": "hazard_ratios()"}
        other = named.get(facts.exponentiated, "tidy(exponentiate=True)")
        links = " or ".join(repr(name) for name, link in LINKS.items() if link.exponentiated == kind)
        reason = f"with the {facts.hazard.link} link it is: {facts.exponentiated}; ask for {other}"
        reason += f", or fit with link={links}" if links else ""
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


_GROUPS = (
    (
        "fittedvalues predicted resid wresid influence hat_matrix_diag outlier_test get_influence "
        "score_obs llf_obs endog exog martingale_residuals schoenfeld_residuals score_residuals durations",
        "it holds one number per person, and no noise of a sensible size would hide a person in it",
        "predict(frame) gives predictions for public rows; conf_int() and summary() give the error",
    ),
    (
        "llf llnull llr llr_pvalue aic aicc bic deviance null_deviance prsquared pseudo_rsquared rsquared rsquared_adj "
        "fvalue f_pvalue scale ssr uncentered_tss mse_resid pearson_chi2 pred_table",
        "it is computed from the private rows and was not released",
        "compare models by their intervals, or by predict(frame) on public rows with the outcome",
    ),
    (
        "get_prediction",
        "without rows it would predict for each private person",
        "predict(frame, ci=True) has the limits of means, predict(frame, cov=True) their covariances, for public rows",
    ),
    (
        "f_test",
        "degrees of freedom presume that the error comes from sampling alone",
        "wald_test(constraints) allows for sampling and privacy noise",
    ),
    (
        "df_resid df_model",
        "degrees of freedom presume that the error comes from sampling alone",
        "conf_int() allows for sampling and privacy noise; glance() has the counts",
    ),
    (
        "mle_retvals mle_settings converged fit_history iterations",
        "how the solver went depends on the private rows",
        "every release was solved to the certified accuracy that its mechanism needs; disclosure() says what ran",
    ),
    (
        "model data frame",
        "a result holds no rows and nothing that leads to them",
        "facts, schema and query say what was asked; the rows stay at the site",
    ),
    (
        "bootstrap cov_HC0 cov_HC1 HC0_se HC1_se",
        "it needs another pass over the private rows",
        "cov_params() is cov_sampling + cov_privacy, from the release and public rows alone",
    ),
    (
        "concordance concordance_index concordance_index_ brier_score",
        "it compares predictions with the outcomes of private rows",
        "public_check has it for the public rows; model.evaluate(result, epsilon=...) releases it for the private ones",
    ),
    (
        "basehaz baseline_hazard_ baseline_survival_ baseline_cumulative_hazard baseline_cumulative_hazard_",
        "it is a step function with a jump at the time of every private event",
        "baseline_hazard() and predict_survival(frame) give hazards and survival by interval, from the coefficients",
    ),
)
_ELSEWHERE = {
    "get_prediction": "ask predict(frame, ci=True)",
    "f_test": "ask wald_test(constraints)",
    **dict.fromkeys(_GROUPS[-2][0].split(), "see public_check"),
    **dict.fromkeys(_GROUPS[-1][0].split(), "ask baseline_hazard() or predict_survival(frame)"),
}
"""What a fit to public rows has instead, where that is not another program."""

REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {name: (reason, instead) for names, reason, instead in _GROUPS for name in names.split()}
)
"""Names that results of statsmodels, lifelines or R have, each with the reason and the remedy."""


def explain(name: str, *, public: bool) -> str:
    """Return the text of the AttributeError for a name.

    Parameters
    ----------
    name : str
        The attribute that was asked for.
    public : bool
        Whether the result is a fit to public rows alone.

    Examples
    --------
    >>> explain("typo", public=False)
    "'Result' object has no attribute 'typo'"
    >>> explain("llf", public=True)
    "a Result has no 'llf': it holds no rows; for this, fit statsmodels to the public rows"
    """
    key = "resid" if name.startswith("resid_") else name
    if key not in REFUSED:
        return f"'Result' object has no attribute {name!r}"
    if public:
        instead = _ELSEWHERE.get(key, "fit statsmodels to the public rows")
        return f"a Result has no {name!r}: it holds no rows; for this, {instead}"
    reason, instead = REFUSED[key]
    return f"a differentially private result has no {name!r}: {reason}. Instead: {instead}."


def frame_of(rows: Sequence[Sequence[Any]], *, texts: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """Return rows as a frame of texts, in which None stays None, and of numbers."""
    parts = list(zip(*rows, strict=True)) or [()] * (len(texts) + len(numbers))
    columns = {name: pd.Series(part, dtype=object) for name, part in zip(texts, parts, strict=False)}
    columns |= {name: pd.Series(part, dtype=float) for name, part in zip(numbers, parts[len(texts) :], strict=True)}
    return pd.DataFrame(columns)
