"""A noisy sum of the distances of private people from their nearest public points.

Guarantee: pure epsilon. Source: this package. Use: how well public points cover private people, for
`hdpstats.mechanisms.hybrid_weights`. Proof: `hdpstats.mechanisms.distance.site`.
"""
