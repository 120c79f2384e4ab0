"""Seeded simulations: trials with a known truth, and published algorithms reproduced. Nothing here is private.

For public or synthetic data only: numpy generators from a seed, exact fits, no ledger.

* ``chen_sung``: The algorithms of Chen and Sung, as printed and as corrected, on simulated parties. NOT private.
* ``ji2014``: The distributed logistic regression of Ji et al. (2014), as printed and corrected, with its baselines.
  NOT private.
* ``ji_elkan``: The importance weights of Ji and Elkan (2013) on public or synthetic records, as printed. NOT private.
* ``nguyen_hui``: The algorithms of Nguyen and Hui (2017) on public or synthetic data, as printed and corrected. NOT
  private.
* ``trials``: What the reproduced algorithms share: seeded generators, noise as printed, exact logistic fits. NOT
  private.
* ``wang``: The experiments of Wang et al. (2018) on simulated or public records, its algorithms as printed. NOT
  private.
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
