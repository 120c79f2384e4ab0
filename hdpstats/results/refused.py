"""What a result does not have, why, and what to ask instead."""

from collections.abc import Mapping
from types import MappingProxyType

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
