"""Private fits to rows that are drawn from real people, against the ordinary fits to the same rows and to all people.

A *setting* is a model of a population, a number of rows and some epsilons; a *cell* is one of its epsilons. In each
trial as many rows are drawn with replacement, and fitted at every epsilon. Then

* a private fit differs from the ordinary fit to the same rows by noise, and by what weights, caps and clips do;
* the coefficients of the ordinary fit to all people are those that intervals should hold.

The ordinary fits are R's ``lm``, ``glm`` or ``rlm`` (`fit_public`), to people who count as often as they were
drawn. Their standard errors, which hold for a wrong model as well, are the standard deviations of such fits to
`RESAMPLED` other draws of `RESAMPLED_ROWS` rows, for other numbers of rows by the root of the number.

**Medians.** A quantile's error depends on the density of outcomes near it. Where 300,000 rows are copies of 7,000
people there is none: on the scale on which a quantile of so many rows varies, it goes from one person to the next. So
rows of `BLURRED` kinds get normal noise of their own, `BLUR` standard deviations of the outcome: the population is that
of 7,000 people with a smooth density about each. Its coefficients are those of `COPIES` copies of everybody, moved by
normal quantiles. Their ordinary fit is statsmodels' ``QuantReg``.
"""

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.tools.sm_exceptions import IterationLimitWarning

import hdpstats.api as hdp
from hdpstats.records.estimate import Estimate
from tests import known_noise
from tests.statistical.monte_carlo import together
from tests.statistical.real_outcomes import COUNTED, FORMULAS, KINDS, NONE, population

RESAMPLED, RESAMPLED_ROWS = max(100, min(400, 4 * int(os.environ.get("HDPSTATS_SETS", "100")))), 30_000
"""Fewer resampled fits where ``HDPSTATS_SETS`` says so, but 100 at least."""


BLURRED = ("median",)
"""Kinds whose rows get noise of their own."""
BLUR = 0.1
"""Its standard deviation, over that of the outcome."""
COPIES = 41
"""How often everybody is in the population of such a kind."""


@dataclass(frozen=True)
class Setting:
    """A kind of model (`KINDS`), a data set with its public people (`population`), rows, and epsilons."""

    kind: str
    data: str
    public: str
    rows: int
    epsilons: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.kind}; {self.data}, {self.public}; {self.rows}"

    @property
    def label(self) -> str:
        """The kind, and that there are no public rows where there are none."""
        return f"{self.kind}, no public rows" if self.public == NONE else self.kind


EPSILONS = (1.0, 3.0)
LARGE, MIDDLE, SMALL = 300_000, 30_000, 3_000
PLAN = (
    ("logit", LARGE, "RAND shifted", EPSILONS),
    ("logit", MIDDLE, "Rotterdam gbsg", (1.0,)),
    ("logit", SMALL, "flchain random", (3.0,)),
    ("linear", LARGE, "Rotterdam gbsg", EPSILONS),
    ("linear", MIDDLE, "RAND shifted", (3.0,)),
    ("linear", MIDDLE, "flchain shifted", (1.0,)),
    ("linear", SMALL, "flchain shifted", (3.0,)),
    ("Huber", LARGE, "flchain shifted", EPSILONS),
    ("Huber", MIDDLE, "Rotterdam gbsg", (3.0,)),
    ("Huber", SMALL, "RAND random", (1.0,)),
    ("median", LARGE, "flchain random", EPSILONS),
    ("median", MIDDLE, "flchain shifted", (1.0,)),
    ("median", MIDDLE, "Rotterdam gbsg", (1.0,)),
    ("median", SMALL, "Rotterdam gbsg", (3.0,)),
    ("Poisson", LARGE, "RAND random", EPSILONS),
    ("Poisson", MIDDLE, "Rotterdam gbsg", (3.0,)),
    ("Poisson", SMALL, "colon shifted", (3.0,)),
    ("multinomial", LARGE, "nwtco shifted", EPSILONS),
    ("multinomial", MIDDLE, "RAND random", (0.5,)),
    ("multinomial", SMALL, "Rotterdam gbsg", (3.0,)),
    ("own loss", LARGE, "colon random", EPSILONS),
    ("own loss", MIDDLE, "flchain shifted", (1.0,)),
    ("own loss", SMALL, "Rotterdam gbsg", (3.0,)),
    ("hazard, cloglog", LARGE, "Rotterdam gbsg", EPSILONS),
    ("hazard, cloglog", MIDDLE, "flchain shifted", (1.0,)),
    ("hazard, cloglog", SMALL, "nwtco random", (3.0,)),
    ("hazard, logit", LARGE, "nwtco shifted", EPSILONS),
    ("hazard, logit", MIDDLE, "colon random", (0.5,)),
    ("hazard, logit", SMALL, "flchain random", (1.0,)),
    ("exponential times", LARGE, "flchain random", EPSILONS),
    ("exponential times", MIDDLE, "Rotterdam gbsg", (3.0,)),
    ("logit, clipped", LARGE, "Rotterdam gbsg", EPSILONS),
    ("logit, clipped", MIDDLE, "nwtco random", (0.5,)),
    ("linear, clipped", LARGE, "flchain random", EPSILONS),
    ("linear, clipped", MIDDLE, "Rotterdam gbsg", (1.0,)),
    ("hazard, clipped", LARGE, "colon shifted", EPSILONS),
    ("hazard, clipped", MIDDLE, "Rotterdam gbsg", (3.0,)),
    ("logit, public Hessian", MIDDLE, "flchain random", (1.0,)),
    ("logit, output", LARGE, "flchain random", EPSILONS),
    ("logit, output", MIDDLE, "colon shifted", (3.0,)),
    ("linear, output", LARGE, "RAND random", EPSILONS),
    ("linear, output", MIDDLE, "nwtco shifted", (1.0,)),
    ("logit", LARGE, "RAND none", EPSILONS),
    ("logit", MIDDLE, "RAND none", (3.0,)),
    ("linear", LARGE, "flchain none", EPSILONS),
)
SETTINGS = tuple(Setting(kind, *people.split(), rows, epsilons) for kind, rows, people, epsilons in PLAN)
"""A fraction of all combinations: every model with each number of rows, data sets and public people in turn."""


@dataclass(frozen=True)
class Trial:
    """What one private fit gave, a number for each coefficient.

    Attributes
    ----------
    apart : list of float
        Private minus ordinary estimate of the same rows.
    away : list of float
        Private minus ordinary estimate of all people.
    errors, privacy, allowance : list of float
        Standard errors; their part of privacy, the allowance for weights included; that allowance.
    covered, covered_pooled : list of bool
        Whether 95 % intervals of the private-only and of the reported estimate hold the coefficients of all people.
    seconds : float
        Processor time of opening the model and fitting it, the reading of rows included.
    """

    epsilon: float
    apart: list[float]
    away: list[float]
    errors: list[float]
    privacy: list[float]
    allowance: list[float]
    covered: list[bool]
    covered_pooled: list[bool]
    seconds: float


def ordinary(setting: Setting, times: np.ndarray, rows: pd.DataFrame | None = None) -> pd.Series:
    """Return the coefficients of the ordinary fit to people who count so many times, or to blurred rows."""
    kind, of = KINDS[setting.kind], population(setting.data, setting.public)
    formula = FORMULAS[setting.data, kind.outcome]
    if rows is not None:
        with warnings.catch_warnings():  # the last steps may alternate, by less than .001 standard errors
            warnings.simplefilter("ignore", IterationLimitWarning)
            return sm.QuantReg.from_formula(formula, rows).fit(q=0.5).params
    drawn = times > 0
    people = of.people[drawn].assign(**{COUNTED: times[drawn].astype(np.float64)})
    study = hdp.Study(public=people, schema=of.counted)
    return kind.make(formula, study, weights=COUNTED).fit_public().params


@cache
def of_all_people(setting: Setting) -> pd.Series:
    """Return the coefficients of the ordinary fit to all people."""
    people = len(population(setting.data, setting.public).people)
    if setting.kind not in BLURRED:
        return ordinary(setting, np.ones(people))
    every = np.arange(COPIES * people)
    return ordinary(setting, COPIES * np.ones(people), blurred(setting, every % people, spread_evenly(every // people)))


def spread_evenly(copy: np.ndarray) -> np.ndarray:
    """Return the normal quantile of each of the copies 0, 1, ...."""
    return stats.norm.ppf((copy + 0.5) / (copy.max() + 1))


def blurred(setting: Setting, rows: np.ndarray, by: np.ndarray) -> pd.DataFrame:
    """Return people's rows; where the kind is blurred, with outcomes moved by so many standard deviations of noise."""
    of = population(setting.data, setting.public)
    private = of.people.iloc[rows].reset_index(drop=True)
    if setting.kind not in BLURRED:
        return private
    outcome = FORMULAS[setting.data, KINDS[setting.kind].outcome].partition(" ~ ")[0]
    declared = of.columns[outcome]
    moved = private[outcome] + BLUR * of.people[outcome].std() * by
    return private.assign(**{outcome: moved.clip(declared.lower, declared.upper)})


def drawn_times(setting: Setting, rows: int, seed: Sequence[int]) -> np.ndarray:
    """Return how often each person is among rows that are drawn with replacement."""
    people = len(population(setting.data, setting.public).people)
    return np.bincount(np.random.default_rng(seed).integers(0, people, rows), minlength=people)


def drawn_rows(setting: Setting, times: np.ndarray, seed: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
    """Return rows of people who were drawn so many times, in random order, and the ordinary fit to them."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(len(times)), times))
    private = blurred(setting, rows, rng.standard_normal(len(rows)))
    return private, ordinary(setting, times, private if setting.kind in BLURRED else None)


def one_trial(number: int, setting: Setting) -> list[Trial]:
    """Draw rows, and fit them at every epsilon."""
    target = of_all_people(setting)
    times = drawn_times(setting, setting.rows, [30, 1, setting.rows, number])
    private, same = drawn_rows(setting, times, [30, 2, number])
    found = []
    for epsilon in setting.epsilons:
        start = time.process_time()
        result, own = _private(setting, private, epsilon)
        seconds = time.process_time() - start
        weights = result.facts.row_weights
        at = [result.params.index.get_loc(name) for name in target.index]
        found.append(
            Trial(
                epsilon=epsilon,
                apart=(own.params[target.index] - same).tolist(),
                away=(own.params[target.index] - target).tolist(),
                errors=own.bse[target.index].tolist(),
                privacy=np.sqrt(np.diag(own.privacy))[at].tolist(),
                allowance=(np.zeros(len(at)) if weights is None else np.array(weights.allowance)[at]).tolist(),
                covered=_holds(own.conf_int().loc[target.index], target),
                covered_pooled=_holds(result.conf_int().loc[target.index], target),
                seconds=seconds,
            )
        )
    return found


def without_noise(setting: Setting) -> pd.DataFrame:
    """Return, for each epsilon (rows), what fits to everybody, equally often, are off the ordinary fit without noise.

    In standard errors of a fit with noise. There is no Monte-Carlo error: one fit says what weights, caps, clips and
    the ridge do. Where there are fewer rows than people, these are every second one or so.
    """
    of = population(setting.data, setting.public)
    people, every = len(of.people), np.arange(setting.rows)
    person = every * people // setting.rows if setting.rows < people else every % people
    times = np.bincount(person, minlength=people)
    private = blurred(setting, person, spread_evenly(every // people))
    target, found = ordinary(setting, times, private if setting.kind in BLURRED else None), {}
    with pytest.MonkeyPatch.context() as patch:
        known_noise.off(patch)
        for epsilon in setting.epsilons:
            own = _private(setting, private, epsilon)[1]
            found[epsilon] = (own.params[target.index] - target) / own.bse[target.index]
    return pd.DataFrame(found).T


def _private(setting: Setting, private: pd.DataFrame, epsilon: float) -> tuple[hdp.Result, Estimate]:
    """Return a private fit, and its estimate of private people alone."""
    of, kind = population(setting.data, setting.public), KINDS[setting.kind]
    study = hdp.Study(
        private=private,
        public=None if setting.public == NONE else of.public,
        schema=of.schema,
        budget=hdp.Budget(epsilon=epsilon, delta=kind.fit.get("delta", 0.0)),
    )
    result = kind.make(FORMULAS[setting.data, kind.outcome], study).fit(epsilon=epsilon, **kind.fit)
    return result, result.estimate if result.private_only is None else result.private_only


def _holds(limits: pd.DataFrame, target: pd.Series) -> list[bool]:
    low, high = limits.to_numpy().T
    return ((low <= target) & (target <= high)).tolist()


def spread(number: int, setting: Setting) -> np.ndarray:
    """Return the ordinary estimate of rows that are drawn for standard errors."""
    times = drawn_times(setting, RESAMPLED_ROWS, [30, 3, number])
    return drawn_rows(setting, times, [30, 5, number])[1].to_numpy()


def ordinary_errors(setting: Setting, *, resampled: int = RESAMPLED) -> np.ndarray:
    """Return the standard deviations of ordinary estimates of ``RESAMPLED_ROWS`` rows."""
    return np.std(together(partial(spread, setting=setting), range(resampled), chunksize=20), axis=0, ddof=1)


def measured(setting: Setting, *, fits: int, first: int = 0) -> list[list[Trial]]:
    """Return trials of every epsilon of a setting, from the ``first`` on."""
    found = together(partial(one_trial, setting=setting), range(first, first + fits), chunksize=1)
    return [list(each) for each in zip(*found, strict=True)]


@dataclass(frozen=True)
class Cell:
    """What trials of a setting at one epsilon say, a number for each coefficient but where said otherwise.

    Attributes
    ----------
    bias, bias_error : list of float
        Mean of (private - ordinary) in reported standard errors, and its Monte-Carlo error.
    without_noise : list of float
        What `without_noise` says.
    noise : list of float
        Root mean square of (private - ordinary), in units of what noise and the allowance are said to make of it.
    noise_alone : list of float
        The same without the allowance.
    allowance : list of float
        The mean allowance in reported standard errors.
    covered, covered_pooled : list of float
        Shares of intervals that hold the coefficients of all people.
    covered_error : float
        The Monte-Carlo error of the mean of ``covered`` over coefficients.
    width : list of float
        The median standard error over that of the ordinary fit.
    seconds : float
        Mean processor time of a fit.
    """

    terms: list[str]
    epsilon: float
    fits: int
    bias: list[float]
    bias_error: list[float]
    without_noise: list[float]
    noise: list[float]
    noise_alone: list[float]
    allowance: list[float]
    covered: list[float]
    covered_error: float
    covered_pooled: list[float]
    width: list[float]
    seconds: float


def cell_of(setting: Setting, trials: Sequence[Trial], errors: np.ndarray, without: list[float]) -> Cell:
    """Summarise trials of one epsilon; ``errors`` are those of `ordinary_errors`, ``without`` of `without_noise`."""
    of = {name: np.array([getattr(trial, name) for trial in trials]) for name in asdict(trials[0])}
    z = of["apart"] / of["errors"]
    alone = np.sqrt(np.maximum(of["privacy"] ** 2 - of["allowance"] ** 2, 0.0))
    covered = of["covered"].mean(axis=1)

    def root(values: np.ndarray) -> list[float]:
        return np.sqrt(np.mean(values**2, axis=0)).tolist()

    return Cell(
        terms=[*of_all_people(setting).index],
        epsilon=trials[0].epsilon,
        fits=len(trials),
        bias=z.mean(axis=0).tolist(),
        bias_error=(z.std(axis=0, ddof=1) / np.sqrt(len(z))).tolist(),
        without_noise=without,
        noise=root(of["apart"] / of["privacy"]),
        noise_alone=root(of["apart"] / alone),
        allowance=np.mean(of["allowance"] / of["errors"], axis=0).tolist(),
        covered=of["covered"].mean(axis=0).tolist(),
        covered_error=float(covered.std(ddof=1) / np.sqrt(len(z))),
        covered_pooled=of["covered_pooled"].mean(axis=0).tolist(),
        width=(np.median(of["errors"], axis=0) / errors * np.sqrt(setting.rows / RESAMPLED_ROWS)).tolist(),
        seconds=float(of["seconds"].mean()),
    )


SITES = {"small": 1_000, "middle": 4_000, "large": 20_000}
"""Sites of one population, and how many people are at each."""


def one_agreement(number: int, kind: str, data: str, public: str) -> float:
    """Return the p-value of the agreement of sites whose people are drawn from one population, at epsilon 1."""
    of, model = population(data, public), KINDS[kind]
    rng = np.random.default_rng([30, 4, number])
    private = {
        site: of.people.iloc[rng.integers(0, len(of.people), rows)].reset_index(drop=True)
        for site, rows in SITES.items()
    }
    study = hdp.Study(private=private, public=of.public, schema=of.schema, budget=hdp.Budget(epsilon=1))
    result = model.make(FORMULAS[data, model.outcome], study).fit(epsilon=1.0, **model.fit)
    return float(result.heterogeneity.overall.pvalue)


def agreements(kind: str, data: str, public: str, *, sets: int) -> list[float]:
    """Return p-values of so many sets of sites."""
    return together(partial(one_agreement, kind=kind, data=data, public=public), range(sets), chunksize=20)
