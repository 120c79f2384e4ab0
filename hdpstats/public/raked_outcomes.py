"""Outcomes of raked public people (`hdpstats.public.raking`), set by set."""

from dataclasses import replace

import numpy as np

from hdpstats._base.typing import FloatArray
from hdpstats.public.outcomes import Outcomes
from hdpstats.public.raked_people import whitened_people
from hdpstats.public.raking import RakedPeople
from hdpstats.public.regression_outcomes import ListedOutcomes, ResidualOutcomes
from hdpstats.public.survival_outcomes import SurvivalOutcomes
from hdpstats.records.geometry import Geometry


def raked_outcomes(
    outcomes: Outcomes, people: RakedPeople, geometry: Geometry, *, case_weights: FloatArray, starts: FloatArray
) -> Outcomes:
    """Return the outcomes of raked public people (B n,), set by set, whose shares are 1 in each set.

    Parameters
    ----------
    outcomes
        Those of the public people as they are.
    people
        The raked ones.
    geometry, case_weights
        The geometry of the outcomes, and the public people's case weights (n,).
    starts
        Where intervals begin (q,), if follow-up is to be as described; empty where it is that of public people.
    """
    whitened = whitened_people(geometry, people)
    B, n, _ = whitened.X.shape
    share, weights = people.weights.ravel(), (case_weights * whitened.mallows).ravel()
    if isinstance(outcomes, SurvivalOutcomes):
        spells = outcomes.spells
        return SurvivalOutcomes(
            spells=replace(
                spells,
                Z=whitened.z.reshape(B * n, -1),
                entry=np.tile(spells.entry, B),
                last=np.tile(spells.last, B),
                cause=np.tile(spells.cause, B),
                weights=weights,
                offset=np.tile(spells.offset, B),
            ),
            followed=np.tile(outcomes.followed, (B, 1)),
            whole=B * n,
            share=share,
            at_risk=people.at_risk_at(starts) if starts.size and people.times.size else None,
        )
    if isinstance(outcomes, ListedOutcomes | ResidualOutcomes):
        X = whitened.X.reshape(B * n, -1)
        return replace(outcomes, X=X, weights=weights, offset=np.tile(outcomes.offset, B), share=share)
    raise TypeError("only binary outcomes, counts and survival are raked")


def some_sets(outcomes: Outcomes, sets: slice, *, size: int) -> Outcomes:
    """Return some of the sets of ``size`` raked people each."""
    people = slice(sets.start * size, sets.stop * size)
    share = None if outcomes.share is None else outcomes.share[people]
    if isinstance(outcomes, SurvivalOutcomes):
        return replace(
            outcomes,
            spells=outcomes.spells.take(people),
            followed=outcomes.followed[people],
            whole=len(outcomes.followed[people]),
            share=share,
            at_risk=None if outcomes.at_risk is None else outcomes.at_risk[sets],
        )
    if isinstance(outcomes, ListedOutcomes | ResidualOutcomes):
        rows = {name: getattr(outcomes, name)[people] for name in ("X", "weights", "offset")}
        return replace(outcomes, **rows, share=share)
    raise TypeError("only binary outcomes, counts and survival are raked")
