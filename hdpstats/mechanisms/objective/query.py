"""The query of objective perturbation, and its release."""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.records.point import PointQuery, PointRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveQuery(PointQuery):
    """Minimise the perturbed, penalised objective once: with K-norm noise, or with normal noise for a delta above 0."""

    kind: ClassVar[str] = "objective/1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveRelease(PointRelease):
    """The perturbed minimiser; its noise entered the objective."""

    kind: ClassVar[str] = "objective/1"
