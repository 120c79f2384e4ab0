"""A model of people with one row each: what regressions of one predictor and of several have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from hdpstats.families.spec import LossSpec
from hdpstats.formulas.column_space import CanonicalDesign
from hdpstats.mechanisms.perturbation.request import Asked, LossCost, Recommended, best_geometry, recommended
from hdpstats.public.moments import WhitenedRows
from hdpstats.public.row_weights import APART, LEAST_SD, Allowance
from hdpstats.raking.information import with_described
from hdpstats.records.averages import CohortMoments
from hdpstats.records.geometry import Geometry
from hdpstats.records.model import AnyModel, MultinomialModel, QueryModel, RegressionModel


class RowSpec(LossSpec):
    """A model of people with one row each.

    Attributes
    ----------
    asked : CanonicalDesign
        The columns that a query is about: those of the formula span the same.
    row_norm : float or None
        Declared bound on the scaled row norm, for the geometry of the schema's box.
    """

    asked: CanonicalDesign
    row_norm: float | None

    @property
    def columns(self) -> CanonicalDesign:
        """The columns that a query is about."""
        return self.asked

    @property
    @abstractmethod
    def public(self) -> WhitenedRows | None:
        """The public side; None where public rows are absent or too few for a geometry."""

    @abstractmethod
    def reference(self, model: QueryModel, described: CohortMoments | None = None) -> WhitenedRows:
        """Return rows in place of public ones, spread evenly or as described."""

    @abstractmethod
    def model_at(self, geometry: Geometry) -> RegressionModel | MultinomialModel:
        """Return what a query is about, in a geometry."""

    @abstractmethod
    def cost(self, epsilon: Fraction, *, share: Fraction) -> LossCost:
        """Return what noise and what ridge a site's epsilon asks for; ``share`` is spent on a noisy Hessian."""

    def choose_model(self, sites: Sequence[Asked], *, share: Fraction) -> RegressionModel | MultinomialModel:
        """Return what all sites are asked about; see `LossSpec.choose_model`."""
        if self.public is None:
            return self.model_at(self.asked.design.box(self.row_norm))
        return self.model_at(best_geometry(self.public, sites, partial(self.cost, share=share)))

    def choose_ridge(self, model: QueryModel, *, epsilon: Fraction, share: Fraction, records: int) -> Recommended:
        """Return centre and ridge of a fit by objective perturbation; ``share`` is spent on a noisy Hessian."""
        return recommended(self.cost(epsilon, share=share), self.side(model), model.geometry, records=records)

    def noisy_part(self, model: AnyModel, square: float, *, epsilon: Fraction, records: int) -> float:
        """Return the share of privacy noise in the variance of a score; see `LossSpec.noisy_part`."""
        noise = float(np.mean(self.cost(epsilon, share=Fraction(0)).noise(model.geometry).variance))
        return noise / (noise + records * square)

    def side(self, model: QueryModel) -> WhitenedRows | None:
        """Return the public rows at the query's radius."""
        return None if self.public is None else self.public.at_radius(model.geometry.radius)

    def allowance(self, model: QueryModel, sites: Sequence[tuple[int, CohortMoments | None]] = ()) -> Allowance | None:
        """Return what weights of rows may do to an estimate; None where the schema's bounds weight nobody.

        Without public rows it is that of rows which are spread evenly over the schema's bounds, with coefficients that
        are ``tau`` apart for each standard deviation of these.
        """
        if self.public is not None:
            side, unit = self.public.at_radius(model.geometry.radius), self.public.apart * self.public.unit
            return with_described(side, sites, allowance=lambda of: of.allowance_at(model.geometry, scale=unit))
        if not self.weights_rows(model.geometry):
            return None
        rows, first = self.reference(model), int(model.geometry.intercept)
        sd = np.concatenate([np.ones(first), np.std(rows.X[:, first:], axis=0)])
        scale = np.tile(APART * rows.unit / np.maximum(sd, LEAST_SD), rows.dimension // len(sd))
        return rows.allowance_at(rows.geometry, scale=scale)
