"""Records that every layer may hold: what queries and releases have in common, models as public numbers, estimates.

The records of one mechanism are in its own package, `hdpstats.mechanisms`. None of them knows a solver or a data frame.
"""
