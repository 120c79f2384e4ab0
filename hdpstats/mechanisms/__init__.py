"""What a site computes with private rows: each mechanism states its guarantee and proves it.

Each mechanism is a package. The package itself holds the option that users choose, the query that crosses to a site and
the release that answers it; ``site`` computes and proves, ``request`` chooses a query from public facts, ``estimate``
reads releases.
A mechanism sees one person's loss as a `person_loss.PersonLoss` (``regression``, ``hazard``) and works in two stages.
``prepare`` sees public facts only and refuses what its proof does not cover, before anything is charged. ``compute``
sees the rows; it never raises, warns or branches on them in a way that a caller could see. ``registry`` lists every
mechanism once, with its options, query, release and models. ``minimiser`` and ``score_sums`` are what several need.
"""
