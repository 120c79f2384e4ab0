"""Everything learned from public rows: fits without noise, the geometry they give, moments, what tables of them say.

``fit`` and ``hazard`` prepare whitened rows or spells and a penalised fit; ``moments`` predicts the private score from
them. ``likelihood`` has the ordinary fits of R's ``lm``, ``glm`` and ``rq``. ``outcomes`` lists what public people
might have had, of regressions and survival in modules of their own. ``check`` says how a model does on
public rows (``follow_up``).
"""
