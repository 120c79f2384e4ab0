"""Weights of public rows from a density ratio: a logistic regression of who is private.

Objective perturbation in which only private rows are protected. Guarantee: pure epsilon. Source: Ji and Elkan (2013),
corrected. Use: a weighted public sample with many columns, or continuous ones.
Proof: `hdpstats.mechanisms.importance_weights.site`.
"""
