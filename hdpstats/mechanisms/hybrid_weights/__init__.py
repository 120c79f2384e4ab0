"""Weights of public rows that make them stand for private people, from noisy counts of nearest points.

Its queries: how many private people each public point stands for (`NeighboursQuery`), how far they are from the points
(`DistanceQuery`), a choice of how many points to use or of coefficients (`SelectionQuery`, `LossSelectionQuery`, by
permute-and-flip), and how far candidates' predictions are from a private fit's (`CurveQuery`).
Guarantee: pure epsilon, all queries of one request together. Source: Wang et al. (2018), corrected; the choices after
McKenna and Sheldon (2020). Use: a weighted public sample that any software can analyse.
Proofs: `hdpstats.mechanisms.hybrid_weights.site` and `hdpstats.mechanisms.hybrid_weights.curve_site`.
"""
