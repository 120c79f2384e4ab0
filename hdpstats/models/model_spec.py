"""What a model must say about itself so that fitting, planning and reading are the same for all of them."""

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.base import SiteFacts
from hdpstats.mechanisms.objective.query import ObjectiveQuery
from hdpstats.mechanisms.person_loss.base import PersonLoss
from hdpstats.public.moments import PublicSide
from hdpstats.records.estimate import Estimate
from hdpstats.records.model import Model
from hdpstats.results import DeferredCheck, ModelFacts
from hdpstats.sites import Study


class ModelSpec(ABC):
    """A model on a study: everything here is public.

    Attributes
    ----------
    study : Study
        The data.
    """

    study: Study

    @property
    @abstractmethod
    def formula(self) -> str:
        """The formula as it was given."""

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """The names of the coefficients."""

    @property
    @abstractmethod
    def public(self) -> PublicSide | None:
        """The public side; None where public rows are absent or too few for a geometry."""

    @property
    @abstractmethod
    def meat(self) -> float | None:
        """A bound on the score's covariance over the Hessian, for a Hessian that was bought; None without one."""

    @property
    def origin(self) -> FloatArray:
        """What is added to the coefficients that `terms` name, once `to_terms` made them."""
        return np.zeros(len(self.terms))

    @property
    def classical(self) -> str:
        """How public rows alone are fitted, in words."""
        return "maximum likelihood on public rows"

    @abstractmethod
    def ask(self, *, epsilon: Fraction, records: int, share: Fraction, replicate: int) -> ObjectiveQuery:
        """Return the query of one fit by objective perturbation."""

    @abstractmethod
    def person_loss(self, model: Model) -> PersonLoss:
        """Return one person's loss under the query's model."""

    @abstractmethod
    def side(self, model: Model) -> PublicSide | None:
        """Return the public side at the query's geometry and cap."""

    @abstractmethod
    def reference(self, model: Model) -> PublicSide:
        """Return what stands in for public rows in a plan."""

    @abstractmethod
    def to_terms(self, model: Model) -> FloatArray:
        """Return the matrix (p, D) from whitened coefficients to those that `terms` name."""

    @abstractmethod
    def facts(self, method: str, *, records: int | None, public: int | None, model: Model | None) -> ModelFacts:
        """Return the public facts of a fit."""

    @abstractmethod
    def likelihood(self) -> tuple[Estimate, int]:
        """Return the maximum-likelihood fit to the public rows as they are, and their number."""

    @abstractmethod
    def check(self, facts: ModelFacts, values: FloatArray) -> DeferredCheck:
        """Return how coefficients (p,) discriminate and calibrate on the public rows, where that is defined."""

    def site_facts(self, records: int) -> SiteFacts:
        """Return the public facts about the site's records, as far as the study tells them."""
        return SiteFacts(
            schema=self.study.schema,
            relation=self.study.relation,
            records=records,
            unit=self.study.unit,
            most_rows=self.study.most_rows,
        )


def checked_study(study: object, *, argument: str = "data") -> Study:
    """Return a study, or refuse what is none."""
    if not isinstance(study, Study):
        raise ArgumentError(f"{argument} must be an hdp.Study, not {type(study).__name__}", argument=argument)
    return study
