"""Seeded simulations: trials with a known truth, and published algorithms reproduced. Nothing here is private.

For public or synthetic data only: numpy generators from a seed, exact fits, no ledger.
"""

from hdpstats.papers import chen_sung, ji2014, ji_elkan, nguyen_hui, wang
from hdpstats.papers.trials import DiscreteTrial, discrete_trial, eight_interval_trial, unit_ball_trial

__all__ = [
    "DiscreteTrial",
    "chen_sung",
    "discrete_trial",
    "eight_interval_trial",
    "ji2014",
    "ji_elkan",
    "nguyen_hui",
    "unit_ball_trial",
    "wang",
]


def __dir__() -> list[str]:
    return __all__
