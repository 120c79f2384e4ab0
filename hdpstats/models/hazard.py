"""Discrete-time survival analysis on private and public records."""

from collections.abc import Sequence
from typing import Self, final

import numpy as np

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice, real
from hdpstats.families.hazard.spec import HazardSpec
from hdpstats.families.overlap_spec import check_weighted
from hdpstats.families.spec import check_cluster, checked_row_norm, offset_column
from hdpstats.formulas import outcome as features
from hdpstats.formulas.column_space import check_independent
from hdpstats.formulas.compiler import SurvivalDesign, compile_survival
from hdpstats.formulas.knots import with_public_knots
from hdpstats.losses import LINKS
from hdpstats.models.evaluation import evaluate
from hdpstats.models.model import Model
from hdpstats.records.model import TimeGrid
from hdpstats.results import Result
from hdpstats.results.evaluation import Evaluation
from hdpstats.results.propensity import Weighting, checked_weighting
from hdpstats.schema.columns import Categorical, Duration
from hdpstats.schema.schema import Schema, declared_column
from hdpstats.sites import Study
from hdpstats.sites.study import checked_study

SPLINES = {"log_spline": (features.log_spline, 4), "spline": (features.spline, 3)}
"""Smooth baselines, and how many coefficients they have by default."""

MOST_DUMMIES = 100
"""Interval dummies beyond this number are refused: a private fit could not distinguish them."""


def _opened(
    formula: str,
    data: Study,
    *,
    intervals: int | Sequence[float],
    baseline: str,
    df: int | None,
    knots: Sequence[float] | None,
    link: str,
    cap: float | None,
    weights: str | None,
    offset: str | None,
    row_norm: float | None,
    weighting: object,
) -> HazardSpec:
    """Return the specification of a hazard model."""
    design = compile_survival(with_public_knots(formula, checked_study(data).public), data.schema)
    check_independent(design.covariates, data.schema)
    duration = data.schema[design.stop]
    if not isinstance(duration, Duration):
        raise ArgumentError(f"{design.stop} must be declared as Duration(horizon)", argument="formula")
    if weighting is not None and data.unit is not None:
        raise ArgumentError(
            "weighting: hazard models of weighted people are of people with one row, and this study has several rows "
            "of a person (unit=); hdpf.survfit(..., weighting=) has curves of either arm, or give a study with one row "
            "each",
            argument="weighting",
        )
    if data.unit is not None and design.start is None:
        raise ArgumentError(
            "formula must say Surv(start, stop, event) where the study has unit=: people have several rows",
            argument="formula",
        )
    check_cluster(data, design.covariates)
    grid = features.grid_of(intervals, duration)
    shift, overlap = offset_column(data, offset, design.covariates), None
    if weighting is not None:
        overlap = checked_weighting(weighting, data)
        _check_weighted(overlap, data, design, given={"weights": weights, "offset": shift, "row_norm": row_norm})
    A, names = _in_strata(*_baseline(baseline, grid, df=df, knots=knots), design, data.schema)
    return HazardSpec(
        study=data,
        design=design,
        link=choice(link, name="link", options=tuple(LINKS)),
        grid=grid,
        features=A,
        feature_names=names,
        weights=declared_column(data.schema, weights, kind="weight", argument="weights"),
        offset=shift,
        row_norm=checked_row_norm(row_norm, has_public=data.public is not None),
        total=None if cap is None else real(cap, name="cap", lower=1.0, upper=1000.0),
        overlap=overlap,
    )


def _check_weighted(overlap: Weighting, study: Study, design: SurvivalDesign, *, given: dict[str, object]) -> None:
    """Refuse a hazard model that a weighting by propensity is not worked out for."""
    outcome, treatment = [design.stop, design.event], overlap.treatment
    terms = [name for name in design.covariates.needs if name != design.event]
    remedy = f"write Surv({', '.join(outcome)}) ~ {treatment}; hdpf.survfit(..., weighting=) has curves of either arm"
    if design.start is not None:
        raise ArgumentError(
            "weighting is for people who enter at time 0: who enters late was there to be treated, and of those who "
            f"were gone by then the propensity model knows nothing; {remedy}",
            argument="formula",
        )
    if design.strata:
        raise ArgumentError(
            "weighting is for one baseline: the arms are balanced among all people, not in each of strata(); write "
            "factor(x), with x in the propensity model",
            argument="formula",
        )
    if len(design.causes(study.schema)) > 1:
        raise ArgumentError(
            f"weighting is for one kind of event: write Surv({design.stop}, {design.event} == 'level'), which ends "
            "follow-up at others, one model for each; hdpf.survfit(..., weighting=) has cumulative incidences",
            argument="formula",
        )
    check_weighted(overlap, study, outcome=outcome, terms=terms, given=given)


@final
class DiscreteHazard(Model):
    r"""Discrete-time hazard model: the regression for survival times that a few intervals describe.

    Time is cut into intervals at public points. A person who reaches interval ``s`` has the event in it with
    probability

    .. math:: p_s = g^{-1}(A_s'\alpha + x'\beta),

    where ``A_s'alpha`` is the baseline, a smooth function of time or one number per interval, and ``g`` is the link.
    Limits of curves hold as far as the baseline can follow the hazard: see ``df``.
    With ``link="cloglog"`` the coefficients are log hazard ratios, those of a proportional hazards model with grouped
    times (Prentice and Gloeckler 1978); with ``"logit"`` they are log odds ratios of the event in an interval, nearly
    the same where hazards are small.

    ``strata(x)`` in the formula gives each level of ``x`` a baseline of its own, with coefficients
    ``x[level]:baseline[1]``, and the same covariates' coefficients, as in `coxph`.

    Several kinds of event (`Categorical` with the first level for none) give cause-specific hazards, one set of
    coefficients per cause.

    Parameters
    ----------
    formula
        ``"Surv(time, event) ~ terms"``. ``Surv(start, stop, event)`` is for late entry, and for covariates that change:
        then a person has several rows, the study says ``unit=`` and that person is what is protected.
    data
        The study.
    intervals
        How many intervals of equal length there are up to the schema's horizon, or their public cut points.
    baseline
        ``"log_spline"``: a natural cubic spline in the logarithm of time, which follows hazards that rise, fall, or
        rise and then fall (Royston and Parmar 2002); ``"spline"``: one in time, which does not follow what is steep at
        the beginning; ``"dummies"``: one coefficient per interval.
    df, knots
        Of the spline: how many coefficients it has, by default 4 in the logarithm of time and 3 in time, or its knots
        on [0, 1], shares of the intervals. A coefficient more costs a little noise. The more people, the smaller an
        error of the curve's shape shows: `summary` says from when on more coefficients are needed.
    link
        ``"logit"``, ``"cloglog"`` or ``"probit"``.
    cap
        The largest cumulated hazard (in fact, sum of caps) that one person can contribute to a private fit, at
        least 1; chosen from public rows by predicted error, 4 without them. The loss is consistent whatever
        the cap; a smaller one means less noise, and less weight of people whose hazards add up to more.
    weights, offset
        Columns declared as `Weight` and `Offset`.
    row_norm
        A declared bound on the norm of a row whose covariates are scaled to [-1, 1] by their bounds; rows beyond it are
        weighted down. Only without public rows.
    weighting
        What ``hdp.propensity(...).weights("overlap")`` returned: people are weighted by their chance of treatment, and
        the model is a marginal structural one (Hernan, Brumback and Robins 2000), as ``"Surv(time, event) ~ hormon"``:
        its hazard ratio, and curves of `predict_survival`, are those among people whose treatment was in doubt, had all
        of them been in either arm. Terms are the treatment, and covariates of the propensity model, which it may
        interact with; one kind of event, everybody from time 0. Private people alone are fitted; errors are over
        persons, by the equations of both models stacked (`hdpstats.families.hazard.weighted`), and the guarantee counts
        both.

    Raises
    ------
    FormulaError, SchemaError, ArgumentError
        Before anything is charged.

    Notes
    -----
    A duration beyond the horizon is censored there; 0 counts as the first interval. A missing private duration takes
    the schema's `missing`, a missing event counts as none. Rows of one person that overlap are put one after the other,
    an event ends a person's follow-up, and at most `max_rows_per_unit` rows count (`hdpstats.schema.spells`).

    References
    ----------
    Nguyen and Hui (2017), Differentially private regression for discrete-time survival analysis. Tutz and Schmid
    (2016), Modeling Discrete Time-to-Event Data. Royston and Parmar (2002), Flexible parametric proportional-hazards
    and proportional-odds models for censored survival data. Hernan, Brumback and Robins (2000), Marginal structural
    models to estimate the causal effect of zidovudine on the survival of HIV-positive men.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(time=hdp.Duration(2557, unit="days"), event=hdp.Binary(), age=hdp.Continuous(20, 90))
    >>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
    >>> model = DiscreteHazard("Surv(time, event) ~ age", study, intervals=12, link="cloglog")
    >>> model.fit_public().params.index.tolist()
    ['baseline[1]', 'baseline[2]', 'baseline[3]', 'baseline[4]', 'age']
    """

    _spec: HazardSpec

    @forgets_rows
    def __init__(
        self,
        formula: str,
        data: Study,
        *,
        intervals: int | Sequence[float] = 24,
        baseline: str = "log_spline",
        df: int | None = None,
        knots: Sequence[float] | None = None,
        link: str = "logit",
        cap: float | None = None,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        self._open(
            _opened,
            formula,
            data,
            intervals=intervals,
            baseline=baseline,
            df=df,
            knots=knots,
            link=link,
            cap=cap,
            weights=weights,
            offset=offset,
            row_norm=row_norm,
            weighting=weighting,
        )

    @classmethod
    def from_formula(cls, formula: str, data: Study, **options: object) -> Self:
        """Return the model; the same as the constructor, which takes a formula too."""
        try:
            return cls(formula, data, **options)  # type: ignore[arg-type]
        finally:
            del formula, data, options  # in the traceback of an error: arguments in another order, or one misnamed

    def __repr__(self) -> str:
        return f"<DiscreteHazard: {self._spec.formula}, {self._spec.grid.intervals} intervals, {self._spec.link}>"

    def evaluate(
        self,
        result: Result,
        epsilon: float,
        *,
        cause: str | None = None,
        groups: int | None = None,
        times: int | None = None,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Evaluation:
        """Say how a fitted model does on the private people: a release of its own, which spends.

        People are counted with noise by risk group, cut at quantiles of the public people's linear predictors, and by
        when and how their follow-up ended. Concordance, Brier scores and calibration are computed from these counts,
        with errors that include the noise. Each person counts once, whatever the case weights.

        Parameters
        ----------
        result
            What is evaluated: a fit of this model, private or public, on this study or on another with its schema.
        epsilon
            What the release may cost each person, from 1e-6 to 50.
        cause
            Which of several causes; the first by default.
        groups, times
            How many risk groups (2 to 10) and times (1 to 12) to count by; by default more of them the larger epsilon
            and the number of people are.
        replicate, allow_large_epsilon
            As for `fit`.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged: also where the formula has entry times, or people have several rows.
        SiteError
            If the site could not complete the release; the budget stays charged.
        """
        return evaluate(
            self._spec,
            result,
            epsilon,
            cause=cause,
            times=times,
            groups=groups,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
        )


def _in_strata(
    A: FloatArray, names: tuple[str, ...], design: SurvivalDesign, schema: Schema
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of every stratum (G q, G e), those of others 0, and their names."""
    labels = [""]
    for name, _ in design.strata:
        column = schema[name]
        levels = column.levels if isinstance(column, Categorical) else ("0", "1")
        labels = [f"{before}{name}[{level}]:" for before in labels for level in levels]
    if len(labels) * len(names) > MOST_DUMMIES:
        raise ArgumentError(
            f"strata() make {len(labels)} baselines of {len(names)} coefficients; {MOST_DUMMIES} in all are fitted: "
            "use the spline, or strata with fewer levels",
            argument="formula",
        )
    own = np.asarray(np.kron(np.eye(len(labels)), A), dtype=np.float64)
    return own, tuple(f"{label}{name}" for label in labels for name in names)


def _baseline(
    kind: object, grid: TimeGrid, *, df: int | None, knots: Sequence[float] | None
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the features of the baseline (q, e) and their names."""
    name = choice(kind, name="baseline", options=(*SPLINES, "dummies"))
    if name in SPLINES:
        curve, usual = SPLINES[name]
        A = curve(grid, min(usual, grid.intervals) if df is None else df, knots=knots)
        return A, features.spline_names(A.shape[1])
    if grid.intervals > MOST_DUMMIES:
        raise ArgumentError(
            f"baseline='dummies' is for at most {MOST_DUMMIES} intervals, not {grid.intervals}; use the spline",
            argument="baseline",
        )
    return features.dummies(grid), features.dummy_names(grid)
