"""Whom a request is for, as a file beside it: a site answers only where its analyst named it.

Whoever carries a request is not believed about that. A carrier's signature may be of each file by itself, as FLARE's
is: two files that an analyst signed can be put together, whichever jobs he signed them for, and be given other names.
So the file says which request it is for. It is canonical JSON and a line's end:

``format``   ``"hdpstats asked sites 1"``
``request``  the SHA-256 of the request
``sites``    the names of the sites, as the carrier has them, in the order in which they are asked
"""

from dataclasses import dataclass
from typing import Final, Self, final

from hdpstats._base.errors import ArgumentError
from hdpstats._base.validation import shown
from hdpstats.exchange.files import Place, fields_in, read_bytes
from hdpstats.records import codec

FORMAT: Final = "hdpstats asked sites 1"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AskedSites:
    """The sites that one request is for.

    Attributes
    ----------
    request_sha256 : str
        Which request.
    names : tuple of str
        The sites.
    """

    request_sha256: str
    names: tuple[str, ...]

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return codec.dumps({"format": FORMAT, "request": self.request_sha256, "sites": list(self.names)})

    @classmethod
    def read(cls, path: Place) -> Self:
        """Read a file.

        Raises
        ------
        Unreadable
            There is no such file, or the system cannot read it now.
        ArgumentError
            It is something else.
        """
        fields, text = fields_in(read_bytes(path, name="sites"), name="sites", format=FORMAT, place=path)
        request, names = fields.get("request"), fields.get("sites")
        if isinstance(request, str) and isinstance(names, list) and all(isinstance(each, str) for each in names):
            found = cls(request_sha256=request, names=tuple(names))
            if found.to_json() == text:
                return found
        raise ArgumentError(
            f"sites: {shown(str(path))} does not name the sites of a request; write the job anew", argument="sites"
        )
