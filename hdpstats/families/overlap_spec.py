"""What models of people weighted by their chance of treatment share: who stands for them, and what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.families.stacked import TreatedRows
from hdpstats.formulas import Design
from hdpstats.inference.overlap_errors import WeightedPeople
from hdpstats.results.facts import design_of as design_of_result
from hdpstats.results.propensity import Weighting, raked_people
from hdpstats.sites import Study

FROM_WEIGHTED = (
    "Predicted from public people who stand for the private ones, weighted by the released propensity model: outcomes "
    "given covariates are taken to be distributed as theirs."
)

FROM_WEIGHTED_FOLLOWED = (
    "Predicted from public people who stand for the private ones, weighted by the released propensity model: "
    "follow-up, and outcomes given covariates, are taken to be distributed as theirs."
)

COUNTS_ONCE = "evaluate counts each person once, and this model is of weighted people (weighting=)"


def both_arms(overlap: Weighting, study: Study, design: Design) -> tuple[FloatArray, FloatArray]:
    """Return a design's rows (m, D) of the people who stand for private ones, had they been untreated and treated."""
    people, weights = raked_people(overlap.propensity.fit, study.public)
    kept = WeightedPeople.places(len(weights))
    untreated, treated = (
        design.matrix(replace(people, numeric={**people.numeric, overlap.treatment: np.full(people.rows, arm)}))[kept]
        for arm in (0.0, 1.0)
    )
    return untreated, treated


def treated_rows(overlap: Weighting, study: Study, needs: Sequence[str]) -> TreatedRows:
    """Return public rows of a propensity model, which have an outcome where ``needs`` are there.

    Raises
    ------
    ArgumentError
        If the propensity model is one of private people.
    """
    propensity, table = overlap.propensity, study.public
    if propensity.guarantee is not None or table is None:
        raise ArgumentError(
            "weighting: fit_public needs that of the public rows, hdp.propensity(formula, study).fit_public()"
            ".weights(): public people's treatment does not follow the private model",
            argument="weighting",
        )
    design = design_of_result(propensity.fit)
    whole = table.raw(design.needs)
    return TreatedRows(
        X=design.evaluate_unclipped(whole),
        treated=whole.numeric[design.response],
        coefficients=propensity.estimate.values,
        lacking=~table.complete(needs)[table.complete(design.needs)],
    )


def check_weighted(
    overlap: Weighting, study: Study, *, outcome: Sequence[str], terms: Sequence[str], given: Mapping[str, object]
) -> None:
    """Refuse a model whose formula a weighting by propensity is not worked out for.

    Parameters
    ----------
    overlap, study
        The weighting, and the study of the model.
    outcome, terms
        The columns of the model's outcome and of its terms.
    given
        Arguments that must be left out.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"{name} must be left out with weighting=", argument=name)
    treatment, others = overlap.treatment, design_of_result(overlap.propensity.fit).needs
    for name in outcome:
        if name in others:
            raise ArgumentError(
                f"weighting: the outcome {name!r} must not be the treatment or a covariate of the propensity model",
                argument="weighting",
            )
    if treatment not in terms:
        words = outcome[0] if len(outcome) == 1 else f"Surv({', '.join(outcome)})"
        raise ArgumentError(
            f"weighting: the formula must have the treatment {treatment} among its terms, as in "
            f"'{words} ~ {treatment}'",
            argument="weighting",
        )
    unbalanced = [name for name in terms if name not in others]
    if unbalanced:
        raise ArgumentError(
            f"weighting: the arms are balanced in the covariates of the propensity model alone, and "
            f"{', '.join(unbalanced)} is none of them; put it into the propensity model, or leave it out",
            argument="weighting",
        )
    if study.public is None:
        raise ArgumentError(
            "weighting needs public rows with the outcome, the treatment and the covariates, on which standard errors "
            "rest; give the study public=",
            argument="public",
        )
