"""Distributions of one column, by sufficient statistics; the distributions themselves: `hdpstats.losses.families`.

* ``spec``: A family of distributions on a study: arguments checked against the schema, and public facts.
"""
