"""Adjusted survival curves: how the tables of weighted people are read, from public rows and what was released."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.special import expit

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray, IntArray
from hdpstats.describe.tables import NO_SEED
from hdpstats.inference import draws
from hdpstats.inference.life_tables import LifeTable
from hdpstats.inference.overlap_errors import PropensityErrors, WeightedPeople
from hdpstats.inference.weighted_hazards import hazard_errors, hazard_slopes
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.blocks import DescribedNumbers, numbers_of
from hdpstats.mechanisms.description.moments import life_tables
from hdpstats.mechanisms.description.people import causes_of
from hdpstats.public.weighted_curves import WeightedRows
from hdpstats.records import codec
from hdpstats.results.adjustment import Adjustment
from hdpstats.results.facts import design_of
from hdpstats.results.propensity import Weighting, complete_share, imbalance_left, rows_for_errors
from hdpstats.results.survival_curves import WITHIN
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import Study


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A survival outcome from time 0 on: its columns, its causes, and the one level that is an event if one is."""

    time: str
    event: str
    causes: int
    level: int | None

    @property
    def names(self) -> tuple[str, str]:
        """The columns."""
        return self.time, self.event

    def of(self, table: AdmittedTable) -> tuple[FloatArray, IntArray]:
        """Return when follow-up of public rows ended, and by which cause: 0 for none, or beyond the horizon."""
        columns: dict[str, Any] = {**table.codes, **table.numeric}
        cause = causes_of(columns[self.event].astype(np.int64), self.level)
        return columns[self.time], np.where(table.beyond[self.time], 0, cause)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Adjusting:
    """What errors of curves of weighted people rest on: all of it public, or released before.

    Attributes
    ----------
    weighting : Weighting
        How people are weighted.
    people : WeightedPeople
        The public people who stand for the private ones.
    X, treated, time, cause : arrays
        Public rows with the outcome: design rows (n, p), treatment, end of follow-up and its cause (n,).
    causes : int
        How many causes there are.
    complete : float
        The share of private people who are expected to lack no cell, and so count.
    """

    weighting: Weighting
    people: WeightedPeople
    X: FloatArray
    treated: FloatArray
    time: FloatArray
    cause: IntArray
    causes: int
    complete: float

    @classmethod
    def of(cls, study: Study, weighting: Weighting, outcome: Outcome) -> "Adjusting":
        """Return it for a study, or refuse too few public rows, and weights that leave hardly anybody."""
        people, design, table = rows_for_errors(study, weighting, outcome.names, what="survfit with weighting")
        if set(outcome.names) & set(design.needs):
            raise ArgumentError(
                "weighting: the outcome must not be the treatment or a covariate of the propensity model",
                argument="weighting",
            )
        time, cause = outcome.of(table)
        return cls(
            weighting=weighting,
            people=people,
            X=design.matrix(table),
            treated=table.numeric[design.response],
            time=time,
            cause=cause,
            causes=outcome.causes,
            complete=complete_share(study, weighting, outcome.names),
        )

    def adjusted(self, tables: Sequence[LifeTable], errors: PropensityErrors, *, seed: str) -> tuple[LifeTable, ...]:
        """Return the tables of both arms with the errors of their hazards."""
        slopes = hazard_slopes(self.X, self.treated, self.time, self.cause, causes=self.causes, cuts=tables[0].cuts)
        found = hazard_errors(tables, self.people, slopes, errors, seed=seed)
        return tuple(replace(table, errors=found, group=group) for group, table in enumerate(tables))

    def _propensity(self, seed: str) -> tuple[PropensityErrors, draws.Generator]:
        rng = draws.generator(codec.sha256(["propensity", seed]))
        return PropensityErrors.of(self.weighting.propensity.estimate, rng), rng

    def read(
        self, query: DescriptionQuery, releases: Sequence[DescriptionRelease], *, recorded: str
    ) -> dict[str, Adjustment]:
        """Return how the curves of releases are adjusted, as `SurvivalCurves` has it."""
        propensity = self.weighting.propensity
        seed = codec.sha256([each.sha256 for each in (*propensity.releases, *releases)])
        errors, rng = self._propensity(seed)
        tables = self.adjusted(life_tables(numbers_of(query, releases, 0), within=WITHIN[recorded]), errors, seed=seed)
        adjustment = Adjustment(
            formula=propensity.formula,
            before=propensity.releases,
            errors=tables[0].errors,
            imbalance=imbalance_left(self.people, errors.privacy, propensity.estimate.terms, rng),
            effective_share=self.people.effective_share,
            public_rows=len(self.time),
        )
        return {"adjusted": adjustment}

    def expected_tables(self, numbers: DescribedNumbers, *, records: int, recorded: str) -> tuple[LifeTable, ...]:
        """Return the tables that so many people are expected to give, of whom some lack a cell.

        Public rows tell the hazards and censorings of an arm, and the private propensity its weight.
        """
        query = numbers.query
        width = 0 if query.follow_up is None else query.follow_up.cells
        cells = numbers.follow_up[:-1].reshape(2, width)
        shares = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1e-300)
        scaled = np.append(self.complete * records * self.people.overlap * shares.ravel(), 0.0)
        tables = life_tables(replace(numbers, follow_up=scaled), within=WITHIN[recorded])
        return self.adjusted(tables, self._propensity(NO_SEED)[0], seed=NO_SEED)


def weighted_public_rows(study: Study, weighting: Weighting, outcome: Outcome) -> WeightedRows:
    """Return public rows weighted by the coefficients of a propensity model of the same rows.

    Raises
    ------
    ArgumentError
        If there are too few rows, or weights leave hardly anybody.
    """
    found = Adjusting.of(study, weighting, outcome)
    fit, public = weighting.propensity.fit, study.public
    if public is None:
        raise ArgumentError("fit_public needs public rows", argument="public")
    design = design_of(fit)
    whole, alpha = public.admitted(design.needs), fit.estimate.values
    lacking = ~public.complete((*design.needs, *outcome.names))[public.complete(design.needs)]
    X, treated = design.matrix(whole), whole.numeric[design.response]
    e = expit(X @ alpha)
    inverse: FloatArray = np.asarray(np.linalg.inv((X.T * (e * (1.0 - e))) @ X), dtype=np.float64)
    influences = ((X * (treated - e)[:, None]) @ inverse)[lacking]
    raw = public.raw(tuple(dict.fromkeys((*design.needs, *outcome.names))))
    return WeightedRows(
        X=found.X,
        treated=found.treated,
        chance=e[~lacking],
        time=raw.numeric[outcome.time],
        cause=found.cause,
        causes=found.causes,
        inverse=inverse,
        others=influences.T @ influences,
    )
