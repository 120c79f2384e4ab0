"""R's own fits of public data, as tidy data frames: what a release or a public fit is checked against.

`cox`, `hazard_glm`, `kaplan_meier` and `glm` take a formula in R's sense, as text, and a data frame. They are for data
that anybody may see: nothing here is private, bounded or charged, and a study, whose rows are private, is refused.
``result.compare(reference)`` shows a fit of `hdpstats` and one of these side by side.

Formulas are evaluated by R: the columns of the frame, base R and the exports of ``stats``, ``splines`` and
``survival`` are available, nothing else of the R session. A formula is R code and may do what R code can: do not take
one from strangers. Categorical columns are factors with the same order of levels, ordered or not, and treatment
contrasts; texts are factors in R's order; rows with a missing value drop. Terms have R's names.

Warnings of R are `r_bridge.RWarning`; an error of R is `r_bridge.RError`, a missing column or a formula that cannot
be read an `hdp.ArgumentError`. What there is about a fit beside its table (number of rows, deviance, link, ...) is in
``frame.attrs``.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Final

import pandas as pd

import hdpstats.api as hdp
from hdpstats.api import ArgumentError
from r_bridge.arguments import choice, elements
from r_bridge.from_r import from_r
from r_bridge.guard import guarded, sourced
from r_bridge.session import R_CODE
from r_bridge.to_r import to_r

_CODE: Final = R_CODE / "reference.R"
_FAMILIES: Final = ("binomial", "gaussian", "poisson", "Gamma", "inverse.gaussian", "quasibinomial", "quasipoisson")
_MOST_DUMMIES: Final = 1_000
_MOST_INTERVALS: Final = 10_000
_MOST_KNOTS: Final = 20


def cox(
    formula: str,
    frame: pd.DataFrame,
    ties: str = "efron",
    *,
    weights: str | None = None,
    offset: str | None = None,
    robust: bool | None = None,
    conf_level: float = 0.95,
) -> pd.DataFrame:
    """Fit a Cox model to public data with R's ``survival::coxph``.

    Parameters
    ----------
    formula
        In R's sense: ``"Surv(time, event) ~ age + factor(size)"``, also with ``Surv(start, stop, event)``,
        ``strata(…)`` and ``cluster(…)``.
    frame
        Public rows.
    ties
        ``"efron"``, ``"breslow"`` or ``"exact"``.
    weights, offset
        Columns of the frame.
    robust
        Whether standard errors are robust; by default as R decides: with clusters, and with weights that are no counts.
    conf_level
        Of the limits, which are those of the normal distribution.

    Returns
    -------
    DataFrame
        A row per coefficient: term, estimate (log hazard ratio), std_error, statistic, p_value, conf_low, conf_high.
        In ``attrs``: model, formula, nobs, events, log_likelihood, log_likelihood_null, robust, ties.

    Raises
    ------
    ArgumentError
        If ``frame`` is no data frame or lacks a column, or the formula cannot be read.
    RError
        If R refuses the model.

    Examples
    --------
    >>> table = cox("Surv(time, event) ~ age + log1p(nodes)", hdp.datasets.load_gbsg())
    >>> table[["term", "estimate", "std_error"]].round(4).values.tolist()
    [['age', -0.0044, 0.0059], ['log1p(nodes)', 0.6989, 0.0781]]
    """
    public = _public(formula, frame, weights=weights, offset=offset)
    chosen = choice(ties, "ties", ("efron", "breslow", "exact"))
    return _fit("cox", formula, public, chosen, weights, offset, robust, _level_of(conf_level))


def hazard_glm(
    formula: str,
    frame: pd.DataFrame,
    intervals: int | Sequence[float] = 24,
    link: str = "logit",
    *,
    horizon: float | None = None,
    baseline: str = "log_spline",
    df: int | None = None,
    knots: Sequence[float] | None = None,
    weights: str | None = None,
    offset: str | None = None,
    conf_level: float = 0.95,
) -> pd.DataFrame:
    r"""Fit a discrete-time hazard model to public data in R: ``glm(…, family = binomial(link))`` on person-periods.

    The likelihood, the coefficients, the standard errors (from the expected information, as in ``glm``) and the
    deviance are those of ``glm`` on a row per person and interval at risk. The computation is R's as well, iteratively
    reweighted least squares with step halving, but the rows stay a sparse matrix of people by intervals: a million of
    them need some hundred MB, where ``glm`` with a column per interval needs several GB.

    Parameters
    ----------
    formula
        In R's sense: ``"Surv(time, event) ~ age + factor(size)"`` or ``"Surv(start, stop, event) ~ …"``. The baseline
        takes the place of the intercept. Each row is one person. Transforms that look at all rows (``poly``, ``bs``
        and ``ns`` without knots) look at the rows of people.
    frame
        Public rows.
    intervals
        How many intervals of equal length there are up to the horizon, or their cut points, as in ``hdpf.hazard``. A
        time of 0 is in the first interval, and a row enters with the first interval that begins at or after its start.
    link
        ``"logit"``, ``"cloglog"`` or ``"probit"``.
    horizon
        Where follow-up ends; later events do not count. By default the last cut point, or the largest time.
    baseline, df, knots
        As in ``hdpf.hazard``: ``"log_spline"`` or ``"spline"`` with ``df`` knots or with ``knots`` on [0, 1], or
        ``"dummies"``. Terms are named as there: ``baseline[1]``, ``interval[1]``.
    weights, offset
        Columns of the frame. Rows of weight 0 drop.
    conf_level
        Of the limits, which are those of the normal distribution.

    Returns
    -------
    DataFrame
        Columns as `cox`. With dummies, an interval in which nobody has the event has the limit ``-inf`` (everybody:
        ``inf``) and no standard error, with a warning; where ``glm`` stops at some large number, this is what it is on
        its way to, and the other coefficients are the same. A coefficient that the rows do not identify is NaN. In
        ``attrs``: model, formula, link, baseline, cuts, nobs (people), person_periods, events, dropped, deviance,
        iterations, converged.

    Raises
    ------
    ArgumentError, RError
        As `cox`; also if the intervals, the horizon or the knots cannot hold.

    Examples
    --------
    >>> table = hazard_glm("Surv(time, event) ~ age", hdp.datasets.load_gbsg(), intervals=12, link="cloglog")
    >>> table["term"].tolist(), table.attrs["person_periods"]
    (['baseline[1]', 'baseline[2]', 'baseline[3]', 'baseline[4]', 'age'], 3831)
    """
    public = _public(formula, frame, weights=weights, offset=offset)
    choice(link, "link", ("logit", "cloglog", "probit"))
    end = None if horizon is None else _number(horizon, "horizon", above=0.0)
    grid, count = _grid_of(intervals, end)
    kind = choice(baseline, "baseline", ("log_spline", "spline", "dummies"))
    if kind == "dummies" and count > _MOST_DUMMIES:
        raise ArgumentError(
            f"baseline='dummies' is for at most {_MOST_DUMMIES} intervals, not {count}", argument="baseline"
        )
    places = None if kind == "dummies" else _knots_of(kind, df, knots, count)
    table = _fit("hazard", formula, public, grid, end, kind, places, link, weights, offset, _level_of(conf_level))
    table.attrs |= {"baseline": baseline, "cuts": [float(cut) for cut in elements(table.attrs["cuts"])]}
    return table


def kaplan_meier(
    formula: str,
    frame: pd.DataFrame,
    times: Iterable[float] | None = None,
    *,
    weights: str | None = None,
    conf_type: str = "log",
    conf_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate survival in public data by Kaplan and Meier's product limit, with R's ``survival::survfit``.

    Parameters
    ----------
    formula
        In R's sense: ``"Surv(time, event) ~ 1"``, or with strata: ``"Surv(time, event) ~ size"``.
    frame
        Public rows.
    times
        When; by default all times at which an event or a censoring happened. Times after the last of a stratum are
        left out. With given times ``n_event`` counts the events since the one before.
    weights
        A column of the frame.
    conf_type
        The scale of the limits: ``"log"`` (R's default), ``"log-log"`` (as `Result.predict_survival`), ``"logit"``,
        ``"arcsin"`` or ``"plain"``.
    conf_level
        Of the pointwise limits.

    Returns
    -------
    DataFrame
        Columns time, n_risk, n_event, survival, std_error (of survival, Greenwood), conf_low, conf_high and strata,
        which is "all" without strata. In ``attrs``: model, formula, nobs, conf_type.

    Raises
    ------
    ArgumentError, RError
        As `cox`.

    Examples
    --------
    >>> curve = kaplan_meier("Surv(time, event) ~ hormon", hdp.datasets.load_gbsg(), times=[365, 1826])
    >>> curve[["strata", "time", "n_risk", "survival"]].round(3).values.tolist()[:2]
    [['hormon=0', 365.0, 379.0, 0.897], ['hormon=0', 1826.0, 63.0, 0.437]]
    """
    public = _public(formula, frame, weights=weights, offset=None)
    chosen = choice(conf_type, "conf_type", ("log", "log-log", "logit", "arcsin", "plain"))
    when = None if times is None else pd.Series([_number(time, "times") for time in times])
    return _fit("kaplan_meier", formula, public, when, weights, chosen, _level_of(conf_level))


def glm(
    formula: str,
    frame: pd.DataFrame,
    family: str = "binomial",
    *,
    link: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    conf_level: float = 0.95,
) -> pd.DataFrame:
    """Fit a generalised linear model to public data with R's ``stats::glm``.

    Parameters
    ----------
    formula
        In R's sense: ``"event3 ~ age + factor(size)"``.
    frame
        Public rows.
    family
        ``"binomial"``, ``"gaussian"``, ``"poisson"``, ``"Gamma"``, ``"inverse.gaussian"``, ``"quasibinomial"`` or
        ``"quasipoisson"``.
    link
        Its link, such as ``"cloglog"``; R's default for the family without one.
    weights, offset
        Columns of the frame: prior weights, and known terms of the linear predictor.
    conf_level
        Of the limits, which are Wald's: of the normal distribution, or of Student's where the dispersion is estimated.

    Returns
    -------
    DataFrame
        Columns as `cox`; a coefficient that the rows do not identify is NaN. In ``attrs``: model, formula, family,
        link, nobs, deviance, null_deviance, df_residual, dispersion, converged.

    Raises
    ------
    ArgumentError, RError
        As `cox`.

    Examples
    --------
    >>> table = glm("event3 ~ age + factor(size)", hdp.datasets.load_gbsg())
    >>> table["term"].tolist(), table.attrs["nobs"]
    (['(Intercept)', 'age', 'factor(size)20-50', 'factor(size)>50'], 555)
    """
    public = _public(formula, frame, weights=weights, offset=offset)
    chosen = choice(family, "family", _FAMILIES)
    if link is not None and not isinstance(link, str):
        raise ArgumentError(f"link must be the name of a link, not {type(link).__name__}", argument="link")
    return _fit("generalised", formula, public, chosen, link, weights, offset, _level_of(conf_level), model="glm")


def _fit(function: str, formula: str, frame: pd.DataFrame, *options: Any, model: str | None = None) -> pd.DataFrame:
    """Run a function of ``reference.R`` and return its table with its facts as ``attrs``."""
    fitted = from_r(guarded(sourced(_CODE)[function], to_r(formula), to_r(frame), *map(to_r, options)))
    table: pd.DataFrame = fitted["table"]
    table.attrs |= {"model": model or function, "formula": formula} | fitted["facts"]
    return table


def _public(formula: object, frame: object, *, weights: str | None, offset: str | None) -> pd.DataFrame:
    """Return the columns that a fit reads; refuse what is no public frame."""
    if isinstance(frame, hdp.Study | hdp.Ledger | hdp.Site):
        raise ArgumentError(
            f"frame must be public rows, and this is an hdp.{type(frame).__name__}: a reference fit reads every row "
            "and charges nothing; give the public data frame, or fit the study with hdpstats",
            argument="frame",
        )
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(
            f"frame must be a pandas DataFrame of public rows, not {type(frame).__name__}", argument="frame"
        )
    if not isinstance(formula, str):
        raise ArgumentError(f"formula must be a text, not {type(formula).__name__}", argument="formula")
    for name, column in {"weights": weights, "offset": offset}.items():
        if column is not None and not isinstance(column, str):
            raise ArgumentError(f"{name} must be the name of a column, not {type(column).__name__}", argument=name)
    if not frame.columns.is_unique or not all(isinstance(name, str) for name in frame.columns):
        raise ArgumentError("the names of columns must be texts, each another one: rename them first", argument="frame")
    names = to_r(list(frame.columns))
    wanted = from_r(guarded(sourced(_CODE)["columns"], to_r(formula), names, to_r(weights), to_r(offset)))
    return frame.loc[:, [] if wanted is None else elements(wanted)].reset_index(drop=True)


def _number(value: object, name: str, *, above: float = float("-inf")) -> float:
    """Return a finite number, above a bound where there is one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not above < float(value) < float("inf"):
        bound = f" above {above:g}" if above > float("-inf") else ""
        raise ArgumentError(f"{name} must be a finite number{bound}, not {value!r}", argument=name)
    return float(value)


def _level_of(value: object) -> float:
    """Return a level of confidence."""
    level = _number(value, "conf_level", above=0.0)
    if not level < 1.0:
        raise ArgumentError(f"conf_level must be below 1, not {value!r}", argument="conf_level")
    return level


def _grid_of(intervals: object, horizon: float | None) -> tuple[Any, int]:
    """Return the cut points, or ``{"count": q}`` where R finds them, and how many there are."""
    if not isinstance(intervals, bool) and isinstance(intervals, Integral):
        count = int(intervals)
        if not 1 <= count <= _MOST_INTERVALS:
            raise ArgumentError(
                f"intervals must be 1 to {_MOST_INTERVALS} in number, not {count}", argument="intervals"
            )
        return {"count": count}, count
    if isinstance(intervals, str | Real) or not isinstance(intervals, Iterable):
        raise ArgumentError("intervals must be a whole number or cut points", argument="intervals")
    cuts = _increasing(intervals, "intervals")
    if cuts[0] <= 0.0 or (horizon is not None and cuts[-1] > horizon):
        raise ArgumentError("intervals must have cut points above 0 and up to the horizon", argument="intervals")
    cuts += [] if horizon is None or cuts[-1] == horizon else [horizon]
    return pd.Series(cuts), len(cuts)


def _knots_of(kind: str, df: object, knots: Sequence[float] | None, intervals: int) -> "pd.Series[float]":
    """Return the knots of the baseline's spline, shares of the number of intervals."""
    most, usual, power = (min(_MOST_KNOTS, intervals), 3, 1.0) if kind == "spline" else (min(10, intervals), 4, 1.5)
    if most < 2:
        raise ArgumentError("a spline needs 2 intervals or more; choose baseline='dummies'", argument="baseline")
    if knots is None:
        number = min(usual, most) if df is None else df
        if not isinstance(number, Integral) or not 2 <= int(number) <= most:
            raise ArgumentError(f"df must be a whole number from 2 to {most}, not {df!r}", argument="df")
        return pd.Series([(place / (int(number) - 1)) ** power for place in range(int(number))])
    places = _increasing(knots, "knots")
    if not 2 <= len(places) <= most or places[0] < 0.0 or places[-1] > 1.0:
        raise ArgumentError(f"knots must be 2 to {most} shares from 0 to 1", argument="knots")
    return pd.Series(places)


def _increasing(values: Iterable[Any], name: str) -> list[float]:
    numbers = [_number(value, name) for value in values]
    if not numbers or not all(a < b for a, b in pairwise(numbers)):
        raise ArgumentError(f"{name} must be numbers that increase", argument=name)
    return numbers
