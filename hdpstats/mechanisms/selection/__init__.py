"""A private choice among public candidates: how many public points to use, or which coefficients.

Permute-and-flip, exact. Guarantee: pure epsilon. Source: McKenna and Sheldon (2020). Use:
`hdpstats.mechanisms.hybrid_weights`. Proof: `hdpstats.mechanisms.selection.site`.
"""
