"""The query of output perturbation, and its release."""

from dataclasses import dataclass
from typing import ClassVar, final

from hdpstats.records.point import PointQuery, PointRelease


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputQuery(PointQuery):
    """Minimise the penalised objective and add noise: K-norm noise, or normal noise for a delta above 0."""

    kind: ClassVar[str] = "output/1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OutputRelease(PointRelease):
    """The minimiser with noise."""

    kind: ClassVar[str] = "output/1"
