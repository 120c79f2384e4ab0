"""Hybrid differentially private statistics.

Users write ``import hdpstats.api as hdp`` and ``import hdpstats.formula.api as hdpf``.
"""

__version__ = "0.1.0"
