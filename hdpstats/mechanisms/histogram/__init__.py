"""A noisy histogram on a public grid.

Guarantee: pure epsilon. Source: Lei (2011). Use: models of few columns without any public record.
Proof: `hdpstats.mechanisms.histogram.site`.
"""
