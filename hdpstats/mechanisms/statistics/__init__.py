"""Noisy sums of the sufficient statistics of an exponential family.

Guarantee: pure epsilon, one person replaced. Source: Chen and Sung, algorithm 3, corrected. Use: parameters of one
column's distribution (`hdpf.distribution`). Proof: `hdpstats.mechanisms.statistics.site`.
"""
