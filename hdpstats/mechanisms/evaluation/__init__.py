"""How a fitted model does on private people: a noisy table of risk group and outcome.

Two-sided geometric noise on every cell of the table; concordance, Brier score and calibration are computed from it.
Guarantee: pure epsilon. Source: this package; the noise after Ghosh, Roughgarden and Sundararajan (2012).
Use: check a released model on the private records (`model.evaluate(result, epsilon=...)`).
Proof: `hdpstats.mechanisms.evaluation.site`.
"""
