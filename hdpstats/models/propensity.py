"""A private propensity model: a logistic regression of treatment, with coefficients from private people alone."""

from dataclasses import dataclass
from typing import final

from hdpstats._base.errors import ArgumentError, forgets_rows
from hdpstats.describe.description import Description
from hdpstats.models.regression import Logit
from hdpstats.results.propensity import Propensity
from hdpstats.sites import Study
from hdpstats.sites.study import check_private, checked_study


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PropensityRequest:
    """A propensity model that may be fitted: `release` spends.

    Attributes
    ----------
    study : Study
        The data.
    model : Logit
        The logistic regression of the treatment.
    description : Description or None
        What was described of the private people before.
    """

    study: Study
    model: Logit
    description: Description | None = None

    def release(self, epsilon: float, *, replicate: int = 1, allow_large_epsilon: bool = False) -> Propensity:
        """Fit the model, and return it. The same call again returns the stored release for nothing."""
        check_private(self.study, "propensity")
        fit = self.model.fit(
            epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon, description=self.description
        )
        return Propensity.of(fit)

    def __repr__(self) -> str:
        return f"<propensity model to ask for: {self.model._spec.formula}>"


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
        The study, of one row per person.
    epsilon
        What it costs. None returns a request, of which ``release(epsilon)`` spends.
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
    if study.unit is not None:
        raise ArgumentError(
            "data: a person has one weight, and this study has several rows of a person (unit=); give a study with one "
            "row per person, that of the time of treatment",
            argument="data",
        )
    asked = PropensityRequest(study=study, model=Logit.from_formula(formula, study), description=description)
    if epsilon is None:
        return asked
    return asked.release(epsilon, replicate=replicate, allow_large_epsilon=allow_large_epsilon)
