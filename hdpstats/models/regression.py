"""What every regression at the front desk does: check, ask, answer. Functions over one frozen record."""

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError
from hdpstats._base.validation import real
from hdpstats.data.columns import NumericColumn
from hdpstats.data.schema import Schema
from hdpstats.design import Design
from hdpstats.design.geometry import whiten
from hdpstats.design.reference import reference_matrix
from hdpstats.inference import box, private
from hdpstats.inference.information import is_clear
from hdpstats.inference.likelihood import maximum_likelihood
from hdpstats.inference.prediction import predicted_errors
from hdpstats.losses import Loss
from hdpstats.mechanisms import objective
from hdpstats.models.plan import plan_rows
from hdpstats.privacy.accountant import guarantee
from hdpstats.protocols import WhitenedPublic, choose_query, public_rows, whitened_public
from hdpstats.protocols.moments import moments
from hdpstats.protocols.public import FEWEST_ROWS, with_radius
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease
from hdpstats.results import ModelFacts, Result
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
    regression = Regression(
        name=name,
        exponentiated=exponentiated,
        study=study,
        design=design,
        loss=loss,
        weights=_declared(study.schema, weights, kind="weight", argument="weights"),
        offset=_declared(study.schema, offset, kind="offset", argument="offset"),
        row_norm=None if row_norm is None else real(row_norm, name="row_norm", lower=1e-3, upper=1e3),
        public=_public(study, design, loss, weights=weights, offset=offset),
    )
    if regression.public is not None and row_norm is not None:
        raise ArgumentError("row_norm must be left out with public rows: they give the geometry", argument="row_norm")
    return regression


def fit_private(model: Regression, *, epsilon: Fraction, share: Fraction, replicate: int) -> Result:
    """Ask the site and read its answer. The only function here that spends."""
    site = model.study.site
    if site is None:
        raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
    query = ask(model, epsilon=epsilon, records=site.records, share=share, replicate=replicate)
    release = site.answer(query)
    if not isinstance(release, ObjectiveRelease):
        raise MechanismError("the site answered with a release of another kind")
    return read(model, query, release)


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
        largest_weight=_size(model, model.weights, default=1.0),
        weights=model.weights,
        offset=model.offset,
        row_norm=model.row_norm,
        hessian_share=share,
        replicate=replicate,
    )


def read(model: Regression, query: ObjectiveQuery, release: ObjectiveRelease) -> Result:
    """Return the result of a release: post-processing of released and public numbers."""
    terms = model.design.names
    weight = _size(model, model.weights, default=1.0)
    if model.public is None:
        found = box.estimates(query, release, terms=terms, largest_weight=weight)
        few = "" if model.study.public is None else f" (fewer than {FEWEST_ROWS} complete public rows)"
        method, rows = f"objective perturbation, scaled by the schema{few}", None
    else:
        public = with_radius(model.public, query.geometry.radius)
        found = private.estimates(query, release, public, model.loss, terms=terms, largest_weight=weight)
        method, rows = "objective perturbation, whitened by public rows", len(public.X)
    return Result(
        facts=_facts(model, method, records=release.records, public=rows),
        schema=model.study.schema,
        estimate=found.chosen,
        public_only=found.public_only,
        private_only=found.private_only,
        pooled=found.pooled,
        query=query,
        release=release,
        guarantee=guarantee(release.events, relation=model.study.relation),
    )


def fit_likelihood(model: Regression) -> Result:
    """Return the maximum-likelihood fit to the public rows as they are."""
    table = model.study.public
    if table is None or model.design.response not in table.names:
        message = "fit_public needs public rows with the outcome; give the study public="
        raise ArgumentError(message, argument="public")
    extra = [name for name in (model.weights, model.offset) if name is not None]
    rows = table.raw([*model.design.needs, *extra])
    estimate = maximum_likelihood(
        model.design.evaluate_unclipped(rows),
        rows.numeric[model.design.response],
        weights=rows.numeric[model.weights] if model.weights else np.ones(rows.rows),
        offset=rows.numeric[model.offset] if model.offset else np.zeros(rows.rows),
        loss=model.loss,
        terms=model.design.names,
    )
    return Result(
        facts=_facts(model, "maximum likelihood on public rows", records=None, public=rows.rows),
        schema=model.study.schema,
        estimate=estimate,
        public_only=None,
        private_only=None,
        pooled=None,
        query=None,
        release=None,
        guarantee=None,
    )


def planned(model: Regression, *, epsilon: Fraction, records: int, share: Fraction) -> pd.DataFrame:
    """Return the rows of a plan for one epsilon: the very query and constants that a fit would use."""
    query = ask(model, epsilon=epsilon, records=records, share=share, replicate=1)
    constants = objective.calibrate(
        query,
        records=records,
        largest_weight=_size(model, model.weights, default=1.0),
        largest_offset=_size(model, model.offset, default=0.0),
    )
    public = _reference(model, query) if model.public is None else with_radius(model.public, query.geometry.radius)
    errors = predicted_errors(public, model.loss, records=records, rate=float(constants.noise_rate))
    reported = model.public is not None
    if constants.hessian is not None and not reported:
        H = moments(public, model.loss, theta=public.centre, records=records).H
        reported = is_clear(H, noise_sd=constants.hessian.noise_sd)
    return plan_rows(float(epsilon), model.design.names, errors, reported=reported)


def _reference(model: Regression, query: ObjectiveQuery) -> WhitenedPublic:
    """Return evenly spread rows in place of public ones."""
    rows = whiten(query.geometry, reference_matrix(model.design, model.study.schema))
    n = len(rows.X)
    return WhitenedPublic(
        geometry=query.geometry, X=rows.X, mallows=rows.weights, weights=np.ones(n), offset=np.zeros(n), fit=None
    )


def _public(study: Study, design: Design, loss: Loss, *, weights: object, offset: object) -> WhitenedPublic | None:
    if study.public is None:
        return None
    named = [name if isinstance(name, str) else None for name in (weights, offset)]
    rows = public_rows(study.public, design, weights=named[0], offset=named[1])
    return whitened_public(rows, design, loss) if len(rows.X) >= FEWEST_ROWS else None


def _facts(model: Regression, method: str, *, records: int | None, public: int | None) -> ModelFacts:
    return ModelFacts(
        model=model.name,
        formula=model.design.formula,
        response=model.design.response,
        method=method,
        records=records,
        public_rows=public,
        weights=model.weights,
        offset=model.offset,
        exponentiated=model.exponentiated,
    )


def _size(model: Regression, name: str | None, *, default: float) -> float:
    """Return the declared bound on the size of a weight or an offset."""
    column = None if name is None else model.study.schema[name]
    return max(abs(column.lower), abs(column.upper)) if isinstance(column, NumericColumn) else default


def _declared(schema: Schema, name: object, *, kind: str, argument: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in schema or schema[name].kind != kind:
        raise SchemaError(
            f"{argument} must name a column that the schema declares as {kind.capitalize()}(...), not {name!r}",
            argument=argument,
        )
    return name
