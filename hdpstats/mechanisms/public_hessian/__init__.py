"""Newton steps with a public Hessian and noisy private gradients.

Guarantee: pure epsilon, or (epsilon, delta) with normal noise. Source: Ji et al. (2014), algorithms 1 and 2, corrected.
Use: to reproduce the paper, to teach and to compare; `hdpstats.mechanisms.clipped_newton` needs less noise.
Proof: `hdpstats.mechanisms.public_hessian.site`.
"""
