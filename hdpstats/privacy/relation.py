"""Who is a neighbour of whom: the relation under which a guarantee holds."""

from enum import StrEnum


class Relation(StrEnum):
    """Neighbouring relation between two sets of private records, one record per person: all rows of that person.

    ``REPLACE_ONE``: one person's record is replaced by another; the number of records is the same and
    public. The relation of the five papers that the package implements.

    ``ADD_OR_REMOVE_ONE``: one person's record is added or taken away; the number of records is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"

    @property
    def persons_changed(self) -> int:
        """By how many persons' records neighbours differ: 2 where one is replaced, 1 where one is added or removed.

        What one person alone moves a sum by, in any norm, times this number bounds its change between neighbours
        (triangle inequality).
        """
        return 2 if self is Relation.REPLACE_ONE else 1

    def between(self, unit: str, *, most_rows: int = 1) -> str:
        """Say the relation in plain words for a kind of unit with one record, or with several rows that count as one.

        >>> Relation.ADD_OR_REMOVE_ONE.between("patient", most_rows=5)
        'data sets are neighbours when all rows of one patient are added or taken away; their number is not public'
        """
        if most_rows == 1:
            what, verb = f"one {unit}'s record", "is"
        else:
            what, verb = f"all rows of one {unit}", "are"
        if self is Relation.REPLACE_ONE:
            other = "any other" if most_rows == 1 else f"those of any other {unit}"
            size = "their size is public" if most_rows == 1 else "how many rows these are is protected too"
            return f"data sets are neighbours when {what} {verb} exchanged for {other}; {size}"
        return f"data sets are neighbours when {what} {verb} added or taken away; their number is not public"
