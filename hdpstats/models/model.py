"""What every model does: plan, fit, and fit public rows alone; by which mechanisms, and which where none is named."""

import warnings
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, ParamSpec, Self

import numpy as np

from hdpstats._base.errors import ArgumentError, HdpWarning, MechanismError
from hdpstats._base.progress import progress
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import truth
from hdpstats.describe.description import Description
from hdpstats.display import Report, named_values
from hdpstats.families.distribution.spec import DistributionSpec
from hdpstats.families.spec import ModelSpec
from hdpstats.mechanisms.registry import BY_NAME
from hdpstats.models.distribution import OF_DISTRIBUTIONS
from hdpstats.models.fit_mechanism import FitMechanism, Prediction
from hdpstats.models.histogram import NoisyHistogram
from hdpstats.models.plan import CANDIDATES, Plan, Wanted, checked_wanted, expected_of, smallest_epsilons
from hdpstats.models.points import Exponential, Objective, Output
from hdpstats.models.private_result import public_adjustment
from hdpstats.models.public_hessian import PublicHessianNewton
from hdpstats.models.request import ONLY, FitRequest, fit_request
from hdpstats.models.rounds import NoisyNewton
from hdpstats.models.weighted import fit_weighted
from hdpstats.privacy.budget import epsilons_of
from hdpstats.privacy.sensitivity import Relation
from hdpstats.records import recipe
from hdpstats.records.estimate import Estimate
from hdpstats.records.query import MechanismOptions
from hdpstats.results import FittedRows, Result, WeightedSample
from hdpstats.results.propensity import check_of_these_people
from hdpstats.results.sites import Released
from hdpstats.sites.recipes import in_its_recipe
from hdpstats.sites.study import people_of

P = ParamSpec("P")

ORDINARY = 2.0
"""Up to how many times sampling error, at the median coefficient, objective perturbation is taken in any case.

Clipped scores do not estimate what the ordinary fit does where the model is not exactly true, however many people there
are, and their standard errors do not allow for it. Where noise no more than doubles the standard error the coefficients
of the ordinary fit are worth their price. The median, as coefficients of intervals in which hardly anybody is left may
be mostly noise at any number of people.
"""


_OF_LOSSES: Final[tuple[FitMechanism, ...]] = (
    Objective(),
    Output(),
    Exponential(),
    NoisyNewton(),
    PublicHessianNewton(),
    NoisyHistogram(),
)

OF_LOSSES: Final = {each.options: each for each in _OF_LOSSES}
"""What fits regressions and hazard models, by the options that users give."""


def mechanisms_of(spec: ModelSpec) -> Mapping[type[MechanismOptions], FitMechanism]:
    """Return what fits a model, by the options that users give."""
    return OF_DISTRIBUTIONS if spec.kind == DistributionSpec.kind else OF_LOSSES


def mechanism_of(spec: ModelSpec, options: MechanismOptions) -> FitMechanism:
    """Return the mechanism of options, or raise MechanismError where it does not fit such models."""
    known = mechanisms_of(spec)
    if type(options) not in known:
        names = tuple(name for name, kind in BY_NAME.items() if kind in known)
        raise MechanismError(
            "this mechanism is for distributions, hdpf.distribution('x ~ 1', ...), not for regressions"
            if known is OF_LOSSES
            else f"a family of distributions takes mechanism {' or '.join(map(repr, names))}, not one for regressions",
            available=names,
        )
    if spec.several is not None and type(options) in OF_ONE_ROW:
        (name,) = (name for name, kind in BY_NAME.items() if kind is type(options))
        raise MechanismError(
            f"{name} has no proof for people with several rows: {OF_ONE_ROW[type(options)]}; use "
            "mechanism='objective', 'output' or (with public people) 'clipped_newton'",
            available=("objective", "output", "clipped_newton"),
        )
    if spec.overlap is not None and type(options) in (NoisyNewton.options, *OF_ONE_ROW):
        (name,) = (name for name, kind in BY_NAME.items() if kind is type(options))
        raise MechanismError(
            f"{name} does not count people weighted by their chance of treatment (weighting=), nor errors that the "
            "propensity model has a part in; use mechanism='objective' or 'output'",
            available=("objective", "output"),
        )
    return known[type(options)]


def check_weighting(spec: ModelSpec, description: object) -> None:
    """Refuse a fit or a plan to people who are weighted by the coefficients of others."""
    if spec.overlap is None:
        return
    check_of_these_people(spec.overlap, spec.study, what="a weighted model")
    if description is not None:
        raise ArgumentError(
            "description must be left out with weighting=: what is known of the private people is what the propensity "
            "model was told of them",
            argument="description",
        )


OF_ONE_ROW: Final[Mapping[type, str]] = {
    PublicHessianNewton.options: "scores are those of cut rows, times a Hessian of public rows that is one for all",
    Exponential.options: "how often proposals are accepted is bounded by the loss of one row",
    NoisyHistogram.options: "a person is counted in the one cell of one row",
}
"""The mechanisms that take one row of a person, each with why."""


def predict(spec: ModelSpec, request: FitRequest, people: Mapping[str, int]) -> Prediction:
    """Return what a fit would report; ``people`` are the numbers of private people by site.

    Everything is computed from public rows and declarations, so that the choice depends on nothing private and costs
    nothing. Without a mechanism in the request one is chosen: objective perturbation, or noisy Newton steps where there
    is a delta, they have a proof, there are public people enough, errors of objective perturbation would be more than
    `ORDINARY` times those of sampling, and theirs are predicted to be smaller (by the factor that the family asks for).
    They are not where what private people who are unlike public ones may do to them (`Prediction.unlike`) exceeds the
    errors of objective perturbation, the allowance for weights of people included: so not with many people.

    Raises
    ------
    MechanismError
        If the request names a mechanism whose errors are not known beforehand, or that has no proof for the model.
    """
    if request.mechanism is not None:
        return _predicted(spec, request.mechanism, request, people)
    first, *others = spec.candidates(request.delta)
    plain = _predicted(spec, first, request, people)
    if not others:
        return plain
    try:
        rounds = _predicted(spec, others[0], request, people)
    except MechanismError:
        return plain
    if plain.errors.against_sampling <= ORDINARY or _exceeds(rounds.unlike, plain):
        return plain
    return rounds if rounds.errors.against_public < spec.clearly * plain.errors.against_public else plain


def _exceeds(unlike: FloatArray | None, plain: Prediction) -> bool:
    """Return whether standard deviations (p,) exceed private errors of a prediction, at the median of those above 0."""
    if unlike is None:
        return False
    ratios = unlike / np.hypot(plain.errors.sampling, plain.errors.privacy)
    return bool(np.nanmedian(ratios[unlike > 0.0]) > 1.0) if np.any(unlike > 0.0) else False


def _predicted(
    spec: ModelSpec, options: MechanismOptions, request: FitRequest, people: Mapping[str, int]
) -> Prediction:
    return mechanism_of(spec, options).plan(spec, options, request, people)


def recommended(spec: ModelSpec, request: FitRequest) -> MechanismOptions:
    """Return the mechanism of a request that names none: the one of smaller predicted errors.

    Nothing is predicted where there is no choice: noisy Newton steps need public people, and are chosen with a delta.
    """
    first, *others = spec.candidates(request.delta)
    if not others:
        return first
    people = {name: site.records for name, site in spec.study.sites.items()}
    return predict(spec, request, people).mechanism


def _by_correlation(
    spec: ModelSpec, requests: Sequence[FitRequest], people: Mapping[str, int]
) -> list[tuple[float, FitRequest, Prediction]]:
    """Return what fits to the average person, as asked and to the average row would report; none for one row each.

    They may estimate different coefficients: predictions stand side by side, and none is chosen by them.
    """
    if spec.several is None:
        return []
    values = sorted({1.0, spec.several.correlation, 0.0}, reverse=True)
    models = [(value, spec.with_correlation(value)) for value in values]
    return [(value, each, predict(model, each, people)) for each in requests for value, model in models]


EPSILONS = (0.1, 0.5, 1.0, 3.0)
"""What a plan is for, unless it is asked for others."""


def warn_of_nan(public: Estimate | None) -> None:
    """Warn of coefficients that public rows alone do not give; nothing private is looked at."""
    if public is not None and public.note is not None and bool(np.isnan(public.values).any()):
        warnings.warn(f"public rows alone: {public.note}", HdpWarning, stacklevel=3)


class Model(ABC):
    """A model that can be planned and fitted. ``fit`` is the call that spends epsilon."""

    _spec: ModelSpec
    _opening: Callable[[], ModelSpec]
    _recipe: int

    def _open(self, opened: Callable[P, ModelSpec], *args: P.args, **options: P.kwargs) -> None:
        """Open the specification, and keep how: under another recipe of queries a fit opens it anew."""
        self._opening, self._recipe = partial(opened, *args, **options), recipe.in_use()
        self._spec = self._opening()

    @classmethod
    def _of(cls, opened: Callable[P, ModelSpec], *args: P.args, **options: P.kwargs) -> Self:
        """Return the model of a specification that is opened with these arguments."""
        model = cls.__new__(cls)
        model._opening, model._recipe = partial(opened, *args, **options), recipe.in_use()
        model._spec = model._opening()  # as many frames below the user as in `_open`: warnings count them
        return model

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._spec.formula}>"

    def _repr_html_(self) -> str:
        spec = self._spec
        rows = [("Formula:", spec.formula), ("Data:", repr(spec.study).strip("<>"))]
        words = [f"{len(spec.terms)} coefficients: {', '.join(spec.terms)}. Nothing was fitted; plan() spends nothing."]
        return Report(title=type(self).__name__, blocks=[named_values(rows)], notes=words).page()

    def plan(
        self,
        epsilon: float | Iterable[float] | Mapping[str, float] | None = None,
        *,
        std_error: Mapping[str, float] | None = None,
        n: int | None = None,
        delta: float = 0,
        mechanism: str | MechanismOptions = "auto",
        se_share: float | str = "auto",
        description: Description | None = None,
        describe: bool = True,
    ) -> Plan:
        """Return predicted standard errors per coefficient and epsilon: from public rows and declarations, for free.

        Parameters
        ----------
        epsilon
            One or several values, 0.1, 0.5, 1 and 3 by default; or what `fit` would be given, one for each site by its
            name.
        std_error
            In place of epsilon: the standard errors that are wanted, by coefficient, such as ``{"age": 0.01}``. The
            plan is for the smallest epsilon (of three digits, up to 50) that reaches each of them; `Plan.wanted` and
            the printed plan say which it is, or what is the best that any epsilon gives. The same at all sites.
        n
            The number of private records, all at one site, where the study has none at hand or does not state it: under
            ``add_or_remove_one`` the plan is for the declared ``n_max`` unless another number is named.
        delta, mechanism, se_share, description, describe
            What `fit` would be given. The columns ``mechanism`` and ``se_share`` of the plan's frame say what it would
            be.

        Raises
        ------
        ArgumentError, MechanismError
            What `fit` would raise, and for mechanisms whose errors are not known beforehand.
        """
        if std_error is not None and epsilon is not None:
            raise ArgumentError("give either epsilon= or std_error=, not both", argument="std_error")
        if n is not None and description is not None:
            raise ArgumentError("n must be left out with a description, which tells it", argument="n")
        check_weighting(self._spec, description)
        records = people_of(self._spec.study, n)
        spec = self._spec if self._spec.study.records else self._spec.planned_for(records)
        warn_of_nan(spec.public_only)
        people = {name: site.records for name, site in spec.study.sites.items()} if n is None else {}

        def predicted(value: float | Fraction | Mapping[str, float]) -> tuple[FitRequest, Prediction]:
            request = fit_request(
                value, delta, mechanism, se_share,
                allow_large_epsilon=True, description=description, describe=describe,
            )  # fmt: skip
            request.check(people)
            return request, predict(spec, request, people or {ONLY: records})

        wanted: tuple[Wanted, ...] = ()
        values: Iterable[float | Fraction | Mapping[str, float]]
        if std_error is not None:
            wanted = smallest_epsilons(
                checked_wanted(std_error, spec.terms), lambda value: expected_of(spec.terms, predicted(value)[1])
            )
            values = sorted({Fraction(str(each.epsilon or float(CANDIDATES[-1]))) for each in wanted})
        elif isinstance(epsilon, Mapping):
            values = [epsilon]
        else:
            values = dict.fromkeys(epsilons_of(EPSILONS if epsilon is None else epsilon))
        found = [predicted(value) for value in progress(list(values), label="plan")]
        return Plan.of(
            spec,
            found,
            records=records,
            declared=n is None and spec.study.relation is Relation.ADD_OR_REMOVE_ONE,
            wanted=wanted,
            others=_by_correlation(spec, [request for request, _ in found], people or {ONLY: records}),
        )

    @in_its_recipe
    def fit(
        self,
        epsilon: float | Mapping[str, float],
        *,
        delta: float = 0,
        mechanism: str | MechanismOptions = "auto",
        se_share: float | str = "auto",
        replicate: int = 1,
        allow_large_epsilon: bool = False,
        description: Description | None = None,
        describe: bool = True,
    ) -> Result:
        """Fit under differential privacy: the call that spends epsilon.

        The same call again returns the stored release for free, and so does the same model written otherwise, with
        another order of terms, reference level, centre or unit; ``replicate=2`` releases an independent one. A call
        that an earlier version was charged for, and that this one would ask otherwise, returns the stored release with
        a warning that names the day (`OlderRecipe`).

        Parameters
        ----------
        epsilon
            What the release may cost each person, from 1e-6 to 50; a dictionary by site where sites differ. A person is
            at one site and is charged there, whatever the number of sites.
        delta
            A small probability with which the bound may fail, for mechanisms that use one; objective and output
            perturbation do where normal noise is the smaller one, and are else pure, which is stronger.
        mechanism
            ``"auto"``, a name (``"objective"``, ``"output"``, ``"clipped_newton"``, ``"public_hessian"``,
            ``"exponential"``) or an object of `hdp.mechanisms`. ``"auto"`` is objective perturbation, or with a delta
            clipped_newton where there are 12 public people per coefficient, noise would more than double the standard
            errors of objective perturbation, and `plan` predicts smaller ones of clipped_newton (of regressions clearly
            smaller).
        se_share
            Share of epsilon, from 0 to 0.9, that is spent on what standard errors rest on. Without public rows that is
            a noisy Hessian. With public rows it is, for regressions of one predictor, noisy sums of the private
            people's own Hessians and squared scores, so that intervals are right also where private people vary
            otherwise than public ones or the model is not exactly true; for other models a noisy Hessian. With public
            rows that tell the curvature ``"auto"`` is a share up to 0.1 for such sums where people and epsilon are so
            many that they make standard errors next to no larger, else 0. Elsewhere it is the share by which the
            standard errors are predicted to be smallest, from public facts only; the summary shows it. Where no share
            is likely to give standard errors, the fit is refused before it is charged. 0 asks for coefficients alone.
        replicate
            Number of the draw.
        allow_large_epsilon
            Allow more than 50, which protects nobody.
        description
            What `hdpstats.api.describe` returned for the columns of the model, with ``complete=True``: it tells how
            many rows are complete, and how private people differ from public ones, at no further charge. Without public
            rows it tells a regression whether, and by which share, standard errors are to be had. The guarantee that
            the result states includes what it cost.
        describe
            Without a description the fit asks for what it needs to know of the private people, with a part of epsilon
            that `plan` and the summary show. False declines: intervals then assume that no cell is missing and
            that covariates are distributed as the public ones; nothing else is asked for standard errors either.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged.
        SiteError
            If the site could not complete the release; the budget stays charged. At several sites: if fewer than the
            study's quorum answered. Those that did not are named in `Result.sites`.

        Examples
        --------
        Another reference level, centre or unit is the same model, which is charged once:

        >>> import hdpstats.api as hdp
        >>> import hdpstats.formula.api as hdpf
        >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), event=hdp.Binary(complete=True))
        >>> people = hdp.datasets.load_gbsg()
        >>> study = hdp.Study(private=people, schema=schema, budget=hdp.Budget(epsilon=1))
        >>> fit = hdpf.logit("event ~ age", study).fit(epsilon=1, se_share=0)
        >>> again = hdpf.logit("event ~ scale(age, mean=50, sd=10)", study).fit(epsilon=1, se_share=0)
        >>> again.release == fit.release, float(study.ledger.spent.epsilon)
        (True, 1.0)
        """
        request = fit_request(
            epsilon,
            delta,
            mechanism,
            se_share,
            replicate=replicate,
            allow_large_epsilon=allow_large_epsilon,
            description=description,
            describe=describe,
        )
        spec = self._spec if self._recipe == recipe.in_use() else self._opening()
        sites = spec.study.sites
        if not sites:
            raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
        request.check(sites)
        check_weighting(spec, description)
        warn_of_nan(spec.public_only)
        options = request.mechanism or recommended(spec, request)
        return mechanism_of(spec, options).fit(spec, options, request)

    def fit_public(self, *, small_sample: bool = False) -> Result:
        """Return the ordinary fit to the public rows alone: no noise, no penalty, no cost.

        It is what R's ``glm``, ``lm``, ``rq``, ``survreg`` or, for hazards, ``glm`` on person-period rows (which are
        never formed) computes. Public rows are used as they are, not clipped to the schema's bounds but for the
        horizon, beyond which everybody is censored; rows with missing values are dropped, as ``glm`` does. A
        coefficient that they do not identify, or whose maximum-likelihood estimate is infinite, is NaN, with a
        `RuntimeWarning`. A private fit has the same numbers in `Result.public_only`.

        Where the study has ``unit=`` regressions are what ``geepack::geeglm`` and statsmodels' ``GEE`` compute with an
        independence working correlation: rows weigh as ``correlation=`` says, and errors are over people (CR0).

        Parameters
        ----------
        small_sample
            Whether errors over people are corrected for few of them: CR2 (Bell and McCaffrey 2002).
        """
        spec = self._spec
        if truth(small_sample, name="small_sample") and spec.several is None:
            raise ArgumentError(
                "small_sample is for regressions of people with several rows: give the study unit= and "
                "max_rows_per_unit= above 1",
                argument="small_sample",
            )
        estimate, people = spec.likelihood(small_sample=small_sample)
        warn_of_nan(estimate)
        facts = spec.facts(spec.classical, records=None, public=people)
        checked = spec.check(facts, estimate.values)
        return Result(
            facts=facts,
            schema=spec.study.schema,
            estimate=estimate,
            released=Released(adjustment=public_adjustment(spec, people)),
            checked=checked,
            public_rows=FittedRows(table=spec.study.public),
        )

    def fit_weighted(self, sample: WeightedSample) -> Result:
        """Return the fit to a weighted public sample that the model was opened on: what ``sample.fit`` calls."""
        return fit_weighted(self._spec, sample)
