"""Public rows with weights that make them stand for the private ones: charged once, analysed any number of times.

A weighted sample has means, quantiles, frequencies and shifts as tables, a summary and a page.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, final, runtime_checkable

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import real
from hdpstats.display import Block, Report, Reported, columns, meter, named_values, number, percent, section
from hdpstats.inference import weighted_moments
from hdpstats.inference.weighted_moments import Estimated, WeightDistribution
from hdpstats.mechanisms.histogram.estimate import HistogramWeights
from hdpstats.mechanisms.importance_weights.estimate import DensityRatioWeights
from hdpstats.privacy.budget import Guarantee
from hdpstats.raking.sample_weights import CalibratedWeights
from hdpstats.records.codec import LEFT_OUT, declare_kinds
from hdpstats.records.estimate import normal_quantile
from hdpstats.records.query import LedgerEntry, Query, Release
from hdpstats.records.saved import Frame, Saved
from hdpstats.results import plots, reporting
from hdpstats.results.facts import SampleFacts
from hdpstats.results.labels import labelled
from hdpstats.results.population import FittedRows, Population, rows_of
from hdpstats.results.sites import DescribedCohort, charged_before, cohort_row
from hdpstats.results.summary import guarantee_badges, guarantee_details, guarantee_rows, noisy_number, privacy_blocks
from hdpstats.results.tables import cost_columns
from hdpstats.schema.columns import Categorical
from hdpstats.schema.schema import Schema
from hdpstats.sites import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.result import Result


MOST_LEVELS = 200
"""Combinations of levels that a table may have."""
_SHIFTS: Final = ("feature", "public", "private", "difference", "std_error", "conf_low", "conf_high")
_SHOWN: Final = ("public", "private", "difference", "conf_low", "conf_high")
_ALL_SHOWN: Final = 12
"""Lines of the table of shifts that are shown without opening it."""

OTHER_COLUMNS = (
    "The weights carry over what private records say about these columns; other columns follow only as far as they "
    "depend on these alike in both."
)


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
        What all releases together guarantee to every person in the private records, with those of the description.
    description : DescribedCohort or None
        The description, charged before, that the weights are calibrated to.

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

    _format: ClassVar[int] = 3
    _what: ClassVar[str] = "a weighted sample"

    rows: Frame
    schema: Schema
    distribution: WeightDistribution
    facts: SampleFacts
    queries: tuple[Query, ...]
    releases: tuple[Release, ...]
    guarantee: Guarantee
    description: Annotated[DescribedCohort | None, LEFT_OUT] = None

    def __post_init__(self) -> None:
        """Refuse weights that are not one per row; add to the guarantee what the description cost."""
        if self.distribution.weights.shape != (len(self.rows),):
            raise ArgumentError("distribution must have one weight per row", argument="distribution")
        if self.description is not None:
            object.__setattr__(self, "guarantee", self.description.added_to(self.guarantee, own="the weights"))

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

    def tidy(self) -> pd.DataFrame:
        """Return what the weights change, a row per feature: `balance`."""
        return self.balance()

    def glance(self) -> pd.DataFrame:
        """Return one row: rows, effective_size, overlap, max_weight, epsilon, delta."""
        return pd.DataFrame(
            {
                "rows": [len(self.rows)],
                "effective_size": [self.effective_size],
                "overlap": [self.overlap],
                "max_weight": [self.max_weight],
                **cost_columns(self.guarantee),
            }
        )

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
        means = weighted_moments.weighted_means(self.distribution, numbers_of(self.frame, of)[:, None])
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
        values, level, rows = numbers_of(self.frame, of), real(alpha, name="alpha", lower=0.001, upper=0.999), []
        for each in q if isinstance(q, Iterable) else [q]:
            p = real(each, name="q", lower=0.0, upper=1.0, open_lower=True, open_upper=True)
            rows.append((p, *weighted_moments.weighted_quantile(self.distribution, values, p, alpha=level)))
        return pd.DataFrame(rows, columns=["q", "estimate", "std_error", "conf_low", "conf_high"])

    def table(self, *columns: str, alpha: float = 0.05) -> pd.DataFrame:
        """Return how often levels of columns occur, alone or crossed, among the private records, estimated.

        Columns: those named, count, share, std_error (of the share), conf_low, conf_high. For columns with few
        values: categorical or binary ones, or numbers that repeat.
        """
        z, rows = normal_quantile(alpha), self.rows
        unknown = [name for name in columns if name not in rows]
        if not columns or unknown:
            raise ArgumentError(
                f"columns must be one or more of {', '.join(map(str, rows.columns))}"
                + (f", not {unknown[0]!r}" if unknown else ""),
                argument="columns",
            )
        grouped = rows.groupby(list(columns), observed=True, dropna=False, sort=True)
        if grouped.ngroups > MOST_LEVELS:
            raise ArgumentError(
                f"these columns have {grouped.ngroups} combinations of values in the public rows; a table shows at "
                f"most {MOST_LEVELS}: cut numbers into classes first, or ask for mean() and quantile()",
                argument="columns",
            )
        groups = grouped.ngroup().to_numpy()[:, None] == np.arange(grouped.ngroups)
        means = weighted_moments.weighted_means(self.distribution, groups.astype(np.float64))
        share, error = means.estimates, means.std_errors
        return (
            grouped.size()
            .index.to_frame(index=False)
            .assign(
                count=share * float(np.sum(self.distribution.weights)),
                share=share,
                std_error=error,
                conf_low=np.maximum(share - z * error, 0.0),
                conf_high=np.minimum(share + z * error, 1.0),
            )
        )

    def balance(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the shifts that the weights correct, a row per column, for categorical ones a row per level.

        Columns: feature, public (its mean in public rows), private (its mean among private records, estimated),
        difference (of the two, in standard deviations of the public rows), std_error (of that), conf_low, conf_high.
        The weighted columns are listed whose values differ in public rows. Where weights were calibrated to a
        description the last column, uncalibrated, has the weighted means before.

        With ``m`` the mean and ``s`` the standard deviation of a feature over public rows and ``m_w`` its weighted mean
        the difference is ``(m_w - m) / s``; its standard error is that of ``m_w`` over ``s``: public rows are given.
        """
        z, features = normal_quantile(alpha), _features(self)
        values = np.ascontiguousarray(np.array(list(features.values())).reshape(len(features), len(self)).T)
        public, spread = values.mean(axis=0), np.std(values, axis=0)
        means = weighted_moments.weighted_means(self.distribution, values) if features else None
        private, error = (public, public) if means is None else (means.estimates, means.std_errors)
        difference, half = (private - public) / spread, z * error / spread
        numbers = (public, private, difference, error / spread, difference - half, difference + half)
        table = pd.DataFrame(dict(zip(_SHIFTS, (pd.Series(list(features), dtype=object), *numbers), strict=True)))
        if isinstance(self.distribution, CalibratedWeights):
            table["uncalibrated"] = (
                private if means is None else weighted_moments.weighted_means(self.distribution.base, values).estimates
            )
        return table

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
        table = self.balance()
        labels = {str(name): labelled(str(name), self.schema) for name in table["feature"]}
        return plots.plot_balance(table, ax=ax, labels=labels)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write `frame` to a CSV file, numbers to the last digit."""
        self.frame.to_csv(path, index=False)

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record for an output checker, or a form: see `hdpstats.results.Result.disclosure`."""
        return reporting.sample_disclosure(self) if form is None else reporting.sample_form(self, form, statements)

    def _report(self, alpha: float = 0.05) -> Report:
        return sample_report(self, self.balance(alpha))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        size = f"effective size {self.effective_size:.0f}"
        return f"<weighted sample: {len(self.rows)} public rows, {size}, {self.guarantee}>"


@rows_of.register(WeightedSample)
def _(over: WeightedSample, _fit: "Result", _rows: FittedRows) -> Population:
    weights, *before = over.guarantee.as_parts("the weighted sample averaged over")
    return Population(
        frame=over.rows,
        weights=np.maximum(over.weights.to_numpy(), 0.0),
        words=f"{len(over.rows)} rows of a weighted sample",
        guarantee=over.guarantee,
        rests=(
            (weights, tuple(over.releases)),
            *((each, tuple(charged_before(over.description))) for each in before),
        ),
    )


def numbers_of(frame: pd.DataFrame, of: str | Callable[[pd.DataFrame], Any]) -> FloatArray:
    """Return one finite number per row (n,) from a column's name or a function of the frame."""
    if isinstance(of, str):
        if of not in frame:
            raise ArgumentError(
                f"there is no column {of!r}; the columns are {', '.join(map(str, frame.columns))}", argument="of"
            )
        cells: Any = frame[of]
    elif callable(of):
        cells = of(frame)
    else:
        raise ArgumentError("of must be a column's name or a function of the frame", argument="of")
    try:
        numbers = np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            "of must give numbers; for levels use table(), or compare: lambda d: d.size == '>50'", argument="of"
        ) from None
    if numbers.shape != (len(frame),):
        raise ArgumentError(f"of must give one number per row, ({len(frame)},), not {numbers.shape}", argument="of")
    if not np.isfinite(numbers).all():
        raise ArgumentError("of must give finite numbers; fill what is missing, or leave such rows out", argument="of")
    return numbers


def _features(sample: WeightedSample) -> dict[str, FloatArray]:
    """Return the features (n,) of the weighted columns that vary, an indicator for each level."""
    features: dict[str, FloatArray] = {}
    for name in sample.facts.columns:
        column, cells = sample.schema[name], sample.rows[name]
        if isinstance(column, Categorical):
            features |= {f"{name} = {level}": np.asarray(cells == level, dtype=np.float64) for level in column.levels}
        else:
            features[name] = cells.to_numpy(dtype=np.float64)
    return {name: feature for name, feature in features.items() if np.std(feature) > 0}


def sample_report(sample: WeightedSample, shifts: pd.DataFrame) -> Report:
    """Return the report of a weighted sample: how it was made, its diagnostics, the privacy block, notes.

    ``shifts`` is its `balance`, which a page shows, as it shows diagnostics that are shares as bars.
    """
    facts, weights, rows = sample.facts, sample.distribution.weights, len(sample)
    people = "unknown" if facts.records is None else str(facts.records)
    made = [
        ("Method:", facts.method),
        ("Columns:", facts.formula or ", ".join(facts.columns)),
        ("No. private records:", noisy_number(people, facts.records_sd, complete=bool(facts.complete_rows))),
        ("No. public rows:", str(facts.public_rows)),
    ]
    size, overlap = f"{sample.effective_size:.1f} of {rows}", f"{sample.overlap:.3f}"
    largest = percent(sample.max_weight) if np.sum(weights) > 0 else "none"
    extremes = [
        ("Largest weight:", f"{largest} of the total"),
        ("Rows without weight:", str(int(np.sum(weights <= 0.0)))),
    ]

    def bars() -> str:
        known = meter("Effective size", f"{size} rows", [("filled", sample.effective_size / rows if rows else 0.0)])
        alike = meter("Overlap", f"{overlap} of 1", [("filled", sample.overlap)])
        return section("How precise the weighted rows are", known + alike)

    before = charged_before(sample.description)
    privacy = guarantee_rows(sample.guarantee, sample.releases, before)
    privacy += [] if sample.description is None else [cohort_row(sample.description)]
    alike = ("Overlap:", f"{overlap} (1: weighted and unweighted public rows agree)")
    blocks = [
        named_values(made),
        named_values([("Effective size:", f"{size} public rows"), *extremes, alike], only="text"),
        Block(html=bars),
        named_values(extremes, only="page"),
        *([] if shifts.empty else [_shifts(shifts, sample.schema)]),
        *privacy_blocks(privacy, sample.guarantee, sample.releases, before),
    ]
    return Report(
        title="Weighted public sample, differentially private",
        heading="Weighted public sample",
        blocks=blocks,
        notes=[OTHER_COLUMNS, *facts.notes],
        badges=guarantee_badges(sample.guarantee),
        ending=guarantee_details(sample.guarantee),
    )


def _shifts(balance: pd.DataFrame, schema: Schema) -> Block:
    """Return the table of shifts for a page; a long one is shown when it is asked for."""
    headers = ["public", "private, estimated", "difference in public std dev", "95% interval"]
    cells = [
        [number(public), number(private), f"{difference:+.2f}", f"{low:+.2f} to {high:+.2f}"]
        for public, private, difference, low, high in balance[list(_SHOWN)].itertuples(index=False)
    ]
    names, long = [str(feature) for feature in balance["feature"]], len(balance) > _ALL_SHOWN
    labels = [labelled(name, schema) for name in names]
    return columns(headers, names, cells, title="What the weights change", folded=long, only="page", labels=labels)
