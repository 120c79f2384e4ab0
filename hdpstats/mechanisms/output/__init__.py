"""Output perturbation: noise on the certified minimiser of the penalised sum of losses.

Guarantee: pure epsilon, or (epsilon, delta) with normal noise where that is smaller. Source: Nguyen and Hui (2017),
algorithm 1, corrected. Use: losses that have a bounded gradient and nothing else.
Proof: `hdpstats.mechanisms.output.site`.
"""
