"""Objective perturbation: a random linear term is added to the penalised sum of losses before it is minimised.

Guarantee: pure epsilon, or (epsilon, delta) with normal noise where that is smaller; it survives a finite solver and
floating point. Source: Chaudhuri, Monteleoni and Sarwate (2011); Nguyen and Hui (2017), algorithm 2, corrected.
Use: the default of every regression; at several sites without a delta. Proof: `hdpstats.mechanisms.objective.site`.
"""
