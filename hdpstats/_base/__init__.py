"""What all packages use.

``errors`` are all errors that the package raises, and ``validation`` reads arguments and raises them. ``typing`` names
types of arrays, ``time_units`` those of time. ``precision`` has contexts of exact arithmetic, ``caching`` keeps results
of pure functions. ``compiled`` compiles loops over rows, with ``intrinsics`` and ``products`` (a matrix times columns)
for them. ``work`` counts operations, which ``rehearsal`` checks on invented rows. ``no_warnings`` keeps computations on
rows from warning, and ``progress`` shows how far others are. ``new_files`` writes files that replace no other.
"""
