"""The same releases read with what no fit may know: the private people themselves in place of raked public ones.

What a fit was given is caught where it is handed over, so that fits and oracles read one and the same release.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import hdpstats.api as hdp
from hdpstats.families.hazard.outcomes import SurvivalOutcomes
from hdpstats.families.hazard.public import HazardSide
from hdpstats.families.hazard.public_fit import PublicSpells, public_spells
from hdpstats.inference import draws
from hdpstats.inference.combination import InformedPoint, ReleasedPoint
from hdpstats.inference.information import Information
from hdpstats.inference.sandwich import combine
from hdpstats.mechanisms.clipped_newton.estimate import estimates as sum_estimates
from hdpstats.mechanisms.clipped_newton.expectations import DRAWS
from hdpstats.mechanisms.clipped_newton.matching import match
from hdpstats.mechanisms.clipped_newton.request import answers_of
from hdpstats.models import points, rounds
from hdpstats.public.moments import Moments, PublicSide
from hdpstats.records.estimate import Estimates
from hdpstats.records.geometry import Geometry, whiten
from hdpstats.schema.public import PublicTable


@dataclass(frozen=True, kw_only=True, eq=False)
class TrueInformation(Information):
    """Moments over the private people of a site, known without an error."""

    side: PublicSide

    @property
    def source(self) -> object:
        return id(self.side)

    @property
    def spread_of_size(self) -> float:
        return 0.0

    def at(self, theta: np.ndarray) -> Moments:
        side = self.side
        if isinstance(side, HazardSide):  # people are at risk as they were
            side = replace(side, fit=replace(side.fit, theta=theta))
        return side.moments(theta, records=side.people)

    def draw(self, rng: draws.Generator, *, count: int) -> np.ndarray:
        return np.zeros((count, 1))

    def given(self, drawn: np.ndarray, *, theta: np.ndarray, rng: draws.Generator) -> Moments:
        found = self.at(theta)
        H, J = (np.broadcast_to(each, (len(drawn), *each.shape)) for each in (found.H, found.J))
        return Moments(H=H, J=J)


@dataclass(frozen=True, kw_only=True, eq=False)
class TruePeople:
    """The private people of a site with all outcomes that each might have, in place of raked ones."""

    outcomes: SurvivalOutcomes
    total: None = None
    notes: tuple[str, ...] = ()

    def deviations(self, theta: np.ndarray, **_: object) -> np.ndarray:
        return np.zeros((DRAWS, len(theta)))


@dataclass(eq=False)
class Caught:
    """What a fit was about to be read from."""

    parts: list[ReleasedPoint] = field(default_factory=list)
    rounds: tuple[Any, Any] | None = None


@contextmanager
def caught() -> Iterator[Caught]:
    """Keep what the fits within are read from."""
    found, estimates, ask_rounds = Caught(), points.estimates, rounds.ask_rounds

    def keep_parts(parts: list[ReleasedPoint], **options: object) -> Estimates:
        found.parts = list(parts)
        return estimates(parts, **options)

    def keep_rounds(study: hdp.Study, advance: "partial[object]", kind: type) -> object:
        given = ask_rounds(study, advance, kind)
        found.rounds = (advance.args[0], given[1])
        return given

    with patch.object(points, "estimates", keep_parts), patch.object(rounds, "ask_rounds", keep_rounds):
        yield found


def oracle(model: Any, read: Caught, private: pd.DataFrame) -> Estimates:
    """Return what the private rows themselves would have made of a release.

    Parameters
    ----------
    model, read
        The model that was fitted, and what it was read from.
    private
        The private rows.
    """
    spec = model._spec
    table = PublicTable.from_frame(private, spec.study.schema)
    if read.rounds is not None:
        state, answered = read.rounds
        known = list(answers_of(state, answered.asked, answered.answered).values())
        rows = public_spells(table, spec.asked, spec.grid, weights=None, offset=None)
        people = TruePeople(outcomes=_outcomes(state.outcomes, rows, state.model.geometry))
        matched = match(state.outcomes, state.fit, known, clip=float(state.clip), raked=[people])
        last = list(answered.answered[-1].values())
        found = sum_estimates(matched, state.fit, last, T=spec.to_terms(state.model), terms=spec.terms, note="oracle")
    else:
        (part,) = read.parts
        informed = InformedPoint(part=part, information=TrueInformation(side=_side(spec, part.public, table)))
        found = combine([informed], fit=part.public.fit, T=spec.to_terms(part.query.model), terms=spec.terms)
    return found.moved(spec.origin)


def _side(spec: Any, public: PublicSide, table: PublicTable) -> PublicSide:
    """Return private rows as the public side of a query has its own people."""
    if isinstance(public, HazardSide):
        rows = public_spells(table, spec.asked, spec.grid, weights=None, offset=None)
        Z = whiten(public.geometry, rows.X).X[:, 1:]
        spells = replace(public.spells, Z=Z, entry=rows.entry, offset=rows.offset)
        return replace(public, spells=spells, rows=rows).at(public.geometry, public.cap)
    design = public.variables.design
    rows = whiten(public.geometry, design.matrix(table.admitted(design.needs)))
    ones = np.ones(len(rows.X))
    return replace(public, X=rows.X, mallows=rows.weights, weights=ones, offset=0.0 * ones, y=None, groups=None)


def _outcomes(outcomes: SurvivalOutcomes, rows: PublicSpells, geometry: Geometry) -> SurvivalOutcomes:
    """Return private people with all their outcomes, followed as they are on average."""
    n, z = rows.people, whiten(geometry, rows.X)
    at_risk = np.mean(rows.exit[:, None] > np.arange(len(outcomes.spells.A)), axis=0)
    none = np.zeros(n, dtype=np.int64)
    spells = replace(
        outcomes.spells, Z=z.X[:, 1:], entry=none, last=rows.exit, cause=none, weights=z.weights, offset=rows.offset
    )
    return SurvivalOutcomes(
        spells=spells,
        followed=np.tile(outcomes.followed[:1], (n, 1)),
        whole=n,
        share=np.full(n, 1.0 / n),
        at_risk=at_risk[None],
    )
