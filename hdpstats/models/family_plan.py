"""What standard errors a family's parameters would have at each epsilon, before anything is spent."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from hdpstats.inference.exponential_family import inside, noise_law, sampling_covariance
from hdpstats.models.families import FamilyModel
from hdpstats.models.plan import Plan
from hdpstats.models.request import people_of
from hdpstats.queries.statistics import UNITS

AT_PUBLIC = "Predicted for noisy statistics at the public rows' parameters."
AT_MIDDLE = "Without 25 public rows the prediction, for noisy statistics, is at the middle of the ranges."


def plan_family(model: FamilyModel, *, epsilons: Sequence[Fraction], n: object) -> Plan:
    """Return the plan of fits by noisy sufficient statistics; ``n`` is the number of people, by default the study's."""
    records = people_of(model.study, n)
    public = model.public_estimate
    return Plan(
        frame=pd.concat([_rows(model, epsilon=epsilon, records=records) for epsilon in epsilons], ignore_index=True),
        records=records,
        declared=False,
        assumption=AT_MIDDLE if public is None else AT_PUBLIC,
    )


def _rows(model: FamilyModel, *, epsilon: Fraction, records: int) -> pd.DataFrame:
    family, public = model.family, model.public_estimate
    place = inside(model.guess, model.ranges, records=records)
    through = np.linalg.inv(family.slope(place))
    law = noise_law(family.box, rate=float(epsilon / UNITS), count=records)
    sampling = np.sqrt(np.diag(sampling_covariance(family, place, records=records)))
    privacy = np.sqrt(np.diag((through * law.variance) @ through.T))
    both = np.hypot(sampling, privacy)
    return pd.DataFrame(
        {
            "epsilon": float(epsilon),
            "term": family.parameters,
            "std_error": both,
            "sampling": sampling,
            "privacy": privacy,
            "private_only": both,
            "public_only": np.nan if public is None else public.bse.to_numpy(),
            "reported": True,
        }
    )
