"""All mechanisms in one list, which fits, plans, sites, JSON and permissions read.

A new mechanism has its own folder, and one entry here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, cast, final

from hdpstats._base.errors import ArgumentError, MechanismError, SiteError
from hdpstats.families.base import PersonLoss
from hdpstats.families.hazard.bounds import hazard_person_loss
from hdpstats.families.multinomial.bounds import multinomial_person_loss
from hdpstats.families.regression.bounds import regression_person_loss
from hdpstats.mechanisms import (
    clipped_newton,
    count,
    description,
    evaluation,
    exponential,
    histogram,
    importance_weights,
    perturbation,
    public_hessian,
    statistics,
    subsample,
    treatment_effect,
)
from hdpstats.mechanisms import hybrid_weights as weights
from hdpstats.mechanisms.base import DistributionMethod, Prepared
from hdpstats.mechanisms.clipped_newton import ClippedNewton
from hdpstats.mechanisms.clipped_newton import site as clipped_newton_site
from hdpstats.mechanisms.count import site as count_site
from hdpstats.mechanisms.description import site as description_site
from hdpstats.mechanisms.evaluation import site as evaluation_site
from hdpstats.mechanisms.exponential import ExponentialMechanism
from hdpstats.mechanisms.exponential import site as exponential_site
from hdpstats.mechanisms.histogram import PerturbedHistogram
from hdpstats.mechanisms.histogram import site as histogram_site
from hdpstats.mechanisms.hybrid_weights import curve_site
from hdpstats.mechanisms.hybrid_weights import site as weights_site
from hdpstats.mechanisms.importance_weights import site as importance_weights_site
from hdpstats.mechanisms.perturbation import ObjectivePerturbation, OutputPerturbation
from hdpstats.mechanisms.perturbation import site as perturbation_site
from hdpstats.mechanisms.public_hessian import PublicHessian
from hdpstats.mechanisms.public_hessian import site as public_hessian_site
from hdpstats.mechanisms.statistics import SufficientStatistics
from hdpstats.mechanisms.statistics import site as statistics_site
from hdpstats.mechanisms.subsample import SubsampleAggregate
from hdpstats.mechanisms.subsample import site as subsample_site
from hdpstats.mechanisms.treatment_effect import site as treatment_effect_site
from hdpstats.privacy.budget import release_replicate
from hdpstats.records import codec
from hdpstats.records.codec import declare_kinds, from_dict
from hdpstats.records.model import AnyModel, HazardModel, MultinomialModel, RegressionModel
from hdpstats.records.query import MechanismOptions, Query, Release
from hdpstats.records.recipe import check_known
from hdpstats.records.several import RoundQuery, RoundRelease, RoundsQuery, RoundsRelease, SitesQuery, SitesRelease
from hdpstats.schema.site_facts import SiteFacts

__all__ = [
    "ClippedNewton",
    "ExponentialMechanism",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PerturbedHistogram",
    "PublicHessian",
    "SubsampleAggregate",
    "SufficientStatistics",
]

HAZARD: Final = frozenset({HazardModel.kind})
REGRESSION: Final = frozenset({RegressionModel.kind})
ANY_MODEL: Final = frozenset({MultinomialModel.kind}) | HAZARD | REGRESSION
DENSITY_RATIO: Final = frozenset({importance_weights.DensityRatioModel.kind})
DISTRIBUTION: Final = frozenset({"distribution"})
NO_MODEL: Final[frozenset[str]] = frozenset()


def _of_model(query: Any) -> str:
    return cast(str, query.model.kind)


@final
@dataclass(frozen=True, slots=True)
class Mechanism:
    """One mechanism.

    Attributes
    ----------
    query : type
        Its query; the query's kind, without the version, is the mechanism's name.
    releases : tuple of type
        What answers the query.
    models : frozenset of str
        The families of models that it fits or reads; none where it has no model.
    prepare : callable
        Takes a query and the facts about a site, and one person's loss between them where the mechanism uses it, and
        returns a `Prepared`.
    uses_person_loss : bool
        Whether the site computes one person's loss under the query's model for it.
    options : type or None
        The options that `fit` takes; None where users do not name the mechanism.
    distribution : DistributionMethod or None
        How it fits a distribution, where it does.
    family : callable
        Returns which of several families the model of a query is of; by default that of its ``model``.
    several_rows : frozenset of str
        The families for which its proof covers people with several rows, where a person's loss is that of all of them.
    columns : callable or None
        Returns the columns that an answer is computed from, from a query and the facts about a site, where they are
        known without `prepare`.
    """

    query: type[Query]
    releases: tuple[type[Release], ...]
    models: frozenset[str]
    prepare: Callable[..., Prepared]
    uses_person_loss: bool = False
    options: type[MechanismOptions] | None = None
    distribution: DistributionMethod | None = None
    family: Callable[[Any], str] = _of_model
    several_rows: frozenset[str] = HAZARD
    columns: Callable[[Any, SiteFacts], tuple[str, ...]] | None = None

    @property
    def name(self) -> str:
        """Its name, as custodians permit it, users choose it and ledgers show it."""
        return name_of(self.query)


def name_of(query: Query | type[Query]) -> str:
    """Return the name of the mechanism that answers a query: the query's kind without its version."""
    return query.kind.partition("/")[0]


def _of_space(query: Any, _: SiteFacts) -> tuple[str, ...]:
    return cast(tuple[str, ...], query.space.names)


def _named(query: Any, _: SiteFacts) -> tuple[str, ...]:
    return cast(tuple[str, ...], query.names)


def _of_ratio(query: Any, site_facts: SiteFacts) -> tuple[str, ...]:
    return importance_weights_site.ratio_design(query.model, site_facts.schema).needs


MECHANISMS: Final = (
    Mechanism(
        perturbation.ObjectiveQuery,
        (perturbation.ObjectiveRelease,),
        ANY_MODEL,
        perturbation_site.prepare_objective,
        uses_person_loss=True,
        several_rows=ANY_MODEL,
        options=ObjectivePerturbation,
    ),
    Mechanism(
        perturbation.OutputQuery,
        (perturbation.OutputRelease,),
        ANY_MODEL,
        perturbation_site.prepare_output,
        uses_person_loss=True,
        several_rows=ANY_MODEL,
        options=OutputPerturbation,
    ),
    Mechanism(
        clipped_newton.ClippedNewtonQuery,
        (clipped_newton.ClippedNewtonRelease,),
        ANY_MODEL,
        clipped_newton_site.prepare,
        uses_person_loss=True,
        several_rows=ANY_MODEL,
        options=ClippedNewton,
    ),
    Mechanism(
        public_hessian.PublicHessianQuery,
        (public_hessian.PublicHessianRelease,),
        REGRESSION,
        public_hessian_site.prepare,
        uses_person_loss=True,
        options=PublicHessian,
    ),
    Mechanism(
        exponential.ExponentialQuery,
        (exponential.ExponentialRelease,),
        ANY_MODEL,
        exponential_site.prepare,
        uses_person_loss=True,
        options=ExponentialMechanism,
    ),
    Mechanism(
        histogram.HistogramQuery,
        (histogram.HistogramRelease,),
        NO_MODEL,
        histogram_site.prepare,
        options=PerturbedHistogram,
    ),
    Mechanism(
        statistics.StatisticsQuery,
        (statistics.StatisticsRelease,),
        DISTRIBUTION,
        statistics_site.prepare,
        options=SufficientStatistics,
        distribution=statistics_site.METHOD,
    ),
    Mechanism(
        subsample.SubsampleQuery,
        (subsample.SubsampleRelease,),
        DISTRIBUTION,
        subsample_site.prepare,
        options=SubsampleAggregate,
        distribution=subsample_site.METHOD,
    ),
    Mechanism(count.CountQuery, (count.CountRelease,), NO_MODEL, count_site.prepare),
    Mechanism(
        description.DescriptionQuery,
        (description.DescriptionRelease,),
        NO_MODEL,
        description_site.prepare,
        columns=_named,
    ),
    Mechanism(
        evaluation.EvaluationQuery,
        (evaluation.EvaluationRelease,),
        HAZARD | REGRESSION,
        evaluation_site.prepare,
        family=attrgetter("family"),
    ),
    Mechanism(
        importance_weights.ImportanceWeightsQuery,
        (perturbation.ObjectiveRelease, perturbation.OutputRelease),
        DENSITY_RATIO,
        importance_weights_site.prepare,
        columns=_of_ratio,
    ),
    Mechanism(
        treatment_effect.TreatmentEffectQuery,
        (treatment_effect.TreatmentEffectRelease,),
        NO_MODEL,
        treatment_effect_site.prepare,
        columns=_named,
    ),
    Mechanism(
        weights.NeighboursQuery,
        (weights.NeighboursRelease,),
        NO_MODEL,
        weights_site.prepare_neighbours,
        columns=_of_space,
    ),
    Mechanism(
        weights.SelectionQuery, (weights.SelectionRelease,), NO_MODEL, weights_site.prepare_selection, columns=_of_space
    ),
    Mechanism(weights.LossSelectionQuery, (weights.SelectionRelease,), REGRESSION, weights_site.prepare_loss),
    Mechanism(
        weights.DistanceQuery, (weights.DistanceRelease,), NO_MODEL, weights_site.prepare_distance, columns=_of_space
    ),
    Mechanism(weights.CurveQuery, (weights.CurveRelease,), REGRESSION, curve_site.prepare),
)
"""All mechanisms. Two entries answer a choice: by distance, and by loss."""

BY_NAME: Final[Mapping[str, type[MechanismOptions]]] = MappingProxyType(
    {each.name: each.options for each in MECHANISMS if each.options is not None}
)
"""The options of mechanisms by the names that `fit` takes."""

FAMILIES: Final = {each.name: each.models for each in MECHANISMS}
"""The families of models that each mechanism fits or reads."""

_BY_QUERY: Final = {each.query: each for each in MECHANISMS}

_QUERIES: Final = {each.query.kind: each.query for each in MECHANISMS}
_RELEASES: Final = {each.kind: each for known in MECHANISMS for each in known.releases}

declare_kinds(Query, _QUERIES | {each.kind: each for each in (SitesQuery, RoundsQuery)})
declare_kinds(Release, _RELEASES | {each.kind: each for each in (SitesRelease, RoundsRelease)})
declare_kinds(RoundQuery, {kind: each for kind, each in _QUERIES.items() if issubclass(each, RoundQuery)})
declare_kinds(RoundRelease, {kind: each for kind, each in _RELEASES.items() if issubclass(each, RoundRelease)})


def _several_rows(made: Callable[..., PersonLoss], model: AnyModel, site_facts: SiteFacts) -> PersonLoss:
    """Return the loss of a person with at most so many rows as the site uses of one."""
    if model.first_rows and site_facts.unit is None:
        raise SiteError("the query is about the first rows of people with several; this site's people have one each")
    if model.averaged_rows not in (None, site_facts.most_rows):
        raise SiteError(f"this site averages {site_facts.most_rows} rows of a person, not {model.averaged_rows}")
    several = site_facts.unit is not None and site_facts.most_rows > 1 and not model.first_rows
    if several and model.several_rows is None:
        raise SiteError("this site's people have several rows each: the query must say how rows of a person count")
    if not several and model.several_rows is not None:
        raise SiteError("the query is about people with several rows each; this site uses one row of a person")
    return made(model, site_facts.schema, most_rows=site_facts.most_rows if several else 1)


PERSON_LOSSES: Final[Mapping[str, Callable[[Any, SiteFacts], PersonLoss]]] = MappingProxyType(
    {
        RegressionModel.kind: partial(_several_rows, regression_person_loss),
        MultinomialModel.kind: partial(_several_rows, multinomial_person_loss),
        HazardModel.kind: hazard_person_loss,
    }
)
"""What makes one person's loss of a model at a site, for each family."""


def named(mechanism: object) -> MechanismOptions | None:
    """Return the options of a mechanism given by name or as an object; None where the model is to choose ("auto")."""
    if isinstance(mechanism, MechanismOptions):
        return mechanism
    if isinstance(mechanism, str) and mechanism == "auto":
        return None
    if isinstance(mechanism, str) and mechanism in BY_NAME:
        return BY_NAME[mechanism]()
    names = ", ".join(map(repr, BY_NAME))
    raise MechanismError(
        f"mechanism must be 'auto', {names} or an object of hdp.mechanisms, not {mechanism!r}: these are the ones "
        "whose proofs the package holds",
        available=tuple(BY_NAME),
    )


def prepare(query: Query, site_facts: SiteFacts) -> Prepared:
    """Check everything that can be checked without a row, and fix every constant.

    Raises
    ------
    SiteError, MechanismError, FormulaError, SchemaError
        Where the query does not fit the site, or no proof covers it. Nothing was charged.
    """
    check_kind(query)
    asked: Any = query
    mechanism = _BY_QUERY[type(query)]
    person = (person_loss_of(asked.model, site_facts),) if mechanism.uses_person_loss else ()
    if person and site_facts.unit is not None and asked.model.kind not in mechanism.several_rows:
        raise MechanismError(
            f"{mechanism.name} is not proved for people with several rows in such a model; use mechanism='objective' "
            "or 'output'",
            available=("objective", "output"),
        )
    return mechanism.prepare(asked, *person, site_facts)


def check_kind(query: Query) -> None:
    """Refuse a query that no mechanism answers, of a recipe that is not known, or whose number of the draw is none."""
    if type(query) not in _BY_QUERY:
        raise SiteError(f"this site does not answer {type(query).__name__}")
    check_known(query.recipe)
    release_replicate(query.replicate)


def columns_of(query: Query, site_facts: SiteFacts) -> tuple[str, ...]:
    """Return the declared columns that an answer is computed from, in alphabetical order.

    They are what `prepare` finds, and depend on query and schema alone: no public rows are needed, and no constant.
    """
    asked: Any = query
    mechanism = _BY_QUERY.get(type(query))
    if mechanism is not None and mechanism.columns is not None:
        names = mechanism.columns(query, site_facts)
    elif mechanism is not None and mechanism.uses_person_loss:
        names = person_loss_of(asked.model, site_facts).needs
    else:
        names = prepare(query, site_facts).needs
    return tuple(sorted(names))


def family_of(query: Query) -> str | None:
    """Return the family of the model that a query fits or reads; None where it has none.

    Raises
    ------
    KeyError
        The query is of no mechanism.
    """
    mechanism = _BY_QUERY[type(query)]
    if len(mechanism.models) < 2:
        return next(iter(mechanism.models), None)
    return mechanism.family(query)


def is_listed(query: Query, needs: Collection[str], listed: Mapping[str, Collection[str] | None]) -> bool:
    """Whether a query, and the columns that it needs, are among listed ``mechanisms``, ``models`` and ``columns``.

    None stands for all of them, and a mechanism without a model is among those of any.
    """
    family = family_of(query)
    wanted = {"mechanisms": [name_of(query)], "models": [] if family is None else [family], "columns": [*needs]}
    return all(known is None or set(wanted[what]) <= set(known) for what, known in listed.items())


def person_loss_of(model: AnyModel, site_facts: SiteFacts) -> PersonLoss:
    """Return one person's loss under a model, at a site."""
    return PERSON_LOSSES[model.kind](model, site_facts)


def query_from_json(text: str) -> Query:
    """Read a query; raises SiteError when the text is not one."""
    return cast(Query, _read(Query, text))


def release_from_json(text: str) -> Release:
    """Read a release; raises SiteError when the text is not one."""
    return cast(Release, _read(Release, text))


def _read(base: Any, text: str) -> Any:
    what = f"this is not a {base.__name__.lower()} that hdpstats knows"
    try:
        return from_dict(base, codec.loads(text))
    except ArgumentError as error:
        raise SiteError(f"{what}: {error}") from None
    except ValueError:
        raise SiteError(what) from None


def __dir__() -> list[str]:
    return __all__
