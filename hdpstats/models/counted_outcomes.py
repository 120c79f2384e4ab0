"""Outcomes that may be counts: quantiles of tied outcomes are steps, which smooth quantile regression has not."""

from hdpstats.public.likelihood import is_tied
from hdpstats.schema.columns import NumericColumn
from hdpstats.sites import Study

MOST_COUNTS = 200.0
"""The largest upper bound of an outcome that is taken for a count."""

TIES = (
    "{outcome} may be a count, as it is declared from 0 to a whole number: quantiles of tied outcomes are steps in the "
    "covariates, and what is estimated is a smoothed one whose intervals need not cover them. hdpf.poisson has a model "
    "of counts; {outcome} ~ 1 covers the quantile itself."
)


def may_count(study: Study, outcome: str) -> bool:
    """Return whether an outcome is declared as a count might be, of 0 and 1 or from 0 to a whole number.

    Public outcomes that hardly ever agree say that it is none.
    """
    column, public = study.schema[outcome], study.public
    if public is not None and outcome in public.names and not is_tied(public.raw([outcome]).numeric[outcome]):
        return False
    if column.kind == "binary":
        return True
    low, high = (column.lower, column.upper) if isinstance(column, NumericColumn) else (1.0, 1.0)
    return column.kind == "continuous" and low == 0.0 and high == int(high) and high <= MOST_COUNTS
