"""Fits of a regression: to private records through the site, and to public rows alone."""

from fractions import Fraction

import numpy as np

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats.inference.likelihood import maximum_likelihood
from hdpstats.inference.objective import estimates
from hdpstats.models.regression import Regression, ask
from hdpstats.privacy.accountant import guarantee
from hdpstats.protocols.public import FEWEST_ROWS, with_radius
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease
from hdpstats.results import ModelFacts, Result


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


def read(model: Regression, query: ObjectiveQuery, release: ObjectiveRelease) -> Result:
    """Return the result of a release: post-processing of released and public numbers."""
    public = None if model.public is None else with_radius(model.public, query.geometry.radius)
    found = estimates(query, release, public, model.loss, terms=model.design.names, largest_weight=model.largest_weight)
    rows = None if public is None else len(public.X)
    return Result(
        facts=_facts(model, _method(model), records=release.records, public=rows),
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


def _method(model: Regression) -> str:
    if model.public is not None:
        return "objective perturbation, whitened by public rows"
    few = "" if model.study.public is None else f" (fewer than {FEWEST_ROWS} complete public rows)"
    return f"objective perturbation, scaled by the schema{few}"


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
        loss=model.loss.name,
        exponentiated=model.exponentiated,
    )
