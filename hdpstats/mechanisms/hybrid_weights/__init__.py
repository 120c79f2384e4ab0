"""Weights of public rows that make them stand for private people, from noisy counts of nearest points.

Guarantee: pure epsilon, all queries of one request together. Source: Wang et al. (2018), corrected. Use: a weighted
public sample that any software can analyse. Its queries: `hdpstats.mechanisms.neighbours`,
`hdpstats.mechanisms.distance`, `hdpstats.mechanisms.selection`, `hdpstats.mechanisms.curve`.
"""
