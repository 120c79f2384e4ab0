"""Protocols as data flow: from public state to the next query. A protocol never sees a site.

``public`` prepares the public side (whitened rows, the public fit), ``moments`` predicts the private score from it,
``objective`` turns both and an epsilon into the query of objective perturbation.
"""

from hdpstats.protocols.moments import PublicFit, PublicSide
from hdpstats.protocols.objective import choose_query
from hdpstats.protocols.public import PublicRows, WhitenedPublic, public_rows, whitened_public

__all__ = ["PublicFit", "PublicRows", "PublicSide", "WhitenedPublic", "choose_query", "public_rows", "whitened_public"]
