"""What is known about a table before anybody looks at it, and how its cells become numbers.

``columns`` and ``schema`` declare, ``dictionary`` keeps a declaration in YAML, ``derive`` proposes one from
public rows. ``coerce`` maps any cell to a number or a level (``arrow`` those that Arrow holds), ``table`` keeps
the private rows and ``public`` the public ones. ``spells`` maps rows to spells at risk on the intervals of a
discrete-time model, and ``person_period`` writes public ones out as rows. ``datasets`` loads examples.
"""
