"""The log-rank test of survival curves, with hazard ratios beside it, as an object that shows itself."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from hdpstats.display import Report, Reported, columns, named_values, number, p_value
from hdpstats.public.log_rank import LogRank
from hdpstats.results.description_tables import frame_of
from hdpstats.results.tables import normal_quantile

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
        return f"<{self.method} test: chi-square {self.statistic:.3g} on {self.df}, p {p_value(self.p_value)}>"
