"""A plan: what standard errors a fit would have at each epsilon, as a table, in words and as a plot.

**The inverse.** `smallest_epsilons` finds the smallest epsilon at which a fit would report standard errors that are
wanted. Predicted standard errors fall as epsilon grows, so that the smallest of `CANDIDATES` is found by bisection.
Nothing is spent. Where even the largest does not do, what is missing is records, not epsilon.

**Switches.** Parts of an epsilon buy more than coefficients: the number of people, averages of their covariates, a
noisy Hessian. Which of them a fit buys follows from public facts, epsilon among them. While it buys the same, errors
fall as epsilon or the number of people grows, but for at most 3 %: what is chosen besides (radii, caps, margins,
ridges, the share for smoothing) is one of a fine grid. Where it comes to buy something else, or more of it, they may
step, in either direction.

Without public rows a larger share for the noisy Hessian makes standard errors more likely where people spread little,
and costs some of an error: the share may leap, and errors rise by up to 5 %. `Plan.switches` names both: where
something else is bought, and where an error rises by more than 3 %, and whether a larger share is the reason.
"""

import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import real
from hdpstats.display import element, grid, notes, number, page
from hdpstats.families.spec import FROM_PUBLIC, FROM_SCHEMA, LossSpec, ModelSpec
from hdpstats.inference.other_correlations import MOVED
from hdpstats.inference.unlike_people import AWAY, SPREADS, ErrorRange, error_range
from hdpstats.mechanisms.registry import BY_NAME
from hdpstats.models.estimates import residual_sd_words
from hdpstats.models.fit_mechanism import Prediction
from hdpstats.models.request import FitRequest
from hdpstats.privacy.budget import LARGEST_SENSIBLE_EPSILON
from hdpstats.results.labels import labels_of_terms
from hdpstats.results.plots import COLOURS, ink, is_intercept, palette, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CANDIDATES: Final = tuple(
    value
    for exponent in range(-3, 2)
    for digits in range(100, 1000)
    if (value := Fraction(digits) * Fraction(10) ** (exponent - 2)) <= LARGEST_SENSIBLE_EPSILON
)
"""Numbers of three digits from 0.001 to the largest epsilon of a release that needs no permission."""

MOSTLY = 0.1
"""Where noise is a smaller share of the private estimate's variance, sampling error is what stays."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedError:
    """What a fit would report of one coefficient: its standard error, and the share of noise in the private variance.

    ``std_error`` is infinite where none would be reported.
    """

    std_error: float
    noise: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A standard error that is wanted of a coefficient, and what reaches it.

    Attributes
    ----------
    term, std_error : str, float
        What is wanted.
    epsilon : float or None
        The smallest epsilon that reaches it; None where none does.
    best : ExpectedError
        What the largest epsilon would give.
    """

    term: str
    std_error: float
    epsilon: float | None
    best: ExpectedError

    def __str__(self) -> str:
        wanted = f"{self.term}: a standard error of {self.std_error:g}"
        if self.epsilon is not None:
            least = " or less" if self.epsilon == float(CANDIDATES[0]) else ""
            return f"{wanted} needs epsilon = {self.epsilon:g}{least}"
        if math.isnan(self.best.std_error):
            return f"{wanted} is out of reach: not predicted to be estimable at epsilon = {float(CANDIDATES[-1]):g}"
        at = f"{wanted} is out of reach: {self.best.std_error:.3g} at epsilon = {float(CANDIDATES[-1]):g}"
        if self.best.noise < MOSTLY:
            return f"{at}, nearly all of it sampling error; it takes more records"
        return f"{at}, where privacy noise is still {self.best.noise:.0%} of the private estimate's variance"


def expected_of(terms: Sequence[str], found: Prediction) -> dict[str, ExpectedError]:
    """Return what a prediction says of each coefficient."""
    errors = found.errors
    noise = errors.privacy**2 / (errors.sampling**2 + errors.privacy**2)
    reported = errors.reported if found.reported else np.full(len(terms), np.inf)
    return {
        term: ExpectedError(std_error=float(error), noise=float(share))
        for term, error, share in zip(terms, reported, noise, strict=True)
    }


def checked_wanted(std_error: object, terms: Sequence[str]) -> dict[str, float]:
    """Return the standard errors that are wanted, by coefficient, or raise ArgumentError."""
    names = ", ".join(map(repr, terms))
    if not isinstance(std_error, Mapping) or not std_error:
        raise ArgumentError(
            f"std_error must be a dictionary from coefficients to standard errors, such as {{{terms[-1]!r}: 0.1}}",
            argument="std_error",
        )
    unknown = [name for name in std_error if name not in terms]
    if unknown:
        raise ArgumentError(
            f"std_error names {', '.join(map(repr, unknown))}, and the coefficients are {names}", argument="std_error"
        )
    return {
        str(name): real(value, name=f"std_error[{name!r}]", lower=1e-12, upper=1e12)
        for name, value in std_error.items()
    }


def smallest_epsilons(
    wanted: Mapping[str, float], expected: Callable[[Fraction], Mapping[str, ExpectedError]]
) -> tuple[Wanted, ...]:
    """Return the smallest epsilon for each coefficient; ``expected`` says what a fit would report at an epsilon."""
    known: dict[Fraction, Mapping[str, ExpectedError]] = {}

    def at(epsilon: Fraction, term: str) -> ExpectedError:
        if epsilon not in known:
            known[epsilon] = expected(epsilon)
        return known[epsilon][term]

    def smallest(term: str, std_error: float) -> float | None:
        if not at(CANDIDATES[-1], term).std_error <= std_error:  # larger, or not estimable
            return None
        low, high = -1, len(CANDIDATES) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(CANDIDATES[middle], term).std_error <= std_error else (middle, high)
        return float(CANDIDATES[high])

    return tuple(
        Wanted(term=term, std_error=value, epsilon=smallest(term, value), best=at(CANDIDATES[-1], term))
        for term, value in wanted.items()
    )


NAMES = {kind: name for name, kind in BY_NAME.items()}
"""The names of mechanisms, as `fit` takes them."""

LITTLE = 0.1
"""Gains in standard error below this share are called next to nothing."""


STEADY: Final = 1.03
"""An error that is predicted to be more than this many times as large for more epsilon is named."""

BEST_DIFFER: Final = "the caps, weights, ridge or parts of epsilon that are best altogether differ"

DIFFER = "they allow for coefficients of private people that are not those of public people"

AS_DESCRIBED = "Without public rows the prediction takes covariates as described, not correlated, and no effects."

DESCRIBED: Final = (
    "Predicted from public rows, weighted and re-scaled to the description: shares, means and spreads of covariates "
    "are its; correlations and effects are taken to be those of public rows."
)
CORRELATIONS_DESCRIBED: Final = (
    "Predicted from public rows, weighted and re-scaled to the description: shares, means, spreads and correlations of "
    "covariates are its; effects are taken to be those of public rows."
)
"""What predictions rest on with a description and public rows."""

NO_RANGE: Final = " What standard errors would be if private people are unlike them is not predicted here."

COUNTED = (
    " Rows with missing cells are left out: a part of epsilon is spent on the number of the others. The plan is for "
    "records without missing cells; plan(n=...) is for fewer."
)
"""Where rows may be left out."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """Predicted standard errors per coefficient and epsilon. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, mechanism, se_share`` (the share of epsilon for a noisy Hessian; 0 for mechanisms that
        release none), ``term, std_error`` (of what a fit would report), ``sampling, privacy`` (the private rows' two
        parts: ``private_only**2 = sampling**2 + privacy**2``), ``private_only``, ``public_only``
        (of `fit_public`; NaN without public outcomes), ``low, high`` (between which ``std_error`` may lie if private
        people are unlike those that the prediction takes: ``unlike`` says in what; NaN where that is not predicted, as
        for weighted people and mechanisms beside perturbation and ``clipped_newton``), ``reported``
        (whether a fit would report standard errors: it is refused before it is charged where it would not, unless
        ``se_share=0`` asks for coefficients alone).
    records : int
        The number of private records planned for.
    declared : bool
        Whether that is only the declared number, the real one being protected or not known.
    assumption : str
        What the prediction rests on.
    floor : float
        The least that one release is charged in an account at hand; 0 where none is, as at remote sites, whose quotes
        say it.
    shares : mapping of float to str
        Which parts of an epsilon would be for what a fit must know of the private people, in words.
    bought : mapping of float to tuple of str
        What an epsilon would buy beside coefficients, and the mechanism that releases them.
    wanted : tuple of Wanted
        Where the plan was asked for standard errors: what is wanted, and the smallest epsilon that reaches it.
    correlations : DataFrame or None
        Where people have several rows what fits with other ``correlation=`` would report, side by side: columns
        ``correlation`` (r), ``total`` (W, the most that a person counts), ``epsilon, term, std_error, private_only``.
        They may be errors of different coefficients: choose what is to be estimated, not the smaller error.
    unlike : str
        In what private people may be unlike, for ``low`` and ``high``, in words; empty where nothing is left open.
    labels : mapping of str to str
        What pages and figures call the coefficients whose columns have labels in the schema.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> plan = hdpf.logit("event ~ age", study).plan(epsilon=[0.1, 1], n=10_000)
    >>> plan.table.columns.tolist()
    ['public only', 'epsilon=0.1', 'epsilon=1']
    >>> plan.frame["private_only"].round(3).tolist()
    [0.264, 0.005, 0.114, 0.002]
    """

    frame: pd.DataFrame
    records: int
    declared: bool
    assumption: str
    floor: float = 0.0
    shares: Mapping[float, str] = field(default_factory=dict)
    bought: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    wanted: tuple[Wanted, ...] = ()
    correlations: pd.DataFrame | None = None
    unlike: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        spec: ModelSpec,
        predictions: Sequence[tuple[FitRequest, Prediction]],
        *,
        records: int,
        declared: bool,
        wanted: tuple[Wanted, ...] = (),
        others: Sequence[tuple[float, FitRequest, Prediction]] = (),
    ) -> "Plan":
        """Return the plan of fits that would be asked for, from what each would report."""
        counted = any(site.for_count for _, found in predictions for site in found.sites.values())
        ranges = [None if found.people is None else error_range(found.people) for _, found in predictions]
        frames = [
            pd.DataFrame(
                {
                    "epsilon": float(request.epsilon),
                    "mechanism": NAMES[type(found.mechanism)],
                    "se_share": _share(found),
                    "term": spec.terms,
                    "std_error": found.errors.reported,
                    "sampling": found.errors.sampling,
                    "privacy": found.errors.privacy,
                    "private_only": np.hypot(found.errors.sampling, found.errors.privacy),
                    "public_only": np.nan if spec.public_only is None else spec.public_only.bse.to_numpy(),
                    "low": np.nan if between is None else np.minimum(between.low, found.errors.reported),
                    "high": np.nan if between is None else np.maximum(between.high, found.errors.reported),
                    "reported": found.reported,
                }
            )
            for (request, found), between in zip(predictions, ranges, strict=True)
        ]
        return cls(
            frame=pd.concat(frames, ignore_index=True),
            records=records,
            declared=declared,
            assumption=_assumption(spec, [found for _, found in predictions])
            + (NO_RANGE if isinstance(spec, LossSpec) and not any(ranges) else "")
            + (COUNTED if counted and spec.study.schema.leaves_out(spec.needs) else ""),
            wanted=wanted,
            shares={float(request.epsilon): _shares(request, found) for request, found in predictions},
            bought={
                float(request.epsilon): (
                    f"coefficients by mechanism {NAMES[type(found.mechanism)]}",
                    *(what for _, what in _parts(request, found)),
                )
                for request, found in predictions
            },
            correlations=_side_by_side(spec, others),
            unlike=_unlike(ranges, public=spec.public_side is not None),
            labels=labels_of_terms(spec.terms, spec.study.schema),
            floor=max((float(ledger.floor.epsilon) for ledger in spec.study.ledgers.values()), default=0.0),
        )

    @property
    def table(self) -> pd.DataFrame:
        """Predicted standard errors, a row per coefficient and a column per epsilon; public rows alone come first.

        Those that are wanted are in a column of their own.
        """
        wide = self.frame.set_index(["term", "epsilon"])["std_error"].unstack()  # noqa: PD010
        wide = wide.loc[self.frame["term"].drop_duplicates()]
        wide.columns = pd.Index([f"epsilon={value:.3g}" for value in wide.columns])
        if self.frame["public_only"].notna().any():
            wide.insert(0, "public only", self.frame.drop_duplicates("term").set_index("term")["public_only"])
        if self.wanted:
            wide.insert(0, "wanted", pd.Series({each.term: each.std_error for each in self.wanted}))
        wide.index.name = None
        return wide

    def plot(self) -> "Figure":
        """Draw predicted standard errors against epsilon, a panel per coefficient; best from ten or more epsilons."""
        return plot_plan(self.frame, labels=self.labels)

    @property
    def verdicts(self) -> dict[float, str]:
        """What the private rows add at each epsilon, in words."""
        epsilons = self.frame["epsilon"]
        return {
            value: _verdict(self.frame[epsilons == value]) + self.shares.get(value, "") + self._raised(value)
            for value in sorted(set(epsilons.tolist()))
        }

    @property
    def switches(self) -> tuple[str, ...]:
        """Between which of the plan's epsilons errors step, in words: a fit buys something else, or they rise."""
        pairs = list(itertools.pairwise(sorted(self.bought)))
        return tuple(said for low, high in pairs if (said := self._other_purchases(low, high) or self._rise(low, high)))

    def _other_purchases(self, low: float, high: float) -> str:
        """Say that a fit comes to buy something else between two epsilons; nothing where it does not."""
        changes = "; ".join(
            f"{', '.join(what for what in self.bought[one] if what not in self.bought[other])} {words}"
            for one, other, words in ((high, low, "from there on"), (low, high, "up to there"))
            if set(self.bought[one]) - set(self.bought[other])
        )
        between = f"between epsilon = {low:.3g} and {high:.3g}"
        return f"{between} a fit comes to buy something else, and errors may step: {changes}" if changes else ""

    def _rise(self, low: float, high: float) -> str:
        """Say whose errors are larger at the larger of two epsilons; nothing where nobody's are."""
        errors = ["std_error", "private_only"]
        few, many = (self.frame[self.frame["epsilon"] == each].set_index("term")[errors] for each in (low, high))
        rises = (many / few).max(axis=1)
        rises = rises[rises > STEADY]
        if rises.empty:
            return ""
        return (
            f"between epsilon = {low:.3g} and {high:.3g} errors of {', '.join(map(str, rises.index))} rise by up to "
            f"{rises.max() - 1.0:.0%}: {self._more_bought(low, high) or BEST_DIFFER}"
        )

    def _more_bought(self, low: float, high: float) -> str:
        """Say that the larger epsilon spends a larger share on what standard errors rest on; nothing where not."""
        few, many = (float(self.frame.loc[self.frame["epsilon"] == each, "se_share"].max()) for each in (low, high))
        what = next((each for each in (HESSIAN, SANDWICH) if each in self.bought[high]), None)
        if what is None or many <= few:
            return ""
        return f"a larger share of epsilon, {many:.1%} for {few:.1%}, buys {what}, which noise hides the less"

    def _raised(self, epsilon: float) -> str:
        """Say that a fit is charged more than it is asked to cost."""
        return f"; it is charged {self.floor:g}, the least that the account charges" if epsilon < self.floor else ""

    @property
    def ranges(self) -> str:
        """Between how many times those of the table standard errors may lie if private people are unlike, in words."""
        if not self.unlike:
            return ""
        epsilons = self.frame["epsilon"]
        reported = self.frame["reported"].astype(bool)
        parts = {value: _range(self.frame[(epsilons == value) & reported]) for value in sorted(set(epsilons.tolist()))}
        told = [
            f"{least:.2g} and {most:.2g} times these at epsilon = {value:.3g} (largest: {term})"
            for value, (least, most, term) in ((value, each) for value, each in parts.items() if each is not None)
        ]
        return f"{self.unlike}, standard errors lie between {', '.join(told)}. {NO_BOUND}" if told else ""

    @property
    def title(self) -> str:
        """What is predicted, and for how many private records."""
        of = f"the declared {self.records}" if self.declared else str(self.records)
        protected = " (the real number is protected: plan(n=...) for another)" if self.declared else ""
        return f"Predicted standard errors, {of} private records{protected}; nothing is spent"

    def __str__(self) -> str:
        lines = [self.title, ""]
        shown = self.table.map(lambda value: f"{value:.4f}")
        if self.wanted:
            shown["wanted"] = shown["wanted"].replace("nan", "")
        lines += [shown.to_string(), ""]
        lines += [str(each) for each in self.wanted]
        lines += [f"epsilon = {epsilon:.3g}: {verdict}" for epsilon, verdict in self.verdicts.items()]
        lines += [*self.switches, *([self.ranges] if self.ranges else [])]
        lines += ["", _of_rows(self.correlations), BY_CORRELATION] if self.correlations is not None else []
        return "\n".join([*lines, self.assumption])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        table = self.table
        headers = ["", *(str(name).replace("=", " = ") for name in table.columns)]
        rows = [[str(term), *(number(float(value)) for value in line)] for term, *line in table.itertuples()]
        if self.wanted:
            rows = [[term, "" if wanted == "nan" else wanted, *line] for term, wanted, *line in rows]
        aligns = "lr"
        if self.labels:
            headers, aligns = ["", "term", *headers[1:]], "llr"
            rows = [[self.labels.get(term, term), term, *line] for term, *line in rows]
        said = [str(each) for each in self.wanted]
        said += [f"epsilon = {epsilon:.3g}: {verdict}" for epsilon, verdict in self.verdicts.items()]
        said += [*self.switches, *([self.ranges] if self.ranges else [])]
        said += [BY_CORRELATION] if self.correlations is not None else []
        verdicts = (element("li", words) for words in said)
        hidden = [f"{self.title}."] if self.declared else []
        words = (f"<ul>{''.join(verdicts)}</ul>", notes([*hidden, self.assumption]))
        badges = ["nothing is spent", f"{self.records} private records{', as declared' if self.declared else ''}"]
        return page("Predicted standard errors", grid(headers, rows, aligns=aligns), *words, badges=badges)


BY_CORRELATION: Final = (
    "They estimate the coefficients of the average person (r = 1), of the average row (r = 0) or between: choose by "
    "what is to be estimated, not by the error."
)


def _side_by_side(spec: ModelSpec, others: Sequence[tuple[float, FitRequest, Prediction]]) -> pd.DataFrame | None:
    """Return what fits with several values of ``correlation=`` would report; None where people have one row."""
    if spec.several is None or not others:
        return None
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "correlation": value,
                    "total": float(replace(spec.several, correlation=value).total),
                    "epsilon": float(request.epsilon),
                    "term": spec.terms,
                    "std_error": found.errors.reported,
                    "private_only": np.hypot(found.errors.sampling, found.errors.privacy),
                }
            )
            for value, request, found in others
        ],
        ignore_index=True,
    )


def _of_rows(frame: pd.DataFrame) -> str:
    """Return errors by coefficient, a column for each correlation at each epsilon."""
    columns = [
        f"r={value:g} (W={total:.3g}), epsilon={epsilon:.3g}"
        for value, total, epsilon in frame[["correlation", "total", "epsilon"]].itertuples(index=False)
    ]
    wide = frame.assign(column=columns).set_index(["term", "column"])["std_error"].unstack()  # noqa: PD010
    wide = wide.loc[frame["term"].drop_duplicates(), list(dict.fromkeys(columns))]
    wide.index.name = wide.columns.name = None
    return wide.T.map(lambda value: f"{value:.4f}").to_string()


NO_BOUND: Final = "People may differ more, or otherwise."


def _range(part: pd.DataFrame) -> tuple[float, float, str] | None:
    """Return between how many times those predicted errors of one epsilon may lie, and whose are the largest.

    Intercepts do not count where there are other coefficients. None where nothing is open.
    """
    slopes = part[~part["term"].map(is_intercept)]
    own = (part if slopes.empty else slopes).set_index("term")
    least, most = own["low"] / own["std_error"], (own["high"] / own["std_error"]).dropna()
    if most.empty or (most.max() == 1.0 and least.min() == 1.0):
        return None
    return float(least.min()), float(most.max()), str(most.idxmax())


def _unlike(ranges: Sequence[ErrorRange | None], *, public: bool) -> str:
    """Return in what private people may be unlike those that a prediction takes, in words; nothing where in nothing."""
    found = [each for each in ranges if each is not None]
    if not found:
        return ""
    first, ends = found[0], [each.residuals for each in found]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    than, words = "public ones" if public else "those taken here", []
    if first.correlations:
        words.append(f"correlate otherwise (one pair by {MOVED:g})")
    if first.spreads:
        words.append(f"spread {SPREADS[0]:g} to {SPREADS[1]:g} times as much as {than}")
    if first.means:
        words.append(f"have means {AWAY[0]:g} standard deviations away")
    said = [f"private covariates {_or(words)}"] if words else []
    if (least, most) != (1.0, 1.0):
        said.append(f"residuals vary {least:.2g} to {most:.2g} times as much as is taken here")
    return f"If {', or '.join(said)}" if said else ""


def _or(words: Sequence[str]) -> str:
    """Return phrases in a row, the last after an or."""
    return " or ".join(each for each in (", ".join(words[:-1]), words[-1]) if each)


def _verdict(part: pd.DataFrame) -> str:
    noise = float((part["privacy"] ** 2 / part["private_only"] ** 2).median())
    unknown = [str(term) for term in part.loc[part["std_error"].isna(), "term"]]
    named = f"; not predicted to be estimable: {', '.join(unknown)}" if unknown else ""
    mechanism = f"(mechanism {part['mechanism'].iloc[0]})"
    if math.isnan(noise) or len(unknown) == len(part):
        return f"no coefficient is predicted to be estimable {mechanism}"
    words = f"privacy noise is {noise:.0%} of the private estimate's variance {mechanism}{named}"
    if part["public_only"].isna().all() or not part["reported"].all():
        return words
    gain = 1.0 - float((part["std_error"] / part["public_only"]).median())
    if gain < LITTLE:
        than = f"{abs(gain):.0%} {'smaller' if gain > 0 else 'larger'} than public only"
        return f"the private records add next to nothing (standard errors {than}: {DIFFER}); {words}"
    return f"standard errors about {gain:.0%} smaller than from the public rows alone; {words}"


def _assumption(spec: ModelSpec, predictions: Sequence[Prediction]) -> str:
    """Return what predictions rest on, in words."""
    described = all(found.described for found in predictions)
    words = AS_DESCRIBED if spec.assumption == FROM_SCHEMA and described else spec.assumption
    people = predictions[-1].people
    if spec.assumption == FROM_PUBLIC and people is not None and people.spreads_known:
        words = CORRELATIONS_DESCRIBED if people.correlations_known else DESCRIBED
    taken = residual_sd_words(predictions[-1].residual_sds)
    return " ".join(each for each in (words, spec.few_public, taken) if each)


def _share(found: Prediction) -> float:
    """Return the share of what is left of epsilon that is spent on what standard errors rest on."""
    return float(found.for_sandwich or found.mechanism.share or 0)


HESSIAN: Final = "the noisy Hessian that standard errors need"
SANDWICH: Final = "their own Hessians and squared scores"


def _parts(request: FitRequest, found: Prediction) -> list[tuple[float, str]]:
    """Return the parts of an epsilon for what a fit must know of the private people; the largest among sites."""
    whole = {name: request.at(name).epsilon for name in found.sites}
    count = max((site.for_count / whole[name] for name, site in found.sites.items()), default=Fraction(0))
    averages = max((site.for_averages / whole[name] for name, site in found.sites.items()), default=Fraction(0))
    left = max((site.request.epsilon / whole[name] for name, site in found.sites.items()), default=Fraction(1))
    asked = [site.averages for site in found.sites.values() if site.averages is not None]
    what = ["covariates"] * any(each.columns for each in asked) + ["outcome"] * any(each.outcome for each in asked)
    parts = [
        (float(count), "the number of people who count"),
        (float(averages), f"averages of their {' and '.join(what)}"),
        (float(left) * _share(found), SANDWICH if found.for_sandwich else HESSIAN),
    ]
    return [(share, what) for share, what in parts if share]


def _shares(request: FitRequest, found: Prediction) -> str:
    """Say which parts of an epsilon are for what a fit must know of the private people."""
    words = [f"{share:.1%} for {what}" for share, what in _parts(request, found)]
    spent = f"; of epsilon, {' and '.join(words)}" if words else ""
    if found.refusal is not None:
        return f"{spent}; a fit would be refused, as its standard errors would be NaN: {found.refusal}"
    spent += f"; {found.risk}" if found.risk else ""
    return spent if found.reported else f"{spent}; a fit would report no standard errors: se_share=0 buys none"


ACROSS = 3
"""Panels in a row."""


def plot_plan(frame: pd.DataFrame, *, labels: Mapping[str, str] = MappingProxyType({})) -> "Figure":
    """Draw one panel per coefficient: what a fit would report, the private rows alone, the public rows alone.

    The intercept is left out where there are other coefficients; ``labels`` are titles in the place of terms.
    """
    named = list(frame["term"].unique())
    terms = [term for term in named if not is_intercept(term)] or named
    across, down = min(ACROSS, len(terms)), math.ceil(len(terms) / ACROSS)
    figure, panels = pyplot().subplots(
        down, across, figsize=(3.0 * across, 0.6 + 2.3 * down), sharex=True, squeeze=False, layout="constrained"
    )
    for panel, term in zip(panels.flat, terms, strict=False):
        _draw(panel, frame[frame["term"] == term].sort_values("epsilon"))
        panel.set(title=textwrap.fill(labels.get(term, term), 28), xscale="log")
        panel.xaxis.set_major_formatter("{x:g}")
    for panel in panels.flat[len(terms) :]:
        panel.set_axis_off()
    for panel in panels.flat[: len(terms)][-across:]:  # the last ones of their columns
        panel.xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("epsilon (log scale)")
    figure.supylabel("predicted standard error")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    made: Figure = figure
    return made


def _draw(panel: "Axes", part: pd.DataFrame) -> None:
    """Draw the curves of one coefficient; the vertical axis ends where the private rows alone stop mattering."""
    of_private, vermilion = palette()[0], COLOURS[1]
    public = float(part["public_only"].iloc[0])
    known = not math.isnan(public)
    if known:
        panel.axhline(public, color=ink(), linestyle=":", label="public only")
    marker = "o" if len(part) == 1 else None
    panel.plot(
        part["epsilon"], part["private_only"], marker=marker, color=of_private, linestyle="--", label="private only"
    )
    panel.plot(part["epsilon"], part["std_error"], marker=marker, color=vermilion, linewidth=2, label="reported")
    drawn = part[["private_only", "std_error"]].to_numpy()
    largest = float(np.max(drawn[np.isfinite(drawn)], initial=0.0))
    panel.set_ylim(0.0, (1.7 * public if known else 1.1 * largest) or 1.0)
