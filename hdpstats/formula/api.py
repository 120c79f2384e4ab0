"""Lower-case constructors that take a formula and a study, as ``statsmodels.formula.api`` does.

>>> import hdpstats.api as hdp
>>> import hdpstats.formula.api as hdpf
>>> schema = hdp.Schema(age=hdp.Continuous(20, 90), event3=hdp.Binary())
>>> study = hdp.Study(public=hdp.datasets.load_gbsg(), schema=schema)
>>> hdpf.logit("event3 ~ age", data=study)
<Logit: event3 ~ age>
"""

from hdpstats.models import DiscreteHazard, Distribution, Linear, Logit, MEstimator, Quantile

distribution = Distribution.from_formula
hazard = DiscreteHazard
linear = Linear.from_formula
logit = Logit.from_formula
mestimate = MEstimator.from_formula
quantile = Quantile.from_formula

__all__ = ["distribution", "hazard", "linear", "logit", "mestimate", "quantile"]
