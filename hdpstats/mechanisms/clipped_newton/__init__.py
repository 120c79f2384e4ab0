"""Newton steps with noisy sums of clipped scores, solved against public people.

Each round releases one sum of scores, each cut to a length, with normal noise (exactly mu-GDP), or with noise of pure
epsilon in a single round. The bias of clipping is taken out by public people with all outcomes that each might have.
Guarantee: (epsilon, delta), pure for one round. Source: this package; clipping after Abadi et al. (2016), moments
matched as in M-estimation. Use it at one site where the cohort is described or public people resemble private ones:
its noise is the smallest.
Proof: `hdpstats.mechanisms.clipped_newton.site`.
"""
