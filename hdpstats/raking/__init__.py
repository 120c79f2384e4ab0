"""Public rows re-weighted and re-scaled to a description of the private people: all of it follows from releases.

``raking`` weights public rows and moves their numbers, so that averages of variables are those described, by the
exponential tilting of ``tilting``; ``correlations`` mixes numbers where averages of products tell how they correlate.
``posterior`` says what the noise of the description leaves open of these averages. ``people`` are raked people in the
geometry of a fit; ``curvature`` has the Hessian and the covariance of the score over them, and says what the public
side of a model must do for it; ``information`` is what follows for a site's curvature and its errors. ``rows`` are
raked rows as a data frame, which effects are averaged over. ``sample_weights`` corrects the weights of a weighted
sample.

The averages are `hdpstats.records.averages`. What a family knows of curvature over raked people is with the family
(`hdpstats.families`), what such people might have had, for noisy sums of clipped scores, with that mechanism.
"""
