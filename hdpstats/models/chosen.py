"""From the loss that a user names to the loss of a query: numbers that were left out come from public facts."""

from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.formulas import Design
from hdpstats.formulas.response import Response, made, response_of
from hdpstats.losses import BY_NAME, PredictorLoss, Table, options
from hdpstats.losses.base import OutcomeFacts
from hdpstats.public.fit import FEWEST_ROWS, PublicRows, public_rows
from hdpstats.sites import Study


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChosenLoss:
    """A loss with all its numbers.

    Attributes
    ----------
    loss : PredictorLoss
        On the scale of ``response``.
    response : Response
        Where the outcome comes from.
    parameters, table
        What a query says of the loss, in the outcome's unit.
    bread : PredictorLoss or None
        The loss whose curvature public rows tell.
    words : str
        The loss, for the summary; empty where the model's name says it all.
    label : str
        The name that results keep, one of `hdpstats.losses.MEANS`.
    exponentiated : str
        What the exponential of a coefficient is.
    """

    loss: PredictorLoss
    response: Response
    parameters: tuple[float, ...] = ()
    table: Table = ()
    bread: PredictorLoss | None = None
    words: str = ""
    label: str
    exponentiated: str = "exponential"


def loss_name(option: object) -> str:
    """Return the word that queries use for a loss, or refuse what is none."""
    if isinstance(option, options.LossOption) and option.loss in BY_NAME:
        return option.loss
    names = ", ".join(f"hdp.losses.{each.title}" for each in options.OPTIONS if each.loss in BY_NAME)
    raise ArgumentError(f"loss must be one of {names}, with parentheses, not {option!r}", argument="loss")


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
    response = response_of(design, loss_name(option), study.schema)
    column, rows = study.schema[response.column], None
    if study.public is not None:
        rows = public_rows(study.public, design, response, weights=weights, offset=offset)
    seen: FloatArray = np.zeros(0) if rows is None or rows.y is None else rows.y
    residuals = _residuals(rows)
    numbers = option.numbers(
        OutcomeFacts(
            lower=response.lower,
            upper=response.upper,
            scale=response.scale,
            shift=response.shift,
            binary=column.kind == "binary",
            seen=seen,
            residuals=residuals,
            rows=FEWEST_ROWS,
            records=study.records or len(seen),
            coefficients=0 if rows is None else rows.X.shape[1],
        )
    )
    loss = made(option.loss, numbers.parameters, numbers.table, response)
    return ChosenLoss(
        loss=loss,
        response=response,
        parameters=numbers.parameters,
        table=numbers.table,
        bread=None if residuals is None else loss.broadened(residuals),
        words=numbers.words,
        label=numbers.label or loss.name,
        exponentiated=numbers.exponentiated or loss.exponentiated,
    )


def _residuals(rows: PublicRows | None) -> FloatArray | None:
    """Return residuals of public rows about their least-squares fit, on the loss's scale; None where they are few."""
    if rows is None or rows.y is None or len(rows.y) < FEWEST_ROWS:
        return None
    target = rows.y - rows.offset
    return np.asarray(target - rows.X @ np.linalg.lstsq(rows.X, target, rcond=None)[0])
