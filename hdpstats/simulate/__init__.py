"""Seeded simulations: trials with a known truth, and published algorithms reproduced. Nothing here is private.

For public or synthetic data only: numpy generators from a seed, exact fits, no ledger.
"""

from hdpstats.simulate import chen_sung as chen_sung
from hdpstats.simulate import ji2014 as ji2014
from hdpstats.simulate import ji_elkan as ji_elkan
from hdpstats.simulate import nguyen_hui as nguyen_hui
from hdpstats.simulate import wang as wang
from hdpstats.simulate.trials import DiscreteTrial, discrete_trial, eight_interval_trial, unit_ball_trial

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
