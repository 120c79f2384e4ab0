"""A private choice among public candidates: how many public points to use, or which coefficients.

Permute-and-flip (McKenna and Sheldon 2020), exact. Guarantee: pure epsilon. Use:
`hdpstats.mechanisms.hybrid_weights`. Proof: `hdpstats.mechanisms.selection.site`.
"""
