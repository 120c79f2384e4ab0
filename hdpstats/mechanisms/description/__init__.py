"""A description of the cohort: by group, numbers of people, shares, moments, quartiles and follow-up.

Box noise on sums of centred features, one box for each group, and two-sided geometric noise on counts of public cells;
normal noise for both where a delta is given and it is smaller. Guarantee: pure epsilon, or (epsilon, delta). Source:
Hardt and Talwar (2010), Woodruff (1952). Use: a paper's first table, and the moments of complete cases that fits need
to know. Proof: `hdpstats.mechanisms.description.site`.
"""
