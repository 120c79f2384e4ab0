"""Protocols as data flow: from public state to the next query. A protocol never sees a site.

``public`` and ``hazard`` prepare the public side (whitened rows or spells, the public fit), from which ``moments``
predicts the private score. ``objective`` and ``hazard_objective`` turn both and an epsilon into the query of objective
perturbation; ``output`` and ``sampling`` turn that one into their own. ``gradient`` asks in rounds: ``outcomes`` lists
what public people might have had, ``expectations`` are over them, ``matching`` finds the coefficients that fit the
answers, and ``foresight`` says beforehand by what they will err. ``newton`` asks in
rounds too, and steps with a public Hessian. ``pooling`` says how far apart the public and the private source may be.
``importance`` asks for a density ratio, in a coding of ``ratio_coding``.
"""

from hdpstats.protocols.moments import PublicFit, PublicSide
from hdpstats.protocols.objective import choose_query
from hdpstats.protocols.public import PublicRows, WhitenedPublic, public_rows, whitened_public

__all__ = ["PublicFit", "PublicRows", "PublicSide", "WhitenedPublic", "choose_query", "public_rows", "whitened_public"]
