"""Families of models, each in a place of its own: rows, bounds with proofs, public side, expected outcomes.

``base`` is what mechanisms may ask of any family, ``parted`` its rows in partitions, ``outcomes`` what people might
have had, ``existence`` whether a likelihood has a maximum, ``several_rows`` how rows of a person count in a regression,
``overlap_weights`` what people weigh by their chance of treatment: a total map, row by row, at public coefficients;
``stacked`` the equations of a model of such people with those of the propensity model.
``regression`` has one linear predictor, ``multinomial`` one for each level of the outcome, ``hazard`` one for each
interval at risk, ``distribution`` none.

``spec`` is what fits, plans and results ask of the model that a user opened, ``row_spec`` what models of people with
one row share, ``overlap_spec`` those of weighted people; each family has a ``spec`` of its own. Only these modules know
a study, its sites and results, and only `hdpstats.models` reads them: all else here is below mechanisms, which ask it.
"""
