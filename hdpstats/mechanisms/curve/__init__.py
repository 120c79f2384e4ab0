"""A performance curve: how far the predictions of candidates are from those of a private ridge fit.

Guarantee: pure epsilon. Source: Wang et al. (2018), algorithm 2, corrected. Use: choose how many public points
represent the private people (`hdpstats.mechanisms.hybrid_weights`). Proof: `hdpstats.mechanisms.curve.site`.
"""
