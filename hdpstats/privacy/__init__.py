"""Relations, budgets, sensitivities, events and guarantees. No data and no data frame.

Four words are kept apart: a *budget* is offered, an *event* ran, a *guarantee* holds, a *ledger*
records.

* ``budget``: Amounts of privacy, offered (`Budget`) and spent (`Spend`), in exact arithmetic; what ran, and what it
  guarantees.
* ``composition``: What several releases cost together: what each is charged, what is left of a total, and the proofs.
* ``proof_index``: Where the proof of each mechanism stands, and what it rests on in the literature.
* ``gaussian``: Gaussian differential privacy: certified bounds between (epsilon, delta) and the one parameter ``mu``.
* ``sensitivity``: How far one person can move a query: a number that never travels without its norm and its relation.

* ``hazard_sensitivity``: How far one person can move a capped discrete-time hazard model: gradient, curvature, and both
  together.
"""
