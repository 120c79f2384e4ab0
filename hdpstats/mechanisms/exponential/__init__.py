"""The exponential mechanism: one draw from the tempered posterior on a box.

The draw is exact, by rejection; delta bounds the probability that no proposal is accepted.
Guarantee: (epsilon, delta). Source: Nguyen and Hui (2017), algorithm 3, made exact (McSherry and Talwar 2007).
Use: to reproduce the paper, or with few coefficients. Proof: `hdpstats.mechanisms.exponential.site`.
"""
