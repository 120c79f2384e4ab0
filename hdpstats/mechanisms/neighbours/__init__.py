"""How many private people each of a set of public points stands for.

Each private person is counted at the nearest public point; every count gets two-sided geometric noise.
Guarantee: pure epsilon. Source: Wang et al. (2018), algorithm 1, corrected. Use: `hdpstats.mechanisms.hybrid_weights`.
Proof: `hdpstats.mechanisms.neighbours.site`.
"""
