"""What a site computes with private rows: each mechanism states its guarantee and proves it.

A mechanism sees one person's loss as a `person_loss.PersonLoss` (``regression``, ``hazard``) and works in two stages.
``prepare`` sees public facts only and refuses what its proof does not cover, before anything is charged. ``compute``
sees the rows; it never raises, warns or branches on them in a way that a caller could see. ``registry`` lists every
mechanism once, with its options, query, release and models. ``minimiser`` and ``score_sums`` are what several need.
"""
