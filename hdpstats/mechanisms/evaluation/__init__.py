"""How a fitted model does on private people: a noisy table of risk group and outcome.

Two-sided geometric noise on every cell of the table; concordance, Brier score and calibration are computed from it.
Guarantee: pure epsilon. Use: check a released model on the private records (`model.evaluate(result, epsilon=...)`).
Proof: `hdpstats.mechanisms.evaluation.site`.
"""
