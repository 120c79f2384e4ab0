"""A regression at the front desk: arguments checked against the schema, the public side prepared, the query asked."""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from hdpstats._base.errors import ArgumentError, SchemaError
from hdpstats._base.validation import real
from hdpstats.data.columns import NumericColumn
from hdpstats.data.schema import Schema
from hdpstats.design import Design
from hdpstats.losses import Loss
from hdpstats.protocols import WhitenedPublic, choose_query, public_rows, whitened_public
from hdpstats.protocols.public import FEWEST_ROWS
from hdpstats.queries import ObjectiveQuery
from hdpstats.sites import Study


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Regression:
    """A model of one linear predictor on a study: everything here is public.

    Attributes
    ----------
    name, exponentiated : str
        What tables call the model and the exponential of a coefficient.
    study, design, loss
        The data, the columns, the contrast function.
    weights, offset : str or None
        Columns of the schema.
    row_norm : float or None
        Declared bound on the scaled row norm, for the geometry of the schema's box.
    public : WhitenedPublic or None
        The public side; None where public rows are absent or too few for a geometry.
    """

    name: str
    exponentiated: str
    study: Study
    design: Design
    loss: Loss
    weights: str | None
    offset: str | None
    row_norm: float | None
    public: WhitenedPublic | None

    @property
    def largest_weight(self) -> float:
        """The declared bound on a case weight; 1 without weights."""
        return 1.0 if self.weights is None else _reach(self.study.schema, self.weights)

    @property
    def largest_offset(self) -> float:
        """The declared bound on the size of an offset; 0 without one."""
        return 0.0 if self.offset is None else _reach(self.study.schema, self.offset)


def open_regression(
    design: Design,
    study: Study,
    loss: Loss,
    *,
    name: str,
    exponentiated: str,
    weights: object,
    offset: object,
    row_norm: object,
) -> Regression:
    """Check the arguments against the schema and prepare the public side."""
    weight_column = _declared(study.schema, weights, kind="weight", argument="weights")
    offset_column = _declared(study.schema, offset, kind="offset", argument="offset")
    public = _public(study, design, loss, weights=weight_column, offset=offset_column)
    if public is not None and row_norm is not None:
        raise ArgumentError("row_norm must be left out with public rows: they give the geometry", argument="row_norm")
    return Regression(
        name=name,
        exponentiated=exponentiated,
        study=study,
        design=design,
        loss=loss,
        weights=weight_column,
        offset=offset_column,
        row_norm=None if row_norm is None else real(row_norm, name="row_norm", lower=1e-3, upper=1e3),
        public=public,
    )


def ask(model: Regression, *, epsilon: Fraction, records: int, share: Fraction, replicate: int) -> ObjectiveQuery:
    """Return the query of one fit."""
    table = model.study.public
    return choose_query(
        model.design,
        model.loss,
        public=model.public,
        records=records,
        epsilon=epsilon,
        schema_sha256=model.study.schema.sha256,
        public_sha256=table.sha256 if table is not None and model.public is not None else None,
        largest_weight=model.largest_weight,
        weights=model.weights,
        offset=model.offset,
        row_norm=model.row_norm,
        hessian_share=share,
        replicate=replicate,
    )


def _public(
    study: Study, design: Design, loss: Loss, *, weights: str | None, offset: str | None
) -> WhitenedPublic | None:
    if study.public is None:
        return None
    rows = public_rows(study.public, design, weights=weights, offset=offset)
    return whitened_public(rows, design, loss) if len(rows.X) >= FEWEST_ROWS else None


def _reach(schema: Schema, name: str) -> float:
    """Return the largest size that the schema lets a number have."""
    column = schema[name]
    return max(abs(column.lower), abs(column.upper)) if isinstance(column, NumericColumn) else 0.0


def _declared(schema: Schema, name: object, *, kind: str, argument: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in schema or schema[name].kind != kind:
        raise SchemaError(
            f"{argument} must name a column that the schema declares as {kind.capitalize()}(...), not {name!r}",
            argument=argument,
        )
    return name
