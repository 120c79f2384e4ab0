"""What standard errors a family's parameters would have at each epsilon, before anything is spent."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from hdpstats.mechanisms.statistics.estimate import inside, predicted
from hdpstats.models.distribution_fits import DistributionModel
from hdpstats.models.plan import Plan, floor_of
from hdpstats.models.request import people_of

AT_PUBLIC = "Predicted for noisy statistics at the public rows' parameters."
AT_MIDDLE = "Without 25 public rows the prediction, for noisy statistics, is at the middle of the ranges."


def plan_distribution(model: DistributionModel, *, epsilons: Sequence[Fraction], n: object) -> Plan:
    """Return the plan of fits by noisy sufficient statistics, at all sites of the study.

    ``n`` is the number of people, all at one site; by default they are the study's.
    """
    records = people_of(model.study, n)
    sites = [site.records for site in model.study.sites.values()] if n is None else []
    public = model.public_estimate
    rows = [_rows(model, epsilon=epsilon, sites=sites or [records]) for epsilon in epsilons]
    return Plan(
        frame=pd.concat(rows, ignore_index=True),
        records=records,
        declared=False,
        assumption=AT_MIDDLE if public is None else AT_PUBLIC,
        floor=floor_of(model.study),
    )


def _rows(model: DistributionModel, *, epsilon: Fraction, sites: Sequence[int]) -> pd.DataFrame:
    public = model.public_estimate
    place = inside(model.guess, model.ranges, records=sum(sites))
    parts = predicted(model.family, place, records=sites, epsilons=[float(epsilon)] * len(sites))
    sampling, privacy = (np.sqrt(np.diag(part)) for part in parts)
    both = np.hypot(sampling, privacy)
    return pd.DataFrame(
        {
            "epsilon": float(epsilon),
            "mechanism": "statistics",
            "term": model.family.parameters,
            "std_error": both,
            "sampling": sampling,
            "privacy": privacy,
            "private_only": both,
            "public_only": np.nan if public is None else public.bse.to_numpy(),
            "reported": True,
        }
    )
