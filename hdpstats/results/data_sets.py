"""Which data sets a result rests on: accounts of ledgers tell whether two results are of the same people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from hdpstats.queries import Release, answers_in


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """A data set that a release was made from.

    Attributes
    ----------
    dataset, version : str, int
        What its custodian calls it.
    account : str
        The identity of its account. Data sets and versions with one account are of the same people; empty where it is
        not known.
    """

    dataset: str
    version: int
    account: str

    def __str__(self) -> str:
        return f"data set {self.dataset!r}, version {self.version}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"dataset": self.dataset, "version": self.version, "account": self.account}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "DataSet":
        """Read what `to_dict` wrote."""
        return cls(dataset=str(fields["dataset"]), version=int(fields["version"]), account=str(fields["account"]))


def data_sets_of(releases: Sequence[Release | None]) -> tuple[DataSet, ...]:
    """Return the data sets of releases, each once."""
    entries = [each.entry for release in releases if release is not None for each in answers_in(release)]
    found = (
        DataSet(dataset=entry.dataset, version=entry.version, account=entry.account)
        for entry in entries
        if entry is not None
    )
    return tuple(dict.fromkeys(found))
