"""A result beside a reference: estimates and standard errors term by term, from any software."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

import numpy as np
import pandas as pd

from hdpstats.display import EscapedSummary, grid, notes, number, page, pairs, summary, table
from hdpstats.records.estimate import Estimate
from hdpstats.results import plotting
from hdpstats.results.facts import ModelFacts
from hdpstats.results.page import plain
from hdpstats.results.tables import covariates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Comparison:
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

    @property
    def relative_error(self) -> float:
        r"""The relative error of the vector, :math:`\|a - b\| / \|b\|`, over the terms with two finite numbers."""
        both = self.frame[["estimate", "reference_estimate"]].to_numpy(dtype=np.float64)
        a, b = both[np.isfinite(both).all(axis=1)].T
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    def summary(self) -> EscapedSummary:
        """Return the table in statsmodels' shape; ``print`` shows its text."""
        terms, rows = self._cells()
        body = table(rows, headers=list(_SHOWN.values()), stubs=terms)
        meaning = (
            "diff/ref se: the difference in standard errors of the reference; diff/both: in those of the two together, "
            "a z value where they come from different people."
        )
        return summary(_TITLE, [pairs(self._head()), body], [meaning, *self._remarks()])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Return terms and numbers to show, without a baseline that would fill pages."""
        slopes = self._slopes()
        shown = self.frame if self._is_short() else self.frame[[place in slopes for place in self._places]]
        return shown["term"].tolist(), [[number(value) for value in row] for row in shown[list(_SHOWN)].to_numpy()]

    def _slopes(self) -> set[int]:
        return set(covariates(self._facts, self._estimates[0]))

    def _is_short(self) -> bool:
        slopes = self._slopes().intersection(self._places)
        return not slopes or len(self._places) - len(slopes) <= _BASELINE_SHOWN

    def _head(self) -> list[tuple[str, str]]:
        return [
            ("Result:", f"{self._facts.model}, {self._facts.method}"),
            ("Formula:", self._facts.formula),
            ("Reference:", self.label if self.formula is None else f"{self.label}, {self.formula}"),
            ("Relative error:", f"{number(self.relative_error)} (norm of the difference over norm of the reference)"),
        ]

    def _remarks(self) -> list[str]:
        sides = (("result", self.result_only), ("reference", self.reference_only))
        more = [] if self._is_short() else ["The terms of the baseline are in the comparison's frame."]
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
        slopes = self._slopes()
        places = [place for place in self._places if place in slopes] or list(self._places)
        return plotting.plot_coefficients(self._estimates, places, label="coefficient", exponentiate=False, ax=ax)

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<comparison with {self.label}: {len(self.frame)} terms, relative error {self.relative_error:.3g}>"

    def _repr_html_(self) -> str:
        rows = [
            [term, f"{own}\N{NO-BREAK SPACE}({se})", f"{other}\N{NO-BREAK SPACE}({other_se})", difference, error, in_se]
            for term, (own, se, other, other_se, difference, error, in_se, _) in zip(*self._cells(), strict=True)
        ]
        cells = grid(["", "result", "reference", *list(_SHOWN.values())[4:7]], rows, aligns="lr")
        meaning = "Coefficients (standard errors). diff/ref se: the difference in standard errors of the reference."
        badges = [f"relative error {self.relative_error:.2g}", f"{len(self.frame)} terms"]
        return page(_TITLE, plain(self._head()), cells, notes([meaning, *self._remarks()]), badges=badges)
