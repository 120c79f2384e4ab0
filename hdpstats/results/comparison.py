"""A result beside a reference: estimates and standard errors term by term, from any software.

Terms are matched by name; what does not mean the same in both models is left out. Names here, in R and in patsy are
brought to one form:

========================================= ==================================== =====================
here                                      R                                    form
========================================= ==================================== =====================
``Intercept``                             ``(Intercept)``                      ``Intercept``
``size[T.20-50]``, ``C(size)[T.20-50]``   ``size20-50``, ``factor(size)20-50`` ``size20-50``
``bs(age, knots=[40, 60])[2]``            ``bs(age, knots = c(40, 60))2``      ``bs(age,knots=40,60)2``
``I(age**2):size[T.>50]``                 ``I(age^2):size>50``                 ``I(age^2):size>50``
``interval[3]``                           ``factor(interval)3``                ``interval3``
========================================= ==================================== =====================
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.display import Report, Reported, columns, named_values, number
from hdpstats.losses import LINKS
from hdpstats.records.estimate import Estimate
from hdpstats.results import plots
from hdpstats.results.facts import HazardFacts, ModelFacts, covariates
from hdpstats.results.tables import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.result import Result

_TITLE: Final = "A result and its reference"
_BASELINE_SHOWN: Final = 12
_SHOWN: Final = {
    "estimate": "coef",
    "std_error": "std err",
    "reference_estimate": "ref coef",
    "reference_std_error": "ref std err",
    "difference": "difference",
    "relative_error": "rel. error",
    "difference_in_se": "diff/ref se",
    "difference_in_both": "diff/both",
}
_NEEDS: Final = ("term", "estimate", "std_error")
_KINDS: Final = {"cox": "Cox model", "hazard": "discrete hazard by glm", "glm": "glm"}


_RULES: Final = (
    (re.compile(r"[\s`]"), ""),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<![\w.])(?:C|factor|as\.factor|ordered)\(([\w.]+)\)"), r"\1"),
    (re.compile(r"(?<![\w.])c\(([^()]*)\)"), r"\1"),
    (re.compile(r"\[(?:T\.)?([^\[\]]*)\]"), r"\1"),
    (re.compile(r"^\(Intercept\)$"), "Intercept"),
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Comparison(Reported):
    r"""Coefficients of a result and of a reference, term by term.

    Attributes
    ----------
    frame : DataFrame
        A row per term that both have: term, estimate, std_error, conf_low, conf_high (95 %), the same four of the
        reference (reference_estimate, ..., normal limits), difference (the result minus the reference),
        relative_error (its size over the reference's), difference_in_se (over the reference's standard error) and
        difference_in_both (over :math:`\sqrt{\mathrm{se}^2 + \mathrm{se}_{ref}^2}`: a z value where the two come from
        different people).
    result_only, reference_only : tuple of str
        The terms that one side lacks, in the names of that side.
    label : str
        What the reference is called.
    formula : str or None
        Its formula, where it has one.
    note : str or None
        Why some terms were not compared, or what the scales are.

    Examples
    --------
    `Result.compare` makes one.

    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90), hormon=hdp.Binary(), event3=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> result = hdpf.logit("event3 ~ age + hormon", data=study).fit_public()
    >>> in_r = pd.DataFrame(
    ...     {"term": ["(Intercept)", "age"], "estimate": [-0.1, -0.003], "std_error": [0.5, 0.01]}
    ... )
    >>> found = result.compare(in_r)
    >>> found.frame["term"].tolist(), found.result_only, found.reference_only
    (['Intercept', 'age'], ('hormon',), ())
    """

    frame: pd.DataFrame
    result_only: tuple[str, ...]
    reference_only: tuple[str, ...]
    label: str
    formula: str | None
    note: str | None
    _facts: ModelFacts = field(repr=False)
    _estimates: tuple[Estimate, Estimate] = field(repr=False)
    _places: tuple[int, ...] = field(repr=False)

    def tidy(self) -> pd.DataFrame:
        """Return `frame`, a new one: a row per term that both have."""
        return self.frame.copy()

    def glance(self) -> pd.DataFrame:
        """Return one row: reference, terms, relative_error."""
        return pd.DataFrame(
            {"reference": [self.label], "terms": [len(self.frame)], "relative_error": [self.relative_error]}
        )

    @property
    def relative_error(self) -> float:
        r"""The relative error of the vector, :math:`\|a - b\| / \|b\|`, over the terms with two finite numbers."""
        both = self.frame[["estimate", "reference_estimate"]].to_numpy(dtype=np.float64)
        a, b = both[np.isfinite(both).all(axis=1)].T
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        headers, (terms, rows) = list(_SHOWN.values()), self._cells()
        side_by_side = [
            [f"{own}\N{NO-BREAK SPACE}({se})", f"{other}\N{NO-BREAK SPACE}({other_se})", difference, *in_errors]
            for own, se, other, other_se, difference, _, *in_errors in rows
        ]
        return Report(
            title=_TITLE,
            blocks=[
                named_values(self._head()),
                columns(headers, terms, rows, only="text"),
                columns(
                    ["result (std err)", "reference (std err)", headers[4], *headers[6:]],
                    terms,
                    side_by_side,
                    only="page",
                ),
            ],
            notes=[
                "diff/ref se: the difference in standard errors of the reference; diff/both: in those of the two "
                "together, a z value where they come from different people.",
                *self._remarks(),
            ],
            badges=[f"relative error {self.relative_error:.2g}", f"{len(self.frame)} terms"],
        )

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return terms and numbers to show, without a baseline that would fill pages."""
        shown = self.frame[self._shown()]
        return shown["term"].tolist(), [[number(value) for value in row] for row in shown[list(_SHOWN)].to_numpy()]

    def _of_covariates(self) -> list[bool]:
        """Return which rows of the frame are of covariates, not of a hazard's baseline."""
        slopes = covariates(self._facts, self._estimates[0])
        return [place in slopes for place in self._places]

    def _shown(self) -> list[bool]:
        """Return which rows of the frame are shown."""
        own = self._of_covariates()
        return own if any(own) and own.count(False) > _BASELINE_SHOWN else [True] * len(own)

    def _head(self) -> list[tuple[str, str]]:
        return [
            ("Result:", f"{self._facts.model}, {self._facts.method}"),
            ("Formula:", self._facts.formula),
            ("Reference:", self.label if self.formula is None else f"{self.label}, {self.formula}"),
            ("Relative error:", f"{number(self.relative_error)} (norm of the difference over norm of the reference)"),
        ]

    def _remarks(self) -> list[str]:
        sides = (("result", self.result_only), ("reference", self.reference_only))
        more = [] if all(self._shown()) else ["The terms of the baseline are in the comparison's frame."]
        alone = [f"In the {side} alone: {', '.join(terms)}." for side, terms in sides if terms]
        return [*more, *alone, *([] if self.note is None else [self.note])]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw both estimates with 95 % intervals: the result's own, and the reference's by the normal distribution.

        The intercept and the baseline of a hazard are left out, unless there is nothing else.

        Raises
        ------
        HdpError
            If matplotlib is not installed.
        """
        own = zip(self._places, self._of_covariates(), strict=True)
        places = [place for place, of_covariate in own if of_covariate] or list(self._places)
        return plots.plot_coefficients(self._estimates, places, label="coefficient", exponentiate=False, ax=ax)

    def __repr__(self) -> str:
        return f"<comparison with {self.label}: {len(self.frame)} terms, relative error {self.relative_error:.3g}>"


def compare(fit: "Result", reference: "Result | pd.DataFrame", *, cause: str | None, label: str | None) -> Comparison:
    """Return a result beside a reference; see `hdpstats.results.Result.compare`."""
    other = _table_of(reference, kind=type(fit))
    facts, theirs = other.attrs, other["term"].tolist()
    terms, own = _own_terms(fit, cause, theirs)
    paired = {own[ours]: place for ours, place in match([terms[place] for place in own], theirs).items()}
    note, kept = _comparable(fit, facts, paired)
    if not kept:
        raise ArgumentError(
            f"reference has no term in common with the result, whose terms are {_some(terms)}; it has {_some(theirs)}",
            argument="reference",
        )
    name = label or facts["label"]
    aligned = np.full((len(terms), 2), np.nan)
    aligned[list(kept)] = other[["estimate", "std_error"]].to_numpy()[list(kept.values())]
    beside = Estimate(
        label="reference" if name == fit.estimate.label else name,
        terms=fit.estimate.terms,
        values=aligned[:, 0],
        sampling=np.diag(aligned[:, 1] ** 2),
        privacy=np.zeros((len(terms), len(terms))),
    )
    places = list(kept)
    return Comparison(
        frame=_differences(fit.estimate, beside, places, [terms[place] for place in places]),
        result_only=tuple(terms[place] for place in own if place not in kept),
        reference_only=tuple(term for place, term in enumerate(theirs) if place not in kept.values()),
        label=name,
        formula=facts["formula"],
        note=note,
        _facts=fit.facts,
        _estimates=(fit.estimate, beside),
        _places=tuple(places),
    )


def _differences(ours: Estimate, other: Estimate, places: list[int], terms: list[str]) -> pd.DataFrame:
    names = ["estimate", "std_error", "conf_low", "conf_high"]
    own, theirs = (tidy(each).loc[places, names].reset_index(drop=True) for each in (ours, other))
    difference, errors = own["estimate"] - theirs["estimate"], theirs["std_error"]
    return pd.concat([pd.Series(terms, name="term"), own, theirs.add_prefix("reference_")], axis=1).assign(
        difference=difference,
        relative_error=difference.abs() / theirs["estimate"].abs(),
        difference_in_se=difference / errors,
        difference_in_both=difference / np.sqrt(own["std_error"] ** 2 + errors**2),
    )


def _own_terms(fit: "Result", cause: str | None, theirs: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the result's terms, one cause's without its prefix, and the places of those that are compared."""
    terms, causes = list(fit.estimate.terms), () if fit.facts.hazard is None else fit.facts.hazard.causes
    if cause is not None and cause not in causes:
        raise ArgumentError(
            f"cause must be one of {', '.join(causes)}" if causes else "cause is for hazard models", argument="cause"
        )
    if len(causes) < 2 or (cause is None and match(terms, theirs)):
        return terms, list(range(len(terms)))
    if cause is None:
        raise ArgumentError(
            f"cause must say which of {', '.join(causes)} the reference is a model of", argument="cause"
        )
    prefix = f"{cause}: "
    places = [place for place, term in enumerate(terms) if term.startswith(prefix)]
    return [term.removeprefix(prefix) for term in terms], places


def _comparable(
    fit: "Result", other: Mapping[Any, Any], paired: Mapping[int, int]
) -> tuple[str | None, dict[int, int]]:
    """Return which pairs mean the same, and a note about the others; a baseline does only on the same time axis."""
    hazard = fit.facts.hazard
    if hazard is None:
        return None, dict(paired)
    slopes = set(covariates(fit.facts, fit.estimate))
    reason = _other_axis(hazard, other, any(place not in slopes for place in paired))
    if reason is None:
        return None, dict(paired)
    return f"Covariates only are compared: {reason}.", {ours: paired[ours] for ours in paired if ours in slopes}


def _other_axis(hazard: HazardFacts, other: Mapping[Any, Any], has_baseline: bool) -> str | None:
    """Return why the two baselines do not mean the same, or None."""
    if other["model"] == "cox":
        return (
            "the partial likelihood of a Cox model leaves the baseline hazard out; its coefficients are log hazard "
            f"ratios of continuous time; {LINKS[hazard.link].hazard_ratios}"
        )
    if other["link"] not in (None, hazard.link):
        return f"the links are {hazard.link} here and {other['link']} there, and the scales of coefficients differ"
    if other["cuts"] not in (None, hazard.grid.cuts):
        return "the reference's baseline is on other intervals"
    return None if has_baseline else "the reference has no baseline hazard, or one of another form"


def _table_of(reference: object, *, kind: "type[Result]") -> pd.DataFrame:
    """Return terms, estimates and standard errors, of a result or a tidy data frame, broom's ``std.error`` included.

    Its ``attrs`` have what is known of the model: model, formula, link, cuts, label; refuse another object.
    """
    if isinstance(reference, kind):
        facts, hazard, table = reference.facts, reference.facts.hazard, tidy(reference.estimate)
        table.attrs |= {
            "label": f"{facts.model}, {reference.estimate.label}",
            "formula": facts.formula,
            "model": facts.model,
            "link": None if hazard is None else hazard.link,
            "cuts": None if hazard is None else hazard.grid.cuts,
        }
        return table
    if not isinstance(reference, pd.DataFrame):
        raise ArgumentError(
            f"reference must be a Result or a data frame with the columns {', '.join(_NEEDS)}, not "
            f"{type(reference).__name__}",
            argument="reference",
        )
    named = reference.rename(columns={"std.error": "std_error"})
    missing = [name for name in _NEEDS if list(named.columns).count(name) != 1]
    if missing:
        raise ArgumentError(f"reference must have one column {missing[0]!r}; a row per term", argument="reference")
    if not all(isinstance(term, str) for term in named["term"]) or not named["term"].is_unique:
        raise ArgumentError("reference must name every term once, by a text", argument="reference")
    table = named[["term"]].assign(**{name: _numbers(named, name) for name in ("estimate", "std_error")})
    model, formula, link, cuts = (reference.attrs.get(name) for name in ("model", "formula", "link", "cuts"))
    table.attrs |= {
        "label": _KINDS.get(str(model), "reference"),
        "formula": None if formula is None else str(formula),
        "model": model,
        "link": link if model == "hazard" else None,
        "cuts": None if cuts is None else tuple(cuts),
    }
    return table


def _numbers(frame: pd.DataFrame, name: str) -> FloatArray:
    try:
        return np.asarray(pd.to_numeric(frame[name]), dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"reference must have numbers in the column {name!r}", argument="reference") from None


def _some(terms: Sequence[str], most: int = 8) -> str:
    return ", ".join([*terms[:most], *(["..."] if len(terms) > most else [])])


def plain_name(term: str) -> str:
    """Return the form of a name that it shares with those of other software.

    >>> plain_name("factor(size)20-50"), plain_name("C(size)[T.20-50]")
    ('size20-50', 'size20-50')
    """
    for pattern, replacement in _RULES:
        term = pattern.sub(replacement, term)
    return term


def match(ours: Sequence[str], others: Sequence[str]) -> dict[int, int]:
    """Return for places of ``ours`` the places of the same terms among ``others``.

    A term is the same if its name is, or else its `plain_name` where no other term has it on either side. R's name of
    a truth value, ``hormonTRUE``, is that of the column.

    >>> match(["Intercept", "size[T.b]", "hormon"], ["(Intercept)", "hormonTRUE", "age"])
    {0: 0, 2: 1}
    """
    partner = _same(list(ours), list(others))
    left, right = [plain_name(term) for term in ours], [plain_name(term) for term in others]
    for names in (right, [re.sub(r"TRUE(?=:|$)", "", name) for name in right]):
        taken = set(partner.values())
        free = [None if place in partner else name for place, name in enumerate(left)]
        partner |= _same(free, [None if place in taken else name for place, name in enumerate(names)])
    return dict(sorted(partner.items()))


def _same(ours: Sequence[str | None], others: Sequence[str | None]) -> dict[int, int]:
    """Return the places of equal names, of which each side has one."""
    once, twice = Counter(ours), Counter(others)
    places = {name: place for place, name in enumerate(others)}
    return {
        place: places[name]
        for place, name in enumerate(ours)
        if name is not None and once[name] == 1 and twice[name] == 1
    }
