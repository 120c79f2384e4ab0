"""What a site computes with private rows: each mechanism states its guarantee and proves it.

A mechanism sees one person's loss as a `person_loss.PersonLoss` (``regression``, ``hazard``) and works in two stages.
``prepare`` sees public facts only and refuses what its proof does not cover, before anything is charged. ``compute``
sees the rows; it never raises, warns or branches on them in a way that a caller could see. ``answering`` says which
mechanism answers which query: ``objective``, ``output``, ``sampling`` and ``gradient`` release coefficients or what
leads to them, ``importance`` those of a density ratio (by the first two), ``count`` the number of people and
``evaluation`` a table. ``minimiser``, ``knorm`` and ``curvature`` are what several of them need; ``options`` are what
users may choose.
"""
