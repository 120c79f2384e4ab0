"""Formula constructors: ``import hdpstats.formula.api as hdpf``.

* ``api``: Lower-case constructors that take a formula and a study, as ``statsmodels.formula.api`` does.
"""
