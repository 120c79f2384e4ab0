"""The log-rank test of survival curves, with hazard ratios beside it, as an object that shows itself."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import choice
from hdpstats.display import Report, Reported, columns, named_values, number, p_equals, p_value
from hdpstats.public.log_rank import LogRank, log_hazard_ratios
from hdpstats.results.curve_tables import check_groups
from hdpstats.results.description_tables import frame_of, group_labels
from hdpstats.results.group_curves import GroupCurve
from hdpstats.results.tables import normal_quantile

if TYPE_CHECKING:
    from hdpstats.results.survival_curves import SurvivalCurves

NOISE = "The variance of the score counts sampling and privacy noise; the score is compared with a normal distribution."
PUBLIC = "Public rows: the exact test, without noise."


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class LogRankTest(Reported):
    """A test that all groups have the same hazards. `SurvivalCurves.logrank_test` makes one.

    Attributes
    ----------
    groups : tuple of str
        The groups that were compared.
    left_out : tuple of str
        Groups that are too small for the noise, and strata in which a group is.
    method : str
        "logrank" or "peto".
    strata : tuple of str
        The columns of strata.
    result : LogRank
        Statistic, degrees of freedom, p-value, observed and expected events.
    log_hazard_ratios : (G - 1,) float64
        Of each group against the first one.
    covariance : (G - 1, G - 1) float64
        Their covariance.
    private : bool
        Whether there is noise.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> import hdpstats.formula.api as hdpf
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), hormon=hdp.Binary())
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> test = hdpf.survfit("Surv(time, event) ~ hormon", study).fit_public().logrank_test()
    >>> test
    <logrank test: chi-square 8.56 on 1, p = 0.003>
    >>> test.hazard_ratios()["estimate"].round(2).tolist()
    [0.69]
    """

    groups: tuple[str, ...]
    left_out: tuple[str, ...]
    method: str
    strata: tuple[str, ...]
    result: LogRank
    log_hazard_ratios: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
    covariance: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
    private: bool

    @property
    def statistic(self) -> float:
        """The chi-square statistic."""
        return self.result.statistic

    @property
    def df(self) -> int:
        """Its degrees of freedom."""
        return self.result.df

    @property
    def p_value(self) -> float:
        """The probability of a larger statistic under equal hazards."""
        return self.result.p_value

    @property
    def power_kept(self) -> float:
        """The share of the information that noise leaves: the mean over groups of sampling over all variance."""
        sampling, noise = np.diag(self.result.sampling), np.diag(self.result.noise)
        return float(np.mean(sampling / (sampling + noise)))

    @property
    def table(self) -> pd.DataFrame:
        """Observed and expected events, weighted as the test weighs them: group, observed, expected, std_error."""
        error = np.sqrt(np.diag(self.result.sampling + self.result.noise))
        rows = zip(self.groups, self.result.observed, self.result.expected, error, strict=True)
        return frame_of(list(rows), texts=("group",), numbers=("observed", "expected", "std_error"))

    def hazard_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the hazard ratio of each group against the first one, where hazards are proportional.

        Columns: contrast, estimate, std_error (of its logarithm), conf_low, conf_high. NaN where the noise leaves none.
        """
        z, beta, error = normal_quantile(alpha), self.log_hazard_ratios, np.sqrt(np.diag(self.covariance))
        names = [f"{group} / {self.groups[0]}" for group in self.groups[1:]]
        rows = zip(names, np.exp(beta), error, np.exp(beta - z * error), np.exp(beta + z * error), strict=True)
        return frame_of(list(rows), texts=("contrast",), numbers=("estimate", "std_error", "conf_low", "conf_high"))

    def tidy(self) -> pd.DataFrame:
        """Return one row: method, statistic, df, p_value."""
        return pd.DataFrame(
            {"method": [self.method], "statistic": [self.statistic], "df": [self.df], "p_value": [self.p_value]}
        )

    def _report(self, alpha: float = 0.05) -> Report:
        name = "Log-rank test" if self.method == "logrank" else "Peto-Peto test"
        by = f", stratified by {' and '.join(self.strata)}" if self.strata else ""
        head = [
            ("Chi-square:", f"{number(self.statistic, 2)} on {self.df} degrees of freedom"),
            ("p:", p_value(self.p_value)),
        ]
        if self.private:
            head.append(("Information kept:", f"{self.power_kept:.0%} in spite of the noise"))
        if self.left_out:
            reason = "too few people for the noise" if self.private else "no people"
            head.append(("Left out:", f"{', '.join(self.left_out)}: {reason}"))
        table, ratios = self.table, self.hazard_ratios(alpha)
        shown = [[f"{row.observed:.1f}", f"{row.expected:.1f}", f"{row.std_error:.1f}"] for row in table.itertuples()]
        of_ratios = [
            [number(row["estimate"], 3), f"[{number(row['conf_low'], 3)}, {number(row['conf_high'], 3)}]"]
            for row in ratios.to_dict("records")
        ]
        return Report(
            title=f"{name}{by}",
            blocks=[
                named_values(head),
                columns(["observed", "expected", "std error"], list(self.groups), shown, title="Events"),
                columns(["hazard ratio", f"{1.0 - alpha:.0%} limits"], list(ratios["contrast"]), of_ratios,
                        title="If hazards are proportional"),
            ],
            notes=[NOISE if self.private else PUBLIC],
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.method} test: chi-square {self.statistic:.3g} on {self.df}, {p_equals(self.p_value)}>"


def logrank_test(
    curves: "SurvivalCurves", method: str, *, strata: str | Sequence[str] | None, source: str | None
) -> LogRankTest:
    """Return the test of curves; see `hdpstats.results.SurvivalCurves.logrank_test`."""
    kind = choice(method, name="method", options=("logrank", "peto"))
    check_groups(curves.groups)
    by = curves.strata if strata is None else (strata,) if isinstance(strata, str) else tuple(strata)
    names, within, table = _by_stratum(curves, list(curves.curves(source)), by)
    known = np.array([[curve.known for curve in row] for row in table])
    kept = np.flatnonzero(known.any(axis=0))
    private = (source or curves.source) == "private"
    full = np.flatnonzero(known[:, kept].all(axis=1) | (not private))
    if len(kept) < 2 or not len(full):
        enough = "that are large enough for the noise" if private else "with people"
        raise ArgumentError(f"logrank_test needs two groups {enough}", argument="self")
    chosen = [[table[row][place] for place in kept] for row in full]
    score, scale = type(chosen[0][0]).score, chosen[0][0].weight
    beta, covariance = log_hazard_ratios(lambda b: score(chosen, peto=False, beta=b), len(kept))
    without = [names[place] for place in range(len(names)) if place not in kept]
    return LogRankTest(
        groups=tuple(names[place] for place in kept),
        left_out=(*without, *(within[row] for row in range(len(within)) if row not in full)),
        method=kind,
        strata=by,
        result=score(chosen, peto=kind == "peto", beta=None).scaled(scale).test(),
        log_hazard_ratios=beta,
        covariance=covariance,
        private=private,
    )


def _by_stratum(
    curves: "SurvivalCurves", found: Sequence[GroupCurve], by: tuple[str, ...]
) -> tuple[list[str], list[str], list[list[GroupCurve]]]:
    """Return what groups and strata are called, and the curves: a row for each stratum."""
    for each in by:
        choice(each, name="strata", options=curves.grouping)
    others = [name for name in curves.grouping if name not in by]
    if not others:
        raise ArgumentError("groups to compare are needed besides strata: write arm + strata(sex)", argument="strata")
    sizes = [len(curves.levels(name)) for name in curves.grouping]
    order = [curves.grouping.index(name) for name in (*by, *others)]
    within = list(itertools.product(*(curves.levels(name) for name in by)))
    places = np.arange(len(found)).reshape(sizes).transpose(order).reshape(len(within), -1)
    names = [str(label) for label in group_labels(others, curves.schema)]
    strata = [", ".join(f"{name}={label}" for name, label in zip(by, each, strict=True)) for each in within]
    return names, strata, [[found[place] for place in row] for row in places.tolist()]
