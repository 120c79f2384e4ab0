"""A private propensity model: a logistic regression of treatment, with coefficients from private people alone.

Extreme propensities are neither cut nor trimmed: overlap weights, which they make small, are those of
`hdpstats.families.overlap_weights`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, forgets_rows
from hdpstats._base.validation import real, text
from hdpstats.describe.description import Description
from hdpstats.display import Report, Reported, columns, percent
from hdpstats.formulas import Design, compile_design
from hdpstats.formulas.knots import with_public_knots
from hdpstats.inference import draws
from hdpstats.inference.overlap_errors import DRAWS, PropensityErrors
from hdpstats.models.model import predict
from hdpstats.models.plan import Plan
from hdpstats.models.regression import Logit
from hdpstats.models.request import ONLY, FitRequest, fit_request
from hdpstats.models.treatment_effect import TreatmentEffectRequest, requested_effect
from hdpstats.privacy.budget import epsilons_of
from hdpstats.records.estimate import Estimate
from hdpstats.results import FittedRows, Result
from hdpstats.results.facts import design_of
from hdpstats.results.propensity import LEAST_EFFECTIVE, Propensity, Weighting
from hdpstats.results.treatment_effect import DIFFERENCE
from hdpstats.sites import Study
from hdpstats.sites.study import check_private, checked_study, people_of

SHARES: Final = (0.3, 0.4, 0.5, 0.6, 0.7)
"""Shares of epsilon for the effect that a plan compares."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PropensityRequest:
    """A propensity model that may be fitted: `plan` and `plan_effect` say what to expect, `release` spends.

    Attributes
    ----------
    study : Study
        The data.
    model : Logit
        The logistic regression of the treatment: of people with several rows, of the first complete one of each.
    description : Description or None
        What was described of the private people before.
    """

    study: Study
    model: Logit
    description: Description | None = None

    @property
    def design(self) -> Design:
        """The design of the formula."""
        return compile_design(self.model._spec.formula, self.study.schema)

    def plan(self, epsilon: float | Iterable[float], *, n: int | None = None) -> Plan:
        """Return predicted standard errors of the coefficients: see `hdpstats.api.Logit.plan`."""
        return self.model.plan(epsilon, n=n, description=self.description)

    def plan_effect(
        self,
        formula: str,
        epsilon: float | Iterable[float],
        *,
        shares: Iterable[float] = SHARES,
        treated: float | None = None,
        n: int | None = None,
    ) -> "SplitPlan":
        """Return predicted standard errors of a treatment effect by total epsilon and its split; nothing is spent.

        Private people are taken to be as public ones, and to be treated by the same rule, but for the share of the
        treated where that is given.

        Parameters
        ----------
        formula
            ``"outcome ~ treatment"``.
        epsilon
            What propensity model and effect would cost together: one value or several.
        shares
            Shares of it for the effect, from 0.05 to 0.95.
        treated
            The share of private people who are treated, from 0.01 to 0.99, where it is known from elsewhere; by default
            that of public people.
        n
            The number of private people, all at one site; by default that of the study.

        Raises
        ------
        ArgumentError, FormulaError
            What the effect itself would raise, and where public rows do not tell the propensity model.
        """
        parts = [real(share, name="shares", lower=0.05, upper=0.95) for share in shares]
        request = requested_effect(
            text(formula, name="formula"), self.study, Propensity.of(self.model.fit_public()).weights(), replicate=1
        )
        if treated is not None:
            share = real(treated, name="treated", lower=0.01, upper=0.99)
            if not design_of(request.weighting.propensity.fit).intercept:
                raise ArgumentError("treated needs a formula with an intercept, which it changes", argument="treated")
            request = replace(request, people=request.people.with_treated(share))
        records = people_of(self.study, n)
        sites = {name: site.records for name, site in self.study.sites.items()} if n is None else {}
        people = sites or {ONLY: records}
        rows = []
        for total in epsilons_of(epsilon):
            for share in parts:
                own = _rounded(total * Fraction(str(share)))
                frame = self._at(request, total - own, people).planned(own, people)
                row = frame[frame["effect"] == DIFFERENCE[request.is_binary]].iloc[0]
                rows.append((float(total), share, *(float(row[name]) for name in ("expected", "std_error", "noise"))))
        frame = pd.DataFrame(rows, columns=["epsilon", "share", "expected", "std_error", "noise"])
        return SplitPlan(frame=frame, records=records, formula=formula, effective_share=request.people.effective_share)

    def _at(self, request: TreatmentEffectRequest, epsilon: Fraction, people: dict[str, int]) -> TreatmentEffectRequest:
        """Return the request of an effect with the errors that a propensity model would have at an epsilon."""
        asked: FitRequest = fit_request(epsilon, 0, "auto", "auto", description=self.description, describe=True)
        spec = self.model._spec if self.study.sites else self.model._spec.planned_for(sum(people.values()))
        parts = predict(spec, asked, people).errors.parts
        if parts is None or not all(np.isfinite(part).all() for part in parts):
            raise MechanismError("no plan of this propensity model tells how its errors go together")
        # both are about the coefficients of public people, whose treatment tells them as well as these Hessians say
        change = np.linalg.solve(request.people.hessian, request.weighting.propensity.people.hessian)
        complete = request.complete  # sampling variances are over the number of people who count, noise over its square
        sampling, privacy = change @ parts[0] / complete, change @ parts[1] @ change.T / complete**2
        sampling = (sampling + sampling.T) / 2.0
        drawn = draws.normal(draws.nodes(), sampling + privacy, DRAWS)
        return replace(request, errors=PropensityErrors(draws=drawn, sampling=sampling, privacy=privacy))

    def check(self, epsilon: object, *, replicate: int = 1, allow_large_epsilon: bool = False) -> None:
        """Refuse a fit that public facts predict to be without a coefficient, so that no weights follow from it.

        So it is where public people are nearly all treated, or nearly none, or the covariates decide who is: the
        private estimate is read at a curvature that they tell next to nothing of.

        Raises
        ------
        ArgumentError
            Nothing was charged.
        """
        asked = fit_request(
            epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon, description=self.description
        )
        people = {name: site.records for name, site in self.study.sites.items()}
        unknown = predict(self.model._spec, asked, people).unknown
        if unknown:
            names = ", ".join(self.model._spec.terms[number] for number in unknown)
            raise ArgumentError(
                f"the propensity model is predicted, from public facts, to be without coefficients of {names}, and no "
                "weights follow from it; nothing was charged. Give the study public rows of treated and untreated "
                "people that covariates do not tell apart, leave these terms out, or take more epsilon",
                argument="public",
            )

    def release(self, epsilon: float, *, replicate: int = 1, allow_large_epsilon: bool = False) -> Propensity:
        """Fit the model, and return it. The same call again returns the stored release for nothing."""
        check_private(self.study, "propensity")
        self.check(epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
        fit = self.model.fit(
            epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon, description=self.description
        )
        return Propensity.of(fit)

    def fit_public(self) -> Propensity:
        """Return the propensity model of the public rows alone, at no cost: for weighted curves of these rows."""
        return Propensity.of(self.model.fit_public())

    def stand_in(self) -> Weighting:
        """Return weights that stand for those of the private model until it is released: for checks, at no cost.

        They are those of public people. Where these do not tell who is treated, or leave next to nobody in doubt,
        everybody's chance is taken to be 1/2: private people may differ.
        """
        public = self.study.public
        told = self.fit_public() if public is not None and set(self.design.needs) <= set(public.names) else self._even
        known = bool(np.isfinite(told.estimate.values).all())
        if not known or (public is not None and told.people.effective_share < LEAST_EFFECTIVE):
            told = self._even
        return replace(told.weights("overlap"), stands_in=True)

    @property
    def _even(self) -> Propensity:
        """The model by which everybody's chance is 1/2."""
        spec, unknown = self.model._spec, np.full((len(self.model._spec.terms),) * 2, np.nan)
        even = Estimate(
            label="public only",
            terms=spec.terms,
            values=np.zeros(len(unknown)),
            sampling=unknown,
            privacy=np.zeros_like(unknown),
        )
        facts = spec.facts(spec.classical, records=None, public=None)
        rows = FittedRows(table=self.study.public)
        return Propensity(fit=Result(facts=facts, schema=self.study.schema, estimate=even, public_rows=rows))

    def __repr__(self) -> str:
        return f"<propensity model to ask for: {self.model._spec.formula}>"


def _model_of(formula: str, study: Study) -> Logit:
    """Return the regression of treatment, of people with several rows on the first complete one of each."""
    if study.unit is None:
        return Logit.from_formula(formula, study)
    needs = compile_design(with_public_knots(formula, study.public), study.schema).needs
    return Logit.of_first_rows(formula, study.by_person(needs))


def _rounded(epsilon: Fraction) -> Fraction:
    """Return an epsilon on a grid of a millionth."""
    return Fraction(round(epsilon * 10**6), 10**6)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class SplitPlan(Reported):
    """Predicted standard errors of a treatment effect by total epsilon and its split. Nothing was spent.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon`` (of propensity model and effect together), ``share`` (of it for the effect), ``expected``,
        ``std_error``, ``noise`` (the part of the standard error that is privacy noise): of the difference of the arms.
    records : int
        The number of private people planned for.
    formula : str
        What would be asked for.
    effective_share : float
        Kish's effective size over the number of people, among public people.
    """

    frame: pd.DataFrame
    records: int
    formula: str
    effective_share: float

    @property
    def best(self) -> pd.DataFrame:
        """The row with the smallest standard error for each epsilon."""
        places = [part["std_error"].idxmin() for _, part in self.frame.groupby("epsilon")]
        return self.frame.loc[places].reset_index(drop=True)

    def _report(self, alpha: float = 0.05) -> Report:  # noqa: ARG002
        wide = self.frame.pivot_table(index="share", columns="epsilon", values="std_error", sort=False)
        best = [
            f"epsilon = {row['epsilon']:.3g}: a share of {row['share']:.2g}" for row in self.best.to_dict("records")
        ]
        return Report(
            title=f"Predicted standard errors of {self.formula}, {self.records} private people; nothing is spent",
            heading="Predicted standard errors of a difference, by the share of epsilon for the effect",
            blocks=[
                columns(
                    [f"epsilon = {value:.3g}" for value in wide.columns],
                    [f"share {share:.2g} for the effect" for share in wide.index],
                    [[f"{value:.4f}" for value in row] for row in wide.to_numpy(dtype=float)],
                )
            ],
            notes=[
                f"Smallest at {'; '.join(best)}. The rest is for the propensity model.",
                f"The weights leave an effective size of {percent(self.effective_share)} of the people.",
                "Private people are taken to be as public ones, and to be treated by the same rule, but for the share "
                "of the treated where it was given.",
            ],
            badges=["nothing is spent", f"{self.records} private people"],
        )

    def __repr__(self) -> str:
        return str(self)


@forgets_rows
def propensity(
    formula: str,
    data: Study,
    epsilon: float | None = None,
    *,
    description: Description | None = None,
    replicate: int = 1,
    allow_large_epsilon: bool = False,
) -> "PropensityRequest | Propensity":
    """Fit a propensity model, the chance of treatment by covariates, to private people alone.

    It is an ordinary private logistic regression, `hdpstats.formula.api.logit`, of which the estimate from private
    people alone is kept: public people may be treated by another rule, and are never pooled. They set the scale of the
    covariates, and stand for the private people where overlap is predicted. A stored release of the same regression is
    used again at no charge.

    Parameters
    ----------
    formula
        ``"treatment ~ age + ..."``; the treatment is a column declared as `Binary`.
    data
        The study. Of people with several rows (``unit=``) the first row counts that is complete in the formula's
        columns, in the order of the table: give rows in the order of time.
    epsilon
        What it costs. None returns a request: ``plan(epsilon)`` and ``plan_effect(formula, epsilon)`` say what to
        expect, ``release(epsilon)`` spends.
    description
        What `hdpstats.api.describe` returned for the columns of the formula with ``complete=True``: then nothing more
        is asked about them.
    replicate
        2, 3, ... for a further independent draw, which is charged again.
    allow_large_epsilon
        Whether epsilon may be above 50.

    Returns
    -------
    PropensityRequest or Propensity
        Without epsilon a request, else the fitted model.

    Raises
    ------
    ArgumentError, SchemaError, FormulaError, MechanismError, BudgetError
        Before anything is charged.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> schema = hdp.Schema(age=hdp.Continuous(20, 90, complete=True), hormon=hdp.Binary(complete=True))
    >>> study = hdp.Study(
    ...     private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=schema,
    ...     budget=hdp.Budget(epsilon=1),
    ... )
    >>> ps = hdp.propensity("hormon ~ age", data=study, epsilon=1)
    >>> ps.effective_size()["arm"].tolist()
    ['0', '1', 'both']
    """
    study = checked_study(data)
    asked = PropensityRequest(study=study, model=_model_of(formula, study), description=description)
    if epsilon is None:
        return asked
    return asked.release(epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
