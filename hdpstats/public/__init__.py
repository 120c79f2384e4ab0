"""Everything learned from public rows: fits without noise, the geometry they give, moments, what tables of them say.

``fit`` and ``hazard`` prepare whitened rows or spells and a penalised fit; ``moments`` predicts the private score from
them. ``likelihood`` has the ordinary fits of R's ``lm``, ``glm`` and ``rq``, ``hazard_fit`` those of hazards.
``outcomes`` and ``survival_outcomes`` list what public people might have had. ``people`` are those beside the rows as
they are: invented, or raked (``raking``). ``risk_sets`` has Kaplan-Meier's curves and the log-rank test, ``follow_up``
how a model does on public rows.
"""
