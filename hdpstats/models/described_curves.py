"""A description that survival curves are given: its table of follow-up is used, at no further charge."""

from typing import TYPE_CHECKING

from hdpstats._base.errors import ArgumentError
from hdpstats.mechanisms.description.cells import FollowUpCells
from hdpstats.mechanisms.description.query import DescriptionQuery
from hdpstats.models.given_description import check_described_study
from hdpstats.results.description import Description

if TYPE_CHECKING:
    from hdpstats.models.survival_curves import CurvesRequest


def described_table(request: "CurvesRequest", description: object) -> tuple[Description, FollowUpCells]:
    """Return a given description and its cells of follow-up, or refuse one that is not of the curves.

    Raises
    ------
    ArgumentError
        With the reason and what to do; nothing was charged.
    """
    if not isinstance(description, Description):
        raise ArgumentError(
            f"description must be what hdp.describe returned, not {type(description).__name__}",
            argument="description",
        )
    query, asked = description.query, description.query.follow_up
    own = (request.time, request.event, request.start, request.level)
    same = asked is not None and (asked.time, asked.event, asked.start, asked.level) == own
    if asked is None or not same or query.grouping != request.grouping or query.weights != request.weights:
        raise ArgumentError(f"description must be {_wanted(request)}", argument="description")
    if request.study.sites:
        check_described_study(request.study, description)
    if description.schema.sha256 != request.study.schema.sha256:
        raise ArgumentError("description must be made with this study's schema", argument="description")
    if request.times is not None and request.times not in (asked.ends, len(asked.ends)):
        raise ArgumentError("times must be left out, or be those of the description", argument="times")
    return description, asked


def _wanted(request: "CurvesRequest") -> str:
    """Return in words what description has the table of these curves."""
    if len(request.grouping) > 1 or request.start or request.level is not None:
        reason = "several groups" if len(request.grouping) > 1 else "late starts" if request.start else "one level"
        return f"left out: no description has the table of {reason}; call fit(epsilon)"
    by = f", by='{request.grouping[0]}'" if request.grouping else ""
    weights = f", weights='{request.weights}'" if request.weights else ""
    outcome = f"Surv({request.time}, {request.event})"
    return f"that of describe(study, [..., '{outcome}']{by}{weights}, times=..., epsilon=...)"


def complete_in(request: "CurvesRequest", query: DescriptionQuery) -> tuple[str, ...]:
    """Return further columns in which described people are complete, where some may lack a cell."""
    if not query.complete:
        return ()
    schema, own = request.study.schema, {request.time, request.event, *request.grouping, request.weights}
    return tuple(each.name for each in query.columns if each.name not in own and schema[each.name].leaves_out)
