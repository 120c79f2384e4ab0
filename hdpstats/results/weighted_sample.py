"""Public rows with weights that make them stand for the private ones: charged once, analysed any number of times."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final, runtime_checkable

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats.display import Report, Reported
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import CalibratedWeights, WeightDistribution
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.mechanisms.importance_weights.estimate import DensityRatioWeights
from hdpstats.privacy.budget import Guarantee
from hdpstats.records.arrays import Frame
from hdpstats.records.codec import declare_kinds
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.results import plots, reporting, weighted_tables
from hdpstats.results.facts import SampleFacts
from hdpstats.results.plots import plot_balance
from hdpstats.results.serialization import Saved
from hdpstats.results.weighted_tables import Estimated
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.result import Result

WEIGHT = "weight"
"""The column of weights; ``hdp_weight`` where the schema has a column of that name already."""

declare_kinds(
    WeightDistribution, {each.kind: each for each in (DensityRatioWeights, HistogramWeights, CalibratedWeights)}
)


@runtime_checkable
class FitsWeighted(Protocol):
    """A model that can be fitted to the weighted rows it was opened on."""

    def fit_weighted(self, sample: "WeightedSample") -> "Result":
        """Return the fit."""
        ...


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class WeightedSample(Reported, Saved):
    """Public rows with weights that were released under differential privacy.

    Everything done with `frame` afterwards, in any software, is post-processing: it costs no privacy. The weights carry
    over what the private records say about the chosen columns; a relation to another column is that of the public rows.
    Software that takes ``frame`` knows neither the sampling of the private people nor the noise, so its standard errors
    are not valid: `mean`, `quantile`, `table` and `fit` give valid ones.

    Attributes
    ----------
    rows : DataFrame
        The public rows without their weights.
    schema : Schema
        The declared columns.
    distribution : WeightDistribution
        The weights and the distribution of their errors.
    facts : SampleFacts
        How the weights were made, of which columns.
    queries, releases : tuples
        What was asked of the site and what it answered.
    guarantee : Guarantee
        What all releases together guarantee to every person in the private records.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=2),
    ... )
    >>> sample = hdp.hybrid_weights(study, ["age", "hormon"], epsilon=1)
    >>> list(sample.frame)
    ['age', 'hormon', 'weight']
    >>> sample.mean("hormon").std_error > 0
    True
    """

    _format: ClassVar[int] = 2
    _what: ClassVar[str] = "a weighted sample"

    rows: Frame
    schema: Schema
    distribution: WeightDistribution
    facts: SampleFacts
    queries: tuple[Query, ...]
    releases: tuple[Release, ...]
    guarantee: Guarantee

    def __post_init__(self) -> None:
        """Refuse weights that are not one per row."""
        if self.distribution.weights.shape != (len(self.rows),):
            raise ArgumentError("distribution must have one weight per row", argument="distribution")

    @property
    def weight_name(self) -> str:
        """The name of the column of weights in `frame`."""
        return WEIGHT if WEIGHT not in self.rows else f"hdp_{WEIGHT}"

    @property
    def weights(self) -> "pd.Series[float]":
        """The weights by row; their sum is the number of private records, or what is known of it."""
        return pd.Series(self.distribution.weights, index=self.rows.index, name=self.weight_name, dtype=float)

    @property
    def frame(self) -> pd.DataFrame:
        """The public rows and their weights, a new frame: for any software."""
        return self.rows.assign(**{self.weight_name: self.distribution.weights})

    @property
    def effective_size(self) -> float:
        """Kish's effective size: so many equally weighted rows would give means as precise."""
        return weighted_moments.effective_size(self.distribution.weights)

    @property
    def max_weight(self) -> float:
        """The largest share of one row in the total weight."""
        return float(np.max(self.distribution.weights, initial=0.0) / np.sum(self.distribution.weights))

    @property
    def overlap(self) -> float:
        """One minus the total variation distance between weighted and unweighted public rows: 1 is the same."""
        return weighted_moments.overlap(self.distribution.weights)

    @property
    def ledger_entries(self) -> tuple[LedgerEntry, ...]:
        """Where the custodian's ledger keeps the releases."""
        return tuple(release.entry for release in self.releases if release.entry is not None)

    def mean(self, of: str | Callable[[pd.DataFrame], Any]) -> Estimated:
        """Return the mean of a function of the rows among the private records, estimated, with its standard error.

        Parameters
        ----------
        of
            A column's name, or a function of `frame` that returns a number per row (truth values count as 0 and 1).

        Raises
        ------
        ArgumentError
            If that is not one finite number per row.
        """
        means = weighted_moments.weighted_means(self.distribution, weighted_tables.numbers_of(self.frame, of)[:, None])
        whole = max(float(means.sampling[0, 0] + means.privacy[0, 0]), 0.0)
        return Estimated(
            estimate=float(means.estimates[0]),
            sampling_error=float(np.sqrt(min(max(float(means.sampling[0, 0]), 0.0), whole))),
            std_error=float(np.sqrt(whole)),
        )

    def quantile(
        self, of: str | Callable[[pd.DataFrame], Any], q: float | Iterable[float] = 0.5, alpha: float = 0.05
    ) -> pd.DataFrame:
        """Return quantiles among the private records, estimated.

        One row per probability ``q``: columns q, estimate, std_error, conf_low, conf_high. The limits invert those of
        the distribution function (Woodruff 1952) and are values of public rows, as the estimate is.
        """
        return weighted_tables.quantiles(self.distribution, weighted_tables.numbers_of(self.frame, of), q, alpha=alpha)

    def table(self, *columns: str, alpha: float = 0.05) -> pd.DataFrame:
        """Return how often levels of columns occur, alone or crossed, among the private records, estimated.

        Columns: those named, count, share, std_error (of the share), conf_low, conf_high. For columns with few
        values: categorical or binary ones, or numbers that repeat.
        """
        return weighted_tables.frequencies(self, columns, alpha=alpha)

    def balance(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the shifts that the weights correct, a row per column, for categorical ones a row per level.

        Columns: feature, public (its mean in public rows), private (its mean among private records, estimated),
        difference (of the two, in standard deviations of the public rows), std_error (of that), conf_low, conf_high.
        The weighted columns are listed whose values differ in public rows. Where weights were calibrated to a
        description the last column, uncalibrated, has the weighted means before.
        """
        return weighted_tables.balance(self, alpha=alpha)

    def fit(self, model: Callable[..., Any], formula: str, **options: Any) -> "Result":
        """Fit a model to the weighted rows, with standard errors that count sampling and privacy noise.

        Parameters
        ----------
        model
            A constructor of `hdpstats.formula.api`: ``hdpf.logit``, ``hdpf.hazard``, ...
        formula, **options
            As for that constructor.

        Raises
        ------
        ArgumentError, FormulaError, SchemaError
            As that constructor does, or if the model cannot be fitted to weighted rows.
        """
        opened = model(formula, data=Study(public=self.rows, schema=self.schema), **options)
        if not isinstance(opened, FitsWeighted):
            raise ArgumentError(
                "model must be a constructor of hdpstats.formula.api that fits weighted rows, such as hdpf.logit",
                argument="model",
            )
        return opened.fit_weighted(self)

    def plot_weights(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how much the rows count: the distribution of weights in multiples of the mean weight."""
        return plots.plot_weights(self.distribution.weights, ax=ax)

    def plot_balance(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the shifts that the weights correct: weighted minus unweighted mean of columns in standard deviations.

        Each level of a categorical column has a line of its own. The 95 % intervals count sampling and privacy noise;
        differences within 0.1 are shaded.
        """
        return plot_balance(self.balance(), ax=ax)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write `frame` to a CSV file, numbers to the last digit."""
        self.frame.to_csv(path, index=False)

    def disclosure(self) -> dict[str, Any]:
        """Return the privacy record for an output checker, as JSON values: see `hdpstats.results.Result.disclosure`."""
        return reporting.sample_disclosure(self)

    def _report(self, alpha: float = 0.05) -> Report:
        return weighted_tables.sample_report(self, self.balance(alpha))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        size = f"effective size {self.effective_size:.0f}"
        return f"<weighted sample: {len(self.rows)} public rows, {size}, {self.guarantee}>"
