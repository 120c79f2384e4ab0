"""Who is a neighbour of whom: the relation under which a guarantee holds."""

from enum import StrEnum


class Relation(StrEnum):
    """Neighbouring relation between two sets of private records, one record per person.

    ``REPLACE_ONE``: one person's record is replaced by another; the number of records is the same and
    public. The relation of the five papers that the package implements.

    ``ADD_OR_REMOVE_ONE``: one person's record is added or taken away; the number of records is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"

    @property
    def sentence(self) -> str:
        """The relation in plain words, for tables and statements."""
        if self is Relation.REPLACE_ONE:
            return "data sets are neighbours when one person's record is exchanged for any other; their size is public"
        return "data sets are neighbours when one person's record is added or taken away"
