"""Formula constructors: ``import hdpstats.formula.api as hdpf``."""
