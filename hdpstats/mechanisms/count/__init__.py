"""A noisy number of people.

Two-sided geometric noise of scale 1/epsilon on a count. Guarantee: pure epsilon. Source: Ghosh, Roughgarden and
Sundararajan (2012). Use: where one person may be added or removed, so that the number of people is private.
Proof: `hdpstats.mechanisms.count.site`.
"""
