"""Families of models, each in a place of its own: rows, bounds with proofs, public side, expected outcomes.

``base`` is what mechanisms may ask of any family, ``parted`` its rows in partitions, ``outcomes`` what people might
have had, ``existence`` whether a likelihood has a maximum. ``regression`` has one linear predictor, ``multinomial`` one
for each level of the outcome, ``hazard`` one for each interval at risk.
"""
