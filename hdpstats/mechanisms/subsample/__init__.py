"""Subsample and aggregate: a noisy mean of estimates from disjoint blocks of people.

Guarantee: pure epsilon, one person replaced. Source: Smith (2008); Chen and Sung, algorithm 1, corrected. Use: to
compare with `hdpstats.mechanisms.statistics`, which needs less noise. Proof: `hdpstats.mechanisms.subsample.site`.
"""
