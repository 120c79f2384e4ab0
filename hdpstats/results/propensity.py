"""A private propensity model, and the overlap weights that follow from it: post-processing of what was released."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, HdpWarning
from hdpstats._base.typing import FloatArray
from hdpstats._base.validation import choice
from hdpstats.display import Report, Reported, columns, named_values, p_equals, percent
from hdpstats.formulas import Design
from hdpstats.inference import draws
from hdpstats.inference.draws import Generator
from hdpstats.inference.overlap_errors import DRAWS, WeightedPeople
from hdpstats.mechanisms.description import DescriptionQuery, DescriptionRelease
from hdpstats.mechanisms.description.blocks import numbers_of
from hdpstats.mechanisms.description.moments import moments_of
from hdpstats.privacy.budget import OWN, Guarantee, Part
from hdpstats.raking.rows import raked_rows
from hdpstats.records.estimate import Estimate, HasCoefficients
from hdpstats.records.overlap_weights import OverlapWeights, rounded
from hdpstats.records.query import Release
from hdpstats.results.adjustment import Imbalance
from hdpstats.results.facts import design_of
from hdpstats.results.plots import plot_overlap
from hdpstats.results.population import NO_ROWS, FittedRows
from hdpstats.results.result import Result
from hdpstats.results.sites import DescribedCohort, charged_releases
from hdpstats.results.summary import report_of
from hdpstats.schema.public import PublicTable
from hdpstats.schema.schema import Schema, labels_of
from hdpstats.schema.table import AdmittedTable
from hdpstats.sites import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROPENSITY: Final = "the propensity model"
"""What the releases of a propensity model are called among those that an effect rests on."""

BINS: Final = 20
RAKED: Final = "Public people, re-weighted to what was described of the private ones; their treatment is not used."
AS_THEY_ARE: Final = "Public people as they are: nothing was described of the private ones."


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Propensity(HasCoefficients, Reported):
    """A private propensity model: the chance of treatment by covariates. `hdpstats.api.propensity` makes one.

    Its coefficients, errors and tests are those from private people alone. They are never pooled with public people,
    whom others may have treated by another rule.

    Attributes
    ----------
    fit : Result
        The logistic regression, whose `params` are the private ones.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=1),
    ... )
    >>> ps = hdp.propensity("hormon ~ age", data=study, epsilon=1)
    >>> ps.weights("overlap")
    <overlap weights of hormon ~ age>
    """

    fit: Result

    @classmethod
    def of(cls, fit: Result) -> "Propensity":
        """Return the propensity model of a logistic regression: its private estimate alone."""
        own = fit.private_only or fit.estimate
        released = replace(fit.released, disagreement=None)
        alone = replace(fit, estimate=own, private_only=own, public_only=None, penalised=None, pooled=None)
        return cls(fit=replace(alone, released=released))

    @property
    def estimate(self) -> Estimate:
        """The private estimate."""
        return self.fit.estimate

    @property
    def formula(self) -> str:
        """The formula, ``"treatment ~ covariates"``."""
        return self.fit.facts.formula

    @property
    def treatment(self) -> str:
        """The column of the treatment."""
        return self.fit.facts.response

    @property
    def schema(self) -> Schema:
        """The declared columns."""
        return self.fit.schema

    @property
    def guarantee(self) -> Guarantee | None:
        """What the release guarantees to every person."""
        return self.fit.guarantee

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases that it rests on, in the order of the charges."""
        released = self.fit.released
        return (*released.before, *charged_releases(released))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What they guarantee, as parts of what rests on it."""
        known = self.guarantee
        if known is None:
            return ()
        return tuple(
            replace(part, what=PROPENSITY) if part.what == OWN else part for part in known.as_parts(PROPENSITY)
        )

    @cached_property
    def people(self) -> WeightedPeople:
        """The public people of the fit, raked to what was described of the private ones.

        Raises
        ------
        ArgumentError
            If the fit has no public rows at hand: there are none, or it was read from a file.
        """
        return stand_ins(self.fit, self.fit.public_rows.table)

    def effective_size(self) -> pd.DataFrame:
        """Return how many people the weights leave, predicted among raked public people.

        Columns: arm (the two levels, then ``"both"``), people (the share of all), weight (the mean weight of a person
        of the arm), effective (Kish's effective size over the number of all people: what it is over that of the arm
        is ``effective / people``).
        """
        people = self.people
        treated, low = people.treated, labels_of(self.schema, self.treatment)
        untreated_size, treated_size = people.effective_by_arm()
        return pd.DataFrame(
            {
                "arm": [*low, "both"],
                "people": [1.0 - treated, treated, 1.0],
                "weight": [people.overlap / (1.0 - treated), people.overlap / treated, 2.0 * people.overlap],
                "effective": [untreated_size, treated_size, people.effective_share],
            }
        )

    def overlap(self, bins: int = BINS) -> pd.DataFrame:
        """Return the distribution of the chance of treatment by arm, predicted among raked public people.

        Columns: after, until (of the chance), a share of all people for each arm, and ``weighted``, the share of the
        weight of either arm.
        """
        people, ends = self.people, np.linspace(0.0, 1.0, bins + 1)
        e, w = people.propensity, people.weights

        def shares(weights: FloatArray) -> FloatArray:
            return np.asarray(np.histogram(e, bins=ends, weights=weights)[0], dtype=np.float64)

        untreated, treated = labels_of(self.schema, self.treatment)
        inside = shares(w * e * (1.0 - e))
        return pd.DataFrame(
            {
                "after": ends[:-1],
                "until": ends[1:],
                untreated: shares(w * (1.0 - e)),
                treated: shares(w * e),
                "weighted": inside / inside.sum(),
            }
        )

    def plot_overlap(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution of the chance of treatment in both arms, and who counts after weighting."""
        return plot_overlap(self.overlap(), treatment=self.schema.label(self.treatment), ax=ax)

    def weights(self, kind: str = "overlap") -> "Weighting":
        """Return weights of people by their chance of treatment, for ``weighting=``.

        Parameters
        ----------
        kind : {"overlap"}
            1 less the chance of treatment for the treated, the chance for the untreated.

        Raises
        ------
        ArgumentError
            If kind is another one, or the fit is none of a chance of treatment that depends on its covariates alone.
        """
        choice(kind, name="kind", options=("overlap",))
        facts, released = self.fit.facts, self.fit.released
        plain = not (facts.weights or facts.offset or facts.several_rows or facts.propensity or released.sample)
        if facts.loss != "logistic" or not plain:
            raise ArgumentError(
                f"overlap weights need a logistic regression of the treatment of each person, without weights and "
                f"offset, as of hdp.propensity(formula, study, epsilon); this is {facts.model} {facts.formula!r}",
                argument="self",
            )
        values = self.estimate.values  # noqa: PD011
        if not np.isfinite(values).all():
            raise ArgumentError("the propensity model has coefficients that are not known", argument="self")
        record = OverlapWeights(
            formula=self.formula,
            columns=design_of(self.fit).needs,
            coefficients=tuple(rounded(float(each)) for each in values),
        )
        return Weighting(propensity=self, record=record)

    def tidy(self, exponentiate: bool = False, conf_level: float = 0.95) -> pd.DataFrame:
        """Return one row per coefficient, as `hdpstats.results.Result.tidy`."""
        return self.fit.tidy(exponentiate=exponentiate, conf_level=conf_level)

    def glance(self) -> pd.DataFrame:
        """Return one row of public facts, as `hdpstats.results.Result.glance`."""
        return self.fit.glance()

    def odds_ratios(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return odds ratios of treatment by term, as `hdpstats.results.Result.odds_ratios`."""
        return self.fit.odds_ratios(alpha)

    def methods_text(self) -> str:
        """Return a paragraph for a paper about the propensity model."""
        return self.fit.methods_text()

    def disclosure(self, form: str | None = None, *, statements: Mapping[str, Any] | None = None) -> Any:
        """Return the privacy record, or a form, as `hdpstats.results.Result.disclosure`."""
        return self.fit.disclosure(form, statements=statements)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the JSON text of the fit, and write it to a file where a path is given."""
        return self.fit.to_json(path)

    @classmethod
    def from_json(cls, path_or_text: str | PathLike[str]) -> "Propensity":
        """Read what `to_json` wrote. It has no public rows: what is predicted among them needs the study again."""
        return cls.of(Result.from_json(path_or_text))

    def _report(self, alpha: float = 0.05) -> Report:
        report = report_of(self.fit, alpha)
        if self.fit.public_rows.table is None:
            return report
        sizes = self.effective_size()
        cells = [
            [percent(row["people"]), f"{row['weight']:.3f}", percent(row["effective"])]
            for row in sizes.to_dict("records")
        ]
        names = [f"{self.treatment} = {arm}" if arm != "both" else "both arms" for arm in sizes["arm"]]
        block = columns(
            ["of all people", "mean weight", "effective size, of all people"], names, cells, title="Overlap weights"
        )
        note = AS_THEY_ARE if self.fit.released.description is None else RAKED
        return replace(report, blocks=[*report.blocks, block], notes=[*report.notes, f"Overlap weights: {note}"])

    def __repr__(self) -> str:
        return f"<propensity model {self.formula}: {self.guarantee}>"


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Weighting(Reported):
    """Weights of people by their chance of treatment, at released coefficients: what ``weighting=`` takes.

    A site computes the weight of each of its people from that person's row, with the public coefficients of the record.

    Attributes
    ----------
    propensity : Propensity
        The model of treatment.
    record : OverlapWeights
        What a query carries.
    stands_in : bool
        Whether it stands for one that is not released yet, in checks of what is to be asked with it; nothing is.
    """

    propensity: Propensity
    record: OverlapWeights
    stands_in: bool = False

    @property
    def treatment(self) -> str:
        """The column of the treatment."""
        return self.propensity.treatment

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        rows = [("Propensity model:", self.propensity.formula), ("Weights:", "overlap"),
                ("Rests on:", str(self.propensity.guarantee))]  # fmt: skip
        return Report(title="Overlap weights", blocks=[named_values(rows)])

    def __repr__(self) -> str:
        return f"<overlap weights of {self.propensity.formula}>"


def raked_people(fit: Result, table: PublicTable | None) -> tuple[AdmittedTable, FloatArray]:
    """Return covariates of public people, raked to what a fit's description tells of the private ones, and weights.

    Raises
    ------
    ArgumentError
        If there are no public rows.
    """
    if table is None:
        raise ArgumentError(
            "the propensity model has no public rows at hand (its study has none, or it was read from a file); "
            "overlap and errors are predicted among public people",
            argument="public",
        )
    design = design_of(fit)
    covariates = [name for name in design.needs if name != design.response]
    known, rows = fit.released.description, table
    weights = np.ones(len(table.frame()[table.complete(covariates)]))
    if known is not None and known.releases:
        whole = _people_at(fit, [name for name, _ in known.releases])
        parts = [_raked_to(fit, table, covariates, alike, whole=whole) for alike in _asked_alike(known)]
        frame = pd.concat([frame for frame, _ in parts], ignore_index=True)
        rows = PublicTable.from_frame(frame[covariates], fit.schema, required=covariates)
        weights = np.concatenate([own for _, own in parts])
    return rows.admitted(covariates), weights


_Described = list[tuple[str, DescriptionQuery, DescriptionRelease]]


def _asked_alike(known: DescribedCohort) -> list[_Described]:
    """Return the sites of a description with what they answered, those together that were asked the same averages.

    What a site is asked follows from its epsilon and its number of people.
    """
    found: dict[object, _Described] = {}
    for (name, query), (_, release) in zip(known.queries, known.releases, strict=True):
        found.setdefault((query.columns, query.pairs, query.at_risk), []).append((name, query, release))
    return list(found.values())


def _people_at(fit: Result, names: Sequence[str]) -> float:
    """Return how many people there are at some sites of a fit, or at all where that of one is not known."""
    known = [each.records for each in fit.site_facts if each.site in names]
    told = [number for number in known if number is not None]
    return float(max(sum(told) if len(told) == len(names) else fit.facts.records or 1, 1))


def _raked_to(
    fit: Result, table: PublicTable, covariates: Sequence[str], sites: _Described, *, whole: float
) -> tuple[pd.DataFrame, FloatArray]:
    """Return public rows raked to what sites told, and weights, those of sites with ``whole`` people 1 in sum.

    Of people of whom nothing was told it is taken that they are as the others.
    """
    names, query, releases = [name for name, _, _ in sites], sites[0][1], [release for _, _, release in sites]
    own, sd = _people_at(fit, names), fit.facts.records_sd or 0.0
    sd *= math.sqrt(min(own / max(fit.facts.records or 1, 1), 1.0))
    moments = moments_of(
        numbers_of(query, releases, 0),
        variables=[name for name in covariates if name in {each.name for each in query.columns}],
        people=(own, sd) if query.leading == 0 else None,
        sha256=releases[0].sha256,
    )
    raked = raked_rows(table, fit.schema, moments, variables=covariates, releases=[each.sha256 for each in releases])
    return raked.frame, raked.weights if own == whole else own / whole * raked.weights / raked.weights.sum()


def stand_ins(fit: Result, table: PublicTable | None) -> WeightedPeople:
    """Return people of `raked_people`, with the chance of treatment of the model."""
    people, weights = raked_people(fit, table)
    return WeightedPeople.of(design_of(fit).matrix(people), weights, fit.estimate.values)


def without_rows(propensity: Propensity) -> bool:
    """Return whether a propensity model has no public rows at hand."""
    return propensity.fit.public_rows is NO_ROWS or propensity.fit.public_rows.table is None


def with_rows(propensity: Propensity, table: PublicTable | None) -> Propensity:
    """Return a propensity model with the public rows of a study, where it has none at hand."""
    if not without_rows(propensity) or table is None:
        return propensity
    return Propensity(fit=replace(propensity.fit, public_rows=FittedRows(table=table)))


def checked_weighting(weighting: object, study: Study) -> Weighting:
    """Return a weighting, or refuse what is none, or is of other people than those of a study."""
    if not isinstance(weighting, Weighting):
        raise ArgumentError(
            f"weighting must be what hdp.propensity(...).weights('overlap') returned, not {type(weighting).__name__}",
            argument="weighting",
        )
    fit = weighting.propensity.fit
    if fit.schema.sha256 != study.schema.sha256:
        raise ArgumentError("weighting must be of a study with the same schema", argument="weighting")
    if fit.facts.first_row != study.unit:
        raise ArgumentError(
            "weighting must be of a study whose people have as many rows: a person's weight is that of the first "
            "complete row where the study has unit=, of hdp.propensity on such a study",
            argument="weighting",
        )
    if fit.guarantee is not None and fit.guarantee.relation is not study.relation:
        raise ArgumentError(
            f"weighting must be of a study with the same relation, {study.relation.value}", argument="weighting"
        )
    for site in fit.site_facts:
        held = None if site.site not in study.sites else study.sites[site.site].held
        for entry in site.entries if held is not None else ():
            if entry.account and held is not None and held.account and entry.account != held.account:
                raise ArgumentError(
                    "weighting must be of the same people: it was charged to another account than this study's; fit "
                    "the propensity model on this study",
                    argument="weighting",
                )
    return weighting


def check_of_these_people(weighting: Weighting, study: Study, *, what: str) -> None:
    """Refuse errors of private people at coefficients that are not their own.

    Errors count that the sampling of the coefficients and of the outcome go together, as of the same people
    (`hdpstats.inference.overlap_errors`), and that private people are treated by the model. Of coefficients of other
    people neither is so: arms may stay unlike, and limits are far too narrow.

    Raises
    ------
    ArgumentError
        If the propensity model is of public rows alone, or a site of the study took no part in it.
    """
    if weighting.stands_in:
        return
    fit = weighting.propensity.fit
    if fit.guarantee is None:
        raise ArgumentError(
            f"weighting: {what} of private people needs a propensity model of the same people, "
            "hdp.propensity(formula, study, epsilon).weights(): this one is of public rows, whose treatment may follow "
            "another rule",
            argument="weighting",
        )
    known = [each for each in fit.site_facts if each.weight > 0.0]
    names = {each.site for each in known}
    accounts = {entry.account for each in known for entry in each.entries if entry.account}
    others = [
        name
        for name, site in study.sites.items()
        if name not in names and (site.held is None or site.held.account not in accounts)
    ]
    if others:
        raise ArgumentError(
            f"weighting: {what} needs a propensity model of the same people, and {', '.join(others)} took no part in "
            "it; fit the propensity model on this study, or leave these sites out",
            argument="weighting",
        )
    differ = fit.heterogeneity
    if differ is not None and differ.overall.pvalue < DIFFER:
        warnings.warn(
            f"sites differ in who is treated (Cochran's Q of the propensity model, {p_equals(differ.overall.pvalue)}):"
            " one model for all of them may leave the arms unlike, and limits do not count that; a study of each site "
            "by itself has a propensity model of its own",
            HdpWarning,
            stacklevel=3,
        )


DIFFER: Final = 0.01
"""With a smaller p-value of Cochran's Q of the propensity's coefficients sites are said to treat by different rules."""


LEAST_EFFECTIVE: Final = 0.05
"""Kish's effective size over the number of people below which weights are refused."""

FEWEST_ROWS: Final = 40
"""Complete public rows that errors may rest on, at least."""


def rows_for_errors(
    study: Study, weighting: Weighting, outcome: tuple[str, ...], *, what: str
) -> tuple[WeightedPeople, Design, AdmittedTable]:
    """Return who stand for the private people, the propensity's design, and the public rows with an outcome.

    Raises
    ------
    ArgumentError
        If there are too few such rows, or hardly anybody's treatment was in doubt.
    """
    propensity = with_rows(weighting.propensity, study.public)
    design = design_of(propensity.fit)
    table = admitted_for_errors(study, design, outcome, what=what)
    share = propensity.people.effective_share
    if share < LEAST_EFFECTIVE:
        raise ArgumentError(
            f"weighting: hardly anybody's treatment was in doubt: an effective size of {share:.3f} of the people is "
            f"predicted, and {LEAST_EFFECTIVE} is needed; leave out people who are always or never treated, or "
            "covariates that decide the treatment",
            argument="weighting",
        )
    return propensity.people, design, table


def admitted_for_errors(study: Study, design: Design, outcome: tuple[str, ...], *, what: str) -> AdmittedTable:
    """Return the public rows with an outcome, on which errors of what is weighted by a propensity model rest.

    Raises
    ------
    ArgumentError
        If there are too few such rows, whatever the model's coefficients will be.
    """
    needs = tuple(dict.fromkeys((*design.needs, *outcome)))
    lacking = [] if study.public is None else [name for name in needs if name not in study.public.names]
    if study.public is None or lacking:
        words = f": they lack {', '.join(lacking)}" if lacking else ""
        raise ArgumentError(
            f"{what} needs public rows with the outcome, the treatment and the covariates, on which standard errors "
            f"rest{words}; give the study public=",
            argument="public",
        )
    table = study.public.admitted(needs)
    fewest = max(FEWEST_ROWS, 2 * len(design.columns))
    if table.rows < fewest:
        raise ArgumentError(f"{what} needs {fewest} complete public rows or more, not {table.rows}", argument="public")
    return table


LEAST_COMPLETE: Final = 0.05
"""The least share of complete people that is planned with: a noisy number may be next to nothing."""


def complete_share(study: Study, weighting: Weighting, outcome: tuple[str, ...]) -> float:
    """Return the share of private people who are expected to lack no cell: from released and public facts alone.

    Of the columns of the propensity model it is the number of complete people that its fit released over that of all,
    or the share among public rows where either is not known; of the outcome, among public rows complete in the former.
    """
    fit, public = weighting.propensity.fit, study.public
    needs = design_of(fit).needs
    if public is None or not study.schema.leaves_out((*needs, *outcome)):
        return 1.0
    of_model, of_both = (float(public.complete(names).mean()) for names in (needs, (*needs, *outcome)))
    share, counted = of_model, fit.facts.records
    if fit.guarantee is not None and counted is not None and study.records is not None:
        share = min(counted / study.records, 1.0)
    return max(share * of_both / of_model, LEAST_COMPLETE)


def imbalance_left(
    people: WeightedPeople, privacy: FloatArray, names: Sequence[str], rng: Generator
) -> tuple[Imbalance, ...]:
    """Return what imbalance the noise of a propensity, of covariance (p, p), is expected to leave in its columns."""
    left = people.imbalance(draws.normal(rng, privacy, DRAWS))
    sizes = np.sqrt(np.mean(left**2, axis=0)).tolist()
    return tuple(Imbalance(name=name, difference=size) for name, size in zip(names, sizes, strict=True) if size > 0.0)


def resting_on(own: Guarantee, weighting: Weighting, *, own_name: str) -> Guarantee:
    """Return a guarantee together with that of the propensity model that a weighting rests on."""
    known = weighting.propensity.guarantee
    if known is None:
        return own
    counted = {part.releases for part in own.parts or () if part.releases}
    before = [part for part in weighting.propensity.parts if part.releases not in counted]
    together = own.resting_on(*before, own=own_name)
    return replace(together, sites=max(own.sites, known.sites))
