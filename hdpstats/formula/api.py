"""Lower-case constructors that take a formula and a study, as ``statsmodels.formula.api`` does.

>>> import hdpstats.api as hdp
>>> import hdpstats.formula.api as hdpf
>>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event3=hdp.Binary())
>>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
>>> hdpf.logit("event3 ~ age", data=study)
<Logit: event3 ~ age>
"""

from hdpstats._base.errors import forgets_rows
from hdpstats.describe import survfit
from hdpstats.losses import options
from hdpstats.models import DiscreteHazard, Distribution, Linear, Logit, MEstimator, Quantile
from hdpstats.results.propensity import Weighting
from hdpstats.sites import Study

distribution = Distribution.from_formula
hazard = DiscreteHazard
linear = Linear.from_formula
logit = Logit.from_formula
mestimate = MEstimator.from_formula
quantile = Quantile.from_formula


@forgets_rows
def poisson(
    formula: str,
    data: Study,
    *,
    cap: float | None = None,
    weights: str | None = None,
    offset: str | None = None,
    row_norm: float | None = None,
    correlation: str | float = "person",
    weighting: Weighting | None = None,
) -> MEstimator:
    """Return a Poisson regression with a log link: `mestimate` with ``loss=hdp.losses.Poisson(cap)``.

    Parameters
    ----------
    formula
        ``"count ~ terms"``; the count is declared as ``Continuous(0, largest)``.
    data
        The study.
    cap
        No mean is predicted above it: by default the largest count, which no mean exceeds.
    weights, offset, row_norm, correlation, weighting
        As for `linear`.

    Raises
    ------
    FormulaError, SchemaError, ArgumentError, MechanismError
        Before anything is charged.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 50))
    >>> model = poisson("nodes ~ age", data=hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema))
    >>> model
    <MEstimator: nodes ~ age, Poisson>
    >>> model.fit_public().facts.exponentiated
    'incidence rate ratio'
    """
    return mestimate(
        formula,
        data,
        loss=options.Poisson(cap),
        weights=weights,
        offset=offset,
        row_norm=row_norm,
        correlation=correlation,
        weighting=weighting,
    )


@forgets_rows
def multinomial(
    formula: str,
    data: Study,
    *,
    weights: str | None = None,
    row_norm: float | None = None,
    correlation: str | float = "person",
) -> MEstimator:
    """Return a multinomial logistic regression: `mestimate` with ``loss=hdp.losses.Multinomial()``.

    Coefficients are log odds ratios of each level against the first, named ``level:term``.

    Parameters
    ----------
    formula
        ``"outcome ~ terms"``; the outcome is declared as `Categorical`.
    data
        The study.
    weights, row_norm, correlation
        As for `linear`. There is no offset: each level has a predictor of its own.

    Raises
    ------
    FormulaError, SchemaError, ArgumentError, MechanismError
        Before anything is charged.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), size=hdp.Categorical(["<=20", "20-50", ">50"]))
    >>> model = multinomial("size ~ age", data=hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema))
    >>> list(model.fit_public().params.index)
    ['20-50:Intercept', '20-50:age', '>50:Intercept', '>50:age']
    """
    loss = options.Multinomial()
    return mestimate(formula, data, loss=loss, weights=weights, row_norm=row_norm, correlation=correlation)


__all__ = ["distribution", "hazard", "linear", "logit", "mestimate", "multinomial", "poisson", "quantile", "survfit"]
