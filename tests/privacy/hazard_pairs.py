"""The density of the perturbed minimiser of a hazard model, and a search for the neighbours that it tells apart best.

People are made by the package: rows of a table go through `HazardPersonLoss.people`, which maps, whitens, caps and
weights them. What is plain here is the density alone: ``nu(b_D(theta)) det(ridge I + H)`` with
``b_D(theta) = -ridge (theta - c) - sum of gradients``, over person-periods, for many points at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from hdpstats.families.hazard.bounds import HazardPersonLoss
from hdpstats.families.hazard.rows import HazardRows
from hdpstats.formulas.compiler import compile_survival
from hdpstats.losses import LINKS, HazardLink
from hdpstats.mechanisms.minimiser import PointCalibration
from hdpstats.mechanisms.perturbation import ObjectiveQuery
from hdpstats.mechanisms.perturbation import site as perturbation
from hdpstats.privacy.budget import MechanismName
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records.geometry import Geometry, Source, leverage_at
from hdpstats.records.model import HazardCap, HazardModel, TimeGrid
from hdpstats.schema.columns import Binary, Categorical, Continuous, Duration, Weight
from hdpstats.schema.schema import Schema
from hdpstats.schema.table import AdmittedTable
from tests.unit.solvers.capped_problems import cells_of, log_cap, row_of

FAR = 1e3
"""Bound of a covariate in the schema: rows may be far beyond the radius."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """What a query says and a site declares.

    ``ridge`` is in units of leverage over epsilon, per person of the relation; ``level`` is the sum of a person's caps
    over all intervals, relative to the total at which follow-up ends, or above which people are weighed down.
    """

    link: str = "logit"
    relation: Relation = Relation.ADD_OR_REMOVE_ONE
    epsilon: Fraction = Fraction(1)
    total: float = 2.0
    radius: float = 1.0
    ridge: float = 4.0
    intervals: int = 3
    features: tuple[tuple[float, ...], ...] | None = None
    slopes: int = 1
    causes: int = 1
    time_varying: bool = False
    weight: float = 1.0
    relative: bool = False
    level: float = 1.0
    centre: float = 0.0
    weighs: bool | None = None

    @property
    def model(self) -> HazardModel:
        """The model: identity whitening, a baseline of one constant feature unless others are named."""
        q, p = self.intervals, self.slopes
        rng = np.random.default_rng(5)
        levels = np.full((self.causes, q), self.level * self.total / (q * self.causes) * (1.0 - 1e-9))
        if self.relative:
            levels *= rng.uniform(0.2, 1.0, levels.shape)
        slopes = rng.normal(scale=0.5, size=(self.causes, p)) if self.relative else np.zeros((self.causes, p))
        scale = np.vectorize(LINKS[self.link].at_scale)(levels)
        features = self.features if self.features is not None else ((1.0,),) * q
        return HazardModel(
            formula="Surv(stop, event) ~ " + " + ".join(f"z{j}" for j in range(p)),
            link=self.link,
            grid=TimeGrid(tuple(float(s) for s in range(1, q + 1))),
            baseline=features,
            geometry=Geometry(
                location=(0.0,) * p,
                whitening=tuple(tuple(row) for row in np.eye(p).tolist()),
                radius=self.radius,
                leverage=leverage_at(self.radius, intercept=True),
                intercept=True,
                source=Source.PUBLIC_ROWS,
            ),
            cap=HazardCap(
                total=self.total,
                margin=0.0,
                baseline=tuple(tuple(row) for row in scale.tolist()),
                slopes=tuple(tuple(row) for row in slopes.tolist()),
                weighs=self.weighs,
            ),
            weights="w",
        )

    @property
    def person_loss(self) -> HazardPersonLoss:
        """One person's loss at a site that declares weights of at most ``weight``."""
        columns = {f"z{j}": Continuous(-FAR, FAR, complete=True) for j in range(self.slopes)}
        event = Categorical(["none", *(f"cause {k}" for k in range(self.causes))], other="none", complete=True)
        schema = Schema(
            start=Duration(float(self.intervals), complete=True),
            stop=Duration(float(self.intervals), complete=True),
            event=event if self.causes > 1 else Binary(complete=True),
            w=Weight(max=max(self.weight, 1e-3), complete=True),
            **columns,
        )
        formula = self.model.formula
        if self.time_varying:
            formula = formula.replace("Surv(", "Surv(start, ")
        return HazardPersonLoss(
            model=self.model,
            design=compile_survival(formula, schema),
            largest_weight=self.weight,
            largest_offset=0.0,
            most_rows=10 if self.time_varying else 1,
            time_varying=self.time_varying,
        )

    @property
    def query(self) -> ObjectiveQuery:
        """The query."""
        person_loss, persons = self.person_loss, 2 if self.relation is Relation.REPLACE_ONE else 1
        ridge = self.ridge * persons * float(person_loss.half) * self.model.geometry.leverage / float(self.epsilon)
        return ObjectiveQuery(
            model=self.model,
            centre=(self.centre,) * self.model.dimension,
            ridge=Fraction(ridge),
            epsilon=self.epsilon,
            schema_sha256="",
            public_sha256=None,
        )

    def calibrate(self) -> PointCalibration:
        """Return the constants that a site fixes."""
        return perturbation.calibrate_objective(self.query, self.person_loss, records=5, relation=self.relation)

    @property
    def stated(self) -> float:
        """The epsilon of the event that the search attacks."""
        [event] = [each for each in self.calibrate().events if each.ran is MechanismName.OBJECTIVE]
        return float(event.epsilon)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Person-periods of people: rows (N, D), logarithms of caps, whether an event, whole weights (N,)."""

    rows: np.ndarray
    log_caps: np.ndarray
    events: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Density:
    """The log density of the perturbed minimiser up to a constant."""

    loss: HazardLink
    ridge: float
    centre: np.ndarray
    rate: float

    def parts(self, theta: np.ndarray, data: Periods) -> tuple[np.ndarray, np.ndarray]:
        """Return ``b_D`` (T, D) and the whole Hessian (T, D, D) at points (T, D)."""
        eta = theta @ data.rows.T
        caps = np.broadcast_to(data.log_caps, eta.shape)
        cells = self.loss.cells(eta, caps)
        score = data.weights * np.where(data.events, -cells.event, cells.survived)
        curvature = data.weights * np.where(data.events, cells.event_curvature, cells.survived_curvature)
        D = theta.shape[1]
        squares = (data.rows[:, :, None] * data.rows[:, None, :]).reshape(-1, D * D)
        hessian = (curvature @ squares).reshape(-1, D, D)
        return -self.ridge * (theta - self.centre) - score @ data.rows, hessian + self.ridge * np.eye(D)

    def log_density(self, theta: np.ndarray, data: Periods) -> np.ndarray:
        """Return the log density at points (T, D)."""
        noise, hessian = self.parts(theta, data)
        return np.asarray(np.linalg.slogdet(hessian)[1] - self.rate * np.linalg.norm(noise, axis=1))


def density_of(regime: Regime) -> Density:
    """Return the density of the mechanism that a site runs."""
    query, constants = regime.query, regime.calibrate()
    return Density(
        loss=regime.person_loss.loss,
        ridge=float(query.ridge),
        centre=np.array(query.centre),
        rate=float(constants.noise_rate),
    )


def table_of(regime: Regime, people: list[list[dict[str, object]]]) -> AdmittedTable:
    """Return an admitted table of people, each a list of rows with z (p,), start, stop, event and w."""
    rows = [dict(row, person=name) for name, person in enumerate(people) for row in person]
    numeric = {name: np.array([float(row[name]) for row in rows]) for name in ("start", "stop", "w")}
    numeric |= {f"z{j}": np.array([float(row["z"][j]) for row in rows]) for j in range(regime.slopes)}
    codes = {}
    if regime.causes > 1:
        codes["event"] = np.array([int(row["event"]) for row in rows])
    else:
        numeric["event"] = np.array([float(row["event"]) for row in rows])
    nowhere = np.zeros(len(rows), dtype=bool)
    return AdmittedTable(
        numeric=numeric,
        codes=codes,
        rows=len(rows),
        beyond={"start": nowhere, "stop": nowhere},
        persons=np.array([row["person"] for row in rows]) if regime.time_varying else None,
    )


def periods_of(regime: Regime, people: list[list[dict[str, object]]]) -> list[Periods]:
    """Return the person-periods of each person as the package's person_loss makes them."""
    return periods_in(regime.person_loss.people(table_of(regime, people)))


def periods_in(made: HazardRows) -> list[Periods]:
    """Return the person-periods of each person of rows."""
    spells, D = made.spells, made.dimension
    found = []
    for name in range(made.count):
        cells = [cell for cell in cells_of(spells) if made.person[cell[0]] == name]
        found.append(
            Periods(
                rows=np.array([row_of(spells, i, s, k) for i, s, k, _ in cells]).reshape(-1, D),
                log_caps=np.array([log_cap(spells, i, s, k) for i, s, k, _ in cells]),
                events=np.array([event for *_, event in cells], dtype=bool),
                weights=np.array([spells.weights[i] for i, *_ in cells]),
            )
        )
    return found


def together(parts: Iterable[tuple[Periods, float]], dimension: int) -> Periods:
    """Return people who are there so many times each as one data set."""
    listed = list(parts)
    return Periods(
        rows=np.concatenate([each.rows for each, _ in listed] or [np.zeros((0, dimension))]),
        log_caps=np.concatenate([each.log_caps for each, _ in listed] or [np.zeros(0)]),
        events=np.concatenate([each.events for each, _ in listed] or [np.zeros(0, dtype=bool)]),
        weights=np.concatenate([count * each.weights for each, count in listed] or [np.zeros(0)]),
    )


def pool(regime: Regime, rng: np.random.Generator, *, size: int = 60) -> list[list[dict[str, object]]]:
    """Return people at the corners of the bounds and random ones."""
    q, p, people = regime.intervals, regime.slopes, []
    sizes = np.array([0.0, 0.3, 1.0 - 1e-9, 1.0, 1.3, 2.0, 30.0]) * regime.radius

    def row(sign: float, z: np.ndarray, start: float, stop: float, event: int) -> dict[str, object]:
        return {"z": sign * z, "start": start, "stop": stop, "event": event, "w": regime.weight}

    for number in range(size):
        direction = np.eye(p)[number % p] if number % 3 else rng.standard_normal(p)
        z = direction / np.linalg.norm(direction) * (regime.radius if number % 2 else rng.choice(sizes))
        event = int(rng.integers(0, regime.causes + 1)) if number % 4 else int(number % 8 < 4) * regime.causes
        stop = float(q) if number % 2 else float(rng.integers(1, q + 1))
        sign = float(rng.choice([-1.0, 1.0]))
        if not regime.time_varying:
            people.append([row(sign, z, 0.0, stop, event)])
            continue
        cuts = sorted({0.0, stop, float(rng.integers(0, q)), stop - 1.0})
        spans = [(a, b) for a, b in pairwise(cuts) if b > a]
        # The extreme of a bound without cancellation: covariates that change sign before the event.
        signs = [sign] * (len(spans) - 1) + [-sign] if number % 3 else rng.choice([-1.0, 1.0], len(spans)).tolist()
        rows = [row(turn, z, a, b, 0) for turn, (a, b) in zip(signs, spans, strict=True)]
        rows[-1]["event"] = event
        people.append(rows)
    return people


@dataclass(frozen=True, kw_only=True)
class Found:
    """The worst pair of a search: its loss and the point."""

    loss: float
    theta: np.ndarray


def worst(regime: Regime, *, density: Density | None = None, pairs: int = 150, climbs: int = 6, seed: int = 1) -> Found:
    """Return the largest privacy loss that a search over pairs of neighbours, shared people and points finds.

    Both orders of an added person are searched: the person is there, or is not. Up to two other people are there many
    times each, so that the noise may point anywhere. From the best pairs, as many as ``climbs``, points are improved.
    """
    rng = np.random.default_rng(seed)
    density = density_of(regime) if density is None else density
    people = periods_of(regime, pool(regime, rng))
    return worst_among(people, density, regime.relation, rng, pairs=pairs, climbs=climbs)


def worst_among(
    people: list[Periods], density: Density, relation: Relation, rng: np.random.Generator, *, pairs: int, climbs: int
) -> Found:
    """Return the same among some people."""
    D = len(density.centre)
    nobody = together([], D)
    candidates: list[tuple[float, np.ndarray, Callable[[np.ndarray], np.ndarray]]] = []
    for number in range(pairs):
        one, two = (people[k] for k in rng.integers(0, len(people), 2))
        if relation is Relation.ADD_OR_REMOVE_ONE:
            one, two = (one, nobody) if number % 3 else (nobody, one)
        shared = [(people[int(rng.integers(len(people)))], float(10.0 ** rng.uniform(0, 4))) for _ in range(number % 3)]
        here, there = (together([*shared, (each, 1.0)], D) for each in (one, two))

        def loss(theta: np.ndarray, here: Periods = here, there: Periods = there) -> np.ndarray:
            return density.log_density(theta, here) - density.log_density(theta, there)

        points = rng.standard_normal((500, D)) * 10.0 ** rng.uniform(-2.0, 2.0, (500, 1))
        for each in (one, two):
            if len(each.rows):
                along = each.rows[rng.integers(0, len(each.rows), 60)] * 10.0 ** rng.uniform(-1.0, 2.0, (60, 1))
                points = np.concatenate([points, along, -along])
        losses = loss(points)
        best = int(np.argmax(losses))
        candidates.append((float(losses[best]), points[best], loss))
    candidates.sort(key=lambda each: -each[0])
    polished = [_climb(rng, theta, loss) for _, theta, loss in candidates[:climbs]]
    return max(polished, key=lambda each: each.loss)


def _climb(rng: np.random.Generator, theta: np.ndarray, loss: Callable[[np.ndarray], np.ndarray]) -> Found:
    """Improve a point by random steps of shrinking size."""
    best, value, step = theta, float(loss(theta[None, :])[0]), 0.5
    for _ in range(40):
        size = step * max(1.0, float(np.linalg.norm(best)))
        around = best + size * rng.standard_normal((120, len(best))) * 10.0 ** rng.uniform(-2.0, 0.0, (120, 1))
        losses = loss(around)
        place = int(np.argmax(losses))
        if losses[place] > value:
            best, value = around[place], float(losses[place])
        else:
            step *= 0.6
    return Found(loss=value, theta=best)


def told(regime: Regime, **changes: object) -> Density:
    """Return the density of a mechanism that was calibrated for another regime than the people it is run on."""
    return replace(density_of(replace(regime, **changes)), ridge=float(regime.query.ridge))
