"""What is known about a table before any cell is read, and how its cells become numbers.

* ``advice``: Why cells of a file are no values of their declared kind, in words that say what to do.
* ``cell_maps``: Total maps from the cells of a column to numbers and to level codes; what is missing.
* ``check``: What a file holds that its schema does not expect: a check for the custodian, who holds the rows.
* ``columns``: Kinds of column: what the custodian declares about a column before any cell is read.
* ``datasets``: Rows that anybody may see: five public studies of R's ``survival`` package, and invented rows.
* ``dictionary``: The data dictionary: a schema as a YAML file that a custodian can read, edit and keep.
* ``parquet``: Private rows in Parquet files, read in parts: more of them than memory holds, from one file or many.
* ``partitions``: Private rows in partitions, in this process or on a Dask cluster: what a mechanism computes of each,
  and exact sums.
* ``persons``: Which person a row is of: total maps from the cells of the column that ``unit=`` names to persons.
* ``public``: The public rows: checked with errors that name a cell, cleaned as R's ``glm`` does, and named by a hash.
* ``schema``: The schema: which columns there are and what each may hold, never learned from private rows.
* ``site_facts``: What is public about a site's records.
* ``spells``: Spells at risk on the intervals of a discrete-time model: one total map for every form of survival data.
* ``stored_columns``: Numbers as files hold them, which are mapped to declared bounds where they are read.
* ``synthetic``: Invented rows, to try code on before anything is spent: drawn from the schema and from public rows,
  and marked so.
* ``table``: The private rows: held, mapped through the schema, and shown to nobody.
"""
