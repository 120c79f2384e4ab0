"""A mechanism as fits and plans use it: one object that asks sites, and reads what they answer or are expected to.

A fit reads the answers of the sites. A plan reads the answers that are expected of them, from public facts, by the same
code: so it knows as much as the fit will, no more and no less, of the number of people, the curvature, the noise, and
says for which fits standard errors would be refused. Where a fit draws errors (their distribution decides about its
intervals) a plan takes their covariance in closed form, as plans must not wobble: more epsilon never predicts more
error.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from hdpstats._base.typing import FloatArray
from hdpstats.inference.sandwich import PredictedErrors
from hdpstats.inference.unlike_people import PlannedPeople
from hdpstats.models.own_description import ResidualSd
from hdpstats.models.request import FitRequest
from hdpstats.models.site_records import SiteRecords
from hdpstats.records.query import MechanismOptions
from hdpstats.results import Result


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prediction:
    """What a fit by a mechanism would report, and whether it would report standard errors at all.

    ``described`` says whether errors are predicted for people as they are described.
    ``refusal`` says why a fit is refused that would report none though they are wanted, ``risk`` what may give NaN
    yet; ``sites`` is what is known of each site's people before; ``unlike`` (p,) are standard
    deviations of what is not reported: what private people who are unlike public ones may do to an estimate;
    ``for_sandwich`` is the largest share of what is left of a site's epsilon for its people's own Hessians and squared
    scores; ``unknown`` are the numbers of coefficients that public facts predict the estimate from private people alone
    not to have; ``residual_sds`` is what errors take for the standard deviation of residuals at each site, where no
    public row tells it.
    """

    mechanism: MechanismOptions
    errors: PredictedErrors
    reported: bool
    described: bool = False
    refusal: str | None = None
    risk: str = ""
    sites: Mapping[str, SiteRecords] = field(default_factory=dict)
    unlike: FloatArray | None = None
    for_sandwich: Fraction = Fraction(0)
    unknown: tuple[int, ...] = ()
    residual_sds: tuple[ResidualSd, ...] = ()
    people: PlannedPeople | None = None


class FitMechanism(ABC):
    """A mechanism that fits models.

    The model, the options and the request are those of one fit; ``people`` are the numbers of private people by site.

    Attributes
    ----------
    options : type of MechanismOptions
        What users name it by; the registry (`hdpstats.mechanisms.registry`) says by which query a site is asked.
    """

    options: type[MechanismOptions]

    @abstractmethod
    def fit(self, spec: Any, options: Any, request: FitRequest) -> Result:
        """Ask the sites and read their answers. Refuse before anything is charged."""

    @abstractmethod
    def plan(self, spec: Any, options: Any, request: FitRequest, people: Mapping[str, int]) -> Prediction:
        """Read what the sites are expected to answer: what a fit would report."""
