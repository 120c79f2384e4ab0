"""Logistic regression on private and public records."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from hdpstats._base.errors import ArgumentError, MechanismError, SchemaError
from hdpstats._base.validation import exact, integer, real
from hdpstats.data.columns import Binary, Column, Continuous, NumericColumn
from hdpstats.data.public import PublicTable
from hdpstats.data.schema import Schema
from hdpstats.design import compile_design
from hdpstats.design.geometry import whiten
from hdpstats.design.reference import reference_matrix
from hdpstats.inference import box, private
from hdpstats.inference.likelihood import maximum_likelihood
from hdpstats.inference.prediction import predicted_errors
from hdpstats.ledger import Ledger
from hdpstats.losses import Logistic
from hdpstats.mechanisms import objective
from hdpstats.mechanisms.options import ObjectivePerturbation, named
from hdpstats.models.plan import Plan, plan_rows
from hdpstats.privacy.accountant import guarantee
from hdpstats.privacy.budget import Budget, release_epsilon
from hdpstats.protocols import PublicRows, WhitenedPublic, choose_query, public_rows, whitened_public
from hdpstats.protocols.objective import with_radius
from hdpstats.protocols.public import FEWEST_ROWS
from hdpstats.queries import ObjectiveQuery, ObjectiveRelease
from hdpstats.results import ModelFacts, Result
from hdpstats.sites import Site, Study


@final
class Logit:
    r"""Logistic regression: :math:`\log\{p / (1 - p)\} = x'\beta` with :math:`p = P(y = 1 \mid x)`.

    Users with a data frame write ``hdpf.logit("y ~ x", data=study)`` or `Logit.from_formula`; this constructor takes arrays, as
    statsmodels' does, with the bounds that privacy needs.

    Parameters
    ----------
    endog
        The private outcome (n,), 0 or 1.
    exog
        The private covariates (n, p), array or DataFrame, without a constant column.
    exog_bounds
        A pair (lower, upper) for every covariate, declared, not computed from the private rows.
    public_endog, public_exog
        The same for public rows.
    intercept
        Whether the model has a constant.
    ledger, budget
        The account; one of the two.
    row_norm
        A declared bound on the norm of a row whose covariates are scaled to [-1, 1] by their bounds; rows beyond it are weighted
        down. Used where there are no public rows.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 500)[:, None]
    >>> y = (x[:, 0] > 0).astype(float)
    >>> model = Logit(y, x, exog_bounds=[(-1, 1)], budget=Budget(epsilon=2))
    >>> result = model.fit(epsilon=1)
    >>> list(result.params.index)
    ['Intercept', 'x1']
    """

    def __init__(
        self,
        endog: npt.ArrayLike,
        exog: npt.ArrayLike | pd.DataFrame,
        *,
        exog_bounds: Sequence[tuple[float, float]],
        public_endog: npt.ArrayLike | None = None,
        public_exog: npt.ArrayLike | pd.DataFrame | None = None,
        intercept: bool = True,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        row_norm: float | None = None,
    ) -> None:
        names = _names(exog, len(exog_bounds))
        columns: dict[str, Column] = {
            name: Continuous(*bounds) for name, bounds in zip(names, exog_bounds, strict=True)
        }
        schema = Schema({**columns, "y": Binary()})
        public = None if public_exog is None else _frame(public_endog, public_exog, names, which="public_")
        study = Study(
            private=_frame(endog, exog, names, which=""), public=public, schema=schema, ledger=ledger, budget=budget
        )
        terms = " + ".join(f"`{name}`" if not name.isidentifier() else name for name in names)
        self._open(f"y ~ {terms}" if intercept else f"y ~ 0 + {terms}", study, None, None, row_norm)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Study,
        *,
        weights: str | None = None,
        offset: str | None = None,
        row_norm: float | None = None,
    ) -> Self:
        """Return the model of a formula on a study.

        Parameters
        ----------
        formula
            ``"outcome ~ terms"``; levels and bounds come from the study's schema.
        data
            The study.
        weights, offset
            Columns declared as `Weight` and `Offset`.
        row_norm
            See the class.

        Raises
        ------
        FormulaError, SchemaError, ArgumentError
            Before anything is charged.
        """
        if not isinstance(data, Study):
            raise ArgumentError(f"data must be an hdp.Study, not {type(data).__name__}", argument="data")
        model = cls.__new__(cls)
        model._open(formula, data, weights, offset, row_norm)
        return model

    def _open(
        self, formula: str, study: Study, weights: str | None, offset: str | None, row_norm: float | None
    ) -> None:
        self._study, self._loss = study, Logistic()
        self._design = compile_design(formula, study.schema)
        _check_binary(study.schema, self._design.response)
        self._weights = _declared(study.schema, weights, kind="weight", argument="weights")
        self._offset = _declared(study.schema, offset, kind="offset", argument="offset")
        self._row_norm = (
            None if row_norm is None else real(row_norm, name="row_norm", lower=1e-3, upper=1e3)
        )
        self._public = self._whitened()
        if self._public is not None and self._row_norm is not None:
            raise ArgumentError(
                "row_norm must be left out with public rows: they give the geometry", argument="row_norm"
            )

    def __repr__(self) -> str:
        return f"<Logit: {self._design.formula}>"

    def plan(self, epsilon: float | Iterable[float] = (0.1, 0.5, 1.0, 3.0), *, n: int | None = None) -> Plan:
        """Return predicted standard errors per coefficient and epsilon: from public rows and declarations, for free.

        Parameters
        ----------
        epsilon
            One or several values.
        n
            The number of private records, where the study has none at hand.
        """
        values = [epsilon] if isinstance(epsilon, int | float | Fraction) else list(epsilon)
        epsilons = [release_epsilon(value, allow_large_epsilon=True) for value in values]
        if not epsilons:
            raise ArgumentError("epsilon must name at least one value to plan for", argument="epsilon")
        records = self._records(n)
        frames = [self._planned(value, records) for value in dict.fromkeys(epsilons)]
        basis = "Predicted from public rows, taken to be like the private ones."
        if self._public is None:
            basis = (
                "Without public rows the prediction assumes covariates spread evenly over the schema's bounds and no effects; "
                "standard errors need se_share= in fit()."
            )
        return Plan(frame=pd.concat(frames, ignore_index=True), records=records, assumption=basis)

    def fit(
        self,
        epsilon: float,
        *,
        delta: float = 0,
        mechanism: str | ObjectivePerturbation = "auto",
        se_share: float = 0.0,
        replicate: int = 1,
        allow_large_epsilon: bool = False,
    ) -> Result:
        """Fit under differential privacy: the only verb that spends.

        The same call again returns the stored release for free; ``replicate=2`` buys an independent one.

        Parameters
        ----------
        epsilon
            What the release may cost each person, from 1e-6 to 50.
        delta
            Accepted and not used up: objective perturbation is pure, which is stronger.
        mechanism
            ``"auto"``, ``"objective"`` or an `ObjectivePerturbation`.
        se_share
            Share of epsilon that buys a noisy Hessian, for standard errors without public rows.
        replicate
            Number of the draw.
        allow_large_epsilon
            Allow more than 50, which protects nobody.

        Raises
        ------
        ArgumentError, BudgetError, MechanismError
            Before anything is charged.
        SiteError
            If the site could not complete the release; the budget stays charged.
        """
        amount = release_epsilon(epsilon, allow_large_epsilon=allow_large_epsilon)
        if not 0 <= exact(delta, name="delta") < 1:
            raise ArgumentError(f"delta must be in [0, 1), not {delta!r}", argument="delta")
        share = self._share(named(mechanism), se_share)
        site = self._private_site()
        draw = integer(replicate, name="replicate", lower=1, upper=10**9)
        query = self._query(amount, records=site.records, share=share, replicate=draw)
        release = site.answer(query)
        if not isinstance(release, ObjectiveRelease):
            raise MechanismError("the site answered with a release of another kind")
        return self._result(query, release)

    def fit_public(self) -> Result:
        """Return the ordinary maximum-likelihood fit to the public rows alone: no noise, no penalty, no cost.

        Public rows are used as they are, not clipped to the schema's bounds; rows with missing values are dropped, as ``glm`` does.
        """
        table = self._public_table()
        names = [*self._design.needs, *(name for name in (self._weights, self._offset) if name is not None)]
        rows = table.raw(names)
        estimate = maximum_likelihood(
            self._design.evaluate_unclipped(rows),
            rows.numeric[self._design.response],
            weights=rows.numeric[self._weights] if self._weights else np.ones(rows.rows),
            offset=rows.numeric[self._offset] if self._offset else np.zeros(rows.rows),
            loss=self._loss,
            terms=self._design.names,
        )
        return Result(
            facts=self._facts("maximum likelihood on public rows", records=None, public=rows.rows),
            schema=self._study.schema, estimate=estimate, public_only=None, private_only=None, pooled=None,
            query=None, release=None, guarantee=None,
        )

    def _public_table(self) -> PublicTable:
        table = self._study.public
        if table is None or self._design.response not in table.names:
            raise ArgumentError("fit_public needs public rows with the outcome; give the study public=", argument="public")
        return table

    def _private_site(self) -> Site:
        if self._study.site is None:
            raise ArgumentError("fit needs private records; this study has none: use fit_public", argument="private")
        return self._study.site

    def _records(self, n: int | None) -> int:
        if n is not None:
            return integer(n, name="n", lower=1, upper=10**12)
        if self._study.site is None:
            raise ArgumentError("plan needs n=, the number of private records, where the study has none", argument="n")
        return self._study.site.records

    def _share(self, mechanism: ObjectivePerturbation, se_share: float) -> Fraction:
        share = mechanism.share or ObjectivePerturbation(se_share=se_share).share
        if share and self._public is not None:
            raise ArgumentError(
                "se_share must be 0 with public rows: they give the standard errors for free", argument="se_share"
            )
        return share

    def _whitened(self) -> WhitenedPublic | None:
        """Return the public side, or None where public rows are absent or too few for a geometry."""
        rows = self._public_rows()
        return None if rows is None else whitened_public(rows, self._design, self._loss)

    def _public_rows(self) -> PublicRows | None:
        table = self._study.public
        if table is None:
            return None
        rows = public_rows(table, self._design, weights=self._weights, offset=self._offset)
        return rows if len(rows.X) >= FEWEST_ROWS else None

    def _largest_weight(self) -> float:
        return 1.0 if self._weights is None else _upper(self._study.schema[self._weights])

    def _query(self, epsilon: Fraction, *, records: int, share: Fraction, replicate: int) -> ObjectiveQuery:
        table = self._study.public
        return choose_query(
            self._design,
            self._loss,
            public=self._public,
            records=records,
            epsilon=epsilon,
            schema_sha256=self._study.schema.sha256,
            public_sha256=table.sha256 if table is not None and self._public is not None else None,
            largest_weight=self._largest_weight(),
            weights=self._weights,
            offset=self._offset,
            row_norm=self._row_norm,
            hessian_share=share,
            replicate=replicate,
        )

    def _result(self, query: ObjectiveQuery, release: ObjectiveRelease) -> Result:
        terms = self._design.names
        if self._public is None:
            found = box.estimates(query, release, terms=terms, largest_weight=self._largest_weight())
            method, rows = "objective perturbation, scaled by the schema", None
        else:
            at_radius = with_radius(self._public, query.geometry.radius)
            found = private.estimates(query, release, at_radius, self._loss, terms=terms)
            method, rows = "objective perturbation, whitened by public rows", len(self._public.X)
        return Result(
            facts=self._facts(method, records=release.records, public=rows),
            schema=self._study.schema,
            estimate=found.chosen,
            public_only=found.public_only,
            private_only=found.private_only,
            pooled=found.pooled,
            query=query,
            release=release,
            guarantee=guarantee(release.events, relation=self._study.relation),
        )

    def _facts(self, method: str, *, records: int | None, public: int | None) -> ModelFacts:
        return ModelFacts(
            model="Logit", formula=self._design.formula, response=self._design.response, method=method,
            records=records, public_rows=public, weights=self._weights, offset=self._offset,
            exponentiated="odds ratio",
        )

    def _planned(self, epsilon: Fraction, records: int) -> pd.DataFrame:
        query = self._query(epsilon, records=records, share=Fraction(0), replicate=1)
        constants = objective.calibrate(
            query, records=records, largest_weight=self._largest_weight(), largest_offset=self._largest_offset()
        )
        if self._public is not None:
            public = with_radius(self._public, query.geometry.radius)
        else:
            rows = whiten(query.geometry, reference_matrix(self._design, self._study.schema))
            ones = np.ones(len(rows.X))
            public = WhitenedPublic(
                geometry=query.geometry, X=rows.X, mallows=rows.weights, weights=ones, offset=0.0 * ones, fit=None
            )
        errors = predicted_errors(public, self._loss, records=records, rate=float(constants.noise_rate))
        return plan_rows(float(epsilon), self._design.names, errors)

    def _largest_offset(self) -> float:
        return 0.0 if self._offset is None else _upper(self._study.schema[self._offset])


def _upper(column: Column) -> float:
    if not isinstance(column, NumericColumn):
        raise SchemaError("weights and offsets must be numeric columns")
    return max(abs(column.lower), abs(column.upper))


def _check_binary(schema: Schema, response: str) -> None:
    if schema[response].kind != "binary":
        raise SchemaError(
            f"the outcome of a logistic regression must be declared Binary(); {response} is {schema[response].kind}",
            column=response,
        )


def _declared(schema: Schema, name: object, *, kind: str, argument: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in schema or schema[name].kind != kind:
        raise SchemaError(
            f"{argument} must name a column that the schema declares as {kind.capitalize()}(...), not {name!r}",
            argument=argument,
        )
    return name


def _names(exog: object, count: int) -> list[str]:
    if isinstance(exog, pd.DataFrame):
        names = [str(name) for name in exog.columns]
    else:
        shape = np.shape(np.asarray(exog, dtype=object))
        names = [f"x{j + 1}" for j in range(shape[1] if len(shape) == 2 else 1)]
    if len(names) != count:
        raise ArgumentError(
            f"exog_bounds must have one pair per column of exog: {len(names)} columns, {count} pairs",
            argument="exog_bounds",
        )
    if len(set(names)) != len(names) or "y" in names:
        raise ArgumentError("exog must have distinct column names, none of them 'y'", argument="exog")
    return names


def _frame(endog: Any, exog: Any, names: list[str], *, which: str) -> pd.DataFrame:
    cells = exog.to_numpy() if isinstance(exog, pd.DataFrame) else np.asarray(exog)
    cells = cells.reshape(len(cells), -1) if cells.ndim < 2 else cells
    outcome = None if endog is None else np.asarray(endog)
    if cells.shape[1] != len(names):
        raise ArgumentError(f"{which}exog must have {len(names)} columns, not {cells.shape[1]}", argument=f"{which}exog")
    if outcome is not None and outcome.shape != (len(cells),):
        raise ArgumentError(
            f"{which}endog must have one value per row of {which}exog: {len(cells)} rows", argument=f"{which}endog"
        )
    frame = pd.DataFrame(dict(zip(names, cells.T, strict=True)))
    return frame if outcome is None else frame.assign(y=outcome)
