"""What is known about a table before any cell is read, and how its cells become numbers.

``columns`` and ``schema`` declare and find declared columns, ``column`` is what kinds of column have in common,
``dictionary`` keeps a declaration in YAML or proposes one from public rows. ``coerce`` maps any cell to a number or a
level, ``persons`` the cells of the column that ``unit=`` names to persons. ``table`` keeps the private rows and
``public`` the public ones. ``partitions`` is what mechanisms are given of private rows, which ``parquet`` reads in
parts, as ``stored`` says. ``spells`` maps rows to spells at risk on the intervals of a discrete-time model, and writes
public ones out as rows. ``site_facts`` is what is public about a site's records. ``check`` tells the custodian what in
a file is not as declared, and ``advice`` why. ``datasets`` loads examples, and invents rows.
"""
