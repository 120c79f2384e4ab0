"""From the loss that a user names to the loss of a query: numbers that were left out come from public facts."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas import Design
from hdpstats.formulas.response import Response, made, response_of
from hdpstats.losses import Loss, SmoothedQuantile, Table, options
from hdpstats.losses.located import LEAST_WIDTH, scale_of, window
from hdpstats.public.fit import FEWEST_ROWS, PublicRows, public_rows
from hdpstats.schema.columns import NumericColumn
from hdpstats.sites import Study

EFFICIENT = 1.345
"""Huber's ``c`` over the residuals' standard deviation, for 95 % efficiency with normal errors."""

NARROWEST, WIDEST = 0.05, 0.5
"""Half-widths of quantiles over the residuals' standard deviation."""

DECLARED = 1.0 / 40.0
"""Half-width of quantiles over the declared range, where no public outcome says more."""

NAMES: dict[type, str] = {
    options.Squares: "squares",
    options.Huber: "huber",
    options.Quantile: "quantile",
    options.Absolute: "quantile",
    options.Logistic: "logistic",
    options.Poisson: "poisson",
    options.Exponential: "exponential",
    options.Loss: "own",
}


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChosenLoss:
    """A loss with all its numbers.

    Attributes
    ----------
    loss : Loss
        On the scale of ``response``.
    response : Response
        Where the outcome comes from.
    parameters, table
        What a query says of the loss, in the outcome's unit.
    bread : Loss or None
        The loss whose curvature public rows tell.
    words : str
        The loss, for the summary; empty where the model's name says it all.
    label : str
        The name that results keep, one of `hdpstats.losses.MEANS`.
    exponentiated : str
        What the exponential of a coefficient is.
    """

    loss: Loss
    response: Response
    parameters: tuple[float, ...] = ()
    table: Table = ()
    bread: Loss | None = None
    words: str = ""
    label: str
    exponentiated: str = "exponential"


def loss_name(option: object) -> str:
    """Return the word that queries use for a loss, or refuse what is none."""
    if type(option) not in NAMES:
        names = ", ".join(f"hdp.losses.{each.__name__}" for each in NAMES)
        raise ArgumentError(f"loss must be one of {names}, with parentheses, not {option!r}", argument="loss")
    return NAMES[type(option)]


def chosen_loss(
    option: options.LossOption, design: Design, study: Study, *, weights: str | None, offset: str | None
) -> ChosenLoss:
    """Return a loss with all its numbers.

    Raises
    ------
    MechanismError
        If the loss has no proof for the outcome as it is declared.
    ArgumentError
        If a number must be given, or somebody's own loss is not what is declared of it.
    """
    name = loss_name(option)
    response = response_of(design, name, study.schema)
    rows = None
    if study.public is not None:
        rows = public_rows(study.public, design, response, weights=weights, offset=offset)
    if isinstance(option, options.Loss):
        return _own(option, response, study, rows)
    if isinstance(option, options.Huber):
        return _huber(option, response, rows)
    if isinstance(option, options.Quantile | options.Absolute):
        return _quantile(option, response, study, rows)
    if isinstance(option, options.Poisson):
        cap = response.upper if option.cap is None else float(option.cap)
        words = f"Poisson loss, means up to {cap:.6g}"
        return _chosen(name, response, (cap,), words=words, exponentiated="incidence rate ratio")
    if isinstance(option, options.Exponential):
        words = f"exponential times, saturating near {option.cap:.6g} events per horizon"
        return _chosen(name, response, (float(option.cap),), words=words, exponentiated="rate ratio")
    if isinstance(option, options.Logistic):
        return _chosen(name, response, (), exponentiated="odds ratio")
    low, high = response.lower * response.scale + response.shift, response.upper * response.scale + response.shift
    return _chosen(name, response, (), words=f"least squares, predictions cut to [{low:.6g}, {high:.6g}]")


def _chosen(
    name: str,
    response: Response,
    parameters: tuple[float, ...],
    *,
    words: str = "",
    exponentiated: str = "exponential",
) -> ChosenLoss:
    loss = made(name, parameters, (), response)
    return ChosenLoss(
        loss=loss, response=response, parameters=parameters, words=words, label=name, exponentiated=exponentiated
    )


def _huber(option: options.Huber, response: Response, rows: PublicRows | None) -> ChosenLoss:
    c = option.c
    if c is None:
        residuals = _residuals(rows)
        if residuals is None:
            raise ArgumentError(
                f"Huber's c must be given, in the outcome's unit: there are no {FEWEST_ROWS} complete public rows with "
                "the outcome to take it from; hdp.losses.Huber(c)",
                argument="c",
            )
        c = _rounded(EFFICIENT * scale_of(residuals) * response.scale)
    return _chosen("huber", response, (float(c),), words=f"Huber's loss with c = {c:.6g}")


def _quantile(
    option: options.Quantile | options.Absolute, response: Response, study: Study, rows: PublicRows | None
) -> ChosenLoss:
    q = option.q if isinstance(option, options.Quantile) else 0.5
    residuals, width = _residuals(rows), option.width
    least = _rounded(2.0 * LEAST_WIDTH * response.scale)
    if width is None and (residuals is None or rows is None):
        width = _rounded(DECLARED * (response.upper - response.lower) * response.scale)
    elif width is None and residuals is not None and rows is not None:
        n = study.records or len(residuals)
        share = ((rows.X.shape[1] + math.log(max(n, 2))) / max(n, 2)) ** 0.4
        width = max(_rounded(min(max(share, NARROWEST), WIDEST) * scale_of(residuals) * response.scale), least)
    elif width is not None and width < least:
        raise ArgumentError(
            f"width must be at least {least:g}, not {width:g}, where the outcome's declared range is "
            f"{response.scale:g} long: leave it out, give a larger one, or declare a narrower range",
            argument="width",
        )
    h = float(width) if width is not None else math.nan
    parameters = (float(q), h)
    loss = made("quantile", parameters, (), response)
    bread = None
    if residuals is not None and isinstance(loss, SmoothedQuantile):
        wide = max(loss.h, window(scale_of(residuals), len(residuals)))
        bread = SmoothedQuantile(lower=loss.lower, upper=loss.upper, q=loss.q, h=wide)
    label = "median" if q == 0.5 else f"{q:g}-quantile"
    words = f"{label}, smoothed over a half-width of {h:.6g}"
    return ChosenLoss(loss=loss, response=response, parameters=parameters, bread=bread, words=words, label="quantile")


def _own(option: options.Loss, response: Response, study: Study, rows: PublicRows | None) -> ChosenLoss:
    column = study.schema[response.column]
    if not isinstance(column, NumericColumn):
        raise MechanismError("your own loss needs a numeric outcome", column=response.column)
    seen: FloatArray = np.zeros(0) if rows is None or rows.y is None else rows.y
    table = option.tabulate(lower=column.lower, upper=column.upper, outcomes=seen, binary=column.kind == "binary")
    exponentiated = {"identity": "exponential", "log": "ratio of means", "logit": "odds ratio"}[option.link]
    return ChosenLoss(
        loss=table,
        response=response,
        parameters=(table.start, table.step, table.tilt),
        table=table.table,
        words=f"own loss {option.name!r}, tabulated",
        label=f"own ({option.link} link)",
        exponentiated=exponentiated,
    )


def _residuals(rows: PublicRows | None) -> FloatArray | None:
    """Return residuals of public rows about their least-squares fit, on the loss's scale; None where they are few."""
    if rows is None or rows.y is None or len(rows.y) < FEWEST_ROWS:
        return None
    target = rows.y - rows.offset
    return np.asarray(target - rows.X @ np.linalg.lstsq(rows.X, target, rcond=None)[0])


def _rounded(number: float) -> float:
    """Return a number with three digits: what a summary shows is what a query says."""
    return float(f"{number:.3g}")
