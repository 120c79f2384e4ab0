"""What was run in this session, in memory: nothing is written to a disk."""

import fnmatch
from dataclasses import dataclass
from typing import final

_SESSION = 1


@final
@dataclass(frozen=True, kw_only=True)
class _Entry:
    line: int
    code: str
    output: str | None

    def shown(self, output: bool) -> tuple[int, int, object]:
        return _SESSION, self.line, (self.code, self.output) if output else self.code


@final
class History:
    """The inputs of a session with the text of their values."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, line: int, code: str, output: str | None) -> None:
        """Add a cell and the text of its value."""
        self._entries.append(_Entry(line=line, code=code, output=output))

    def tail(self, n: int, *, output: bool) -> list[tuple[int, int, object]]:
        """Return the last ``n`` cells."""
        return [each.shown(output) for each in self._entries[-n:]] if n > 0 else []

    def range(self, session: int, start: int, stop: int | None, *, output: bool) -> list[tuple[int, int, object]]:
        """Return cells by number, from ``start`` to before ``stop``; the present session is 0 or its own number."""
        if session not in (0, _SESSION):
            return []
        return [e.shown(output) for e in self._entries if start <= e.line and (stop is None or e.line < stop)]

    def search(self, pattern: str, n: int | None, *, unique: bool, output: bool) -> list[tuple[int, int, object]]:
        """Return the last ``n`` cells that match a pattern with ``*`` and ``?``; if ``unique``, equal ones once."""
        found = [each for each in self._entries if fnmatch.fnmatchcase(each.code, pattern)]
        if unique:
            found = sorted({each.code: each for each in found}.values(), key=lambda each: each.line)
        return [each.shown(output) for each in (found if n is None else found[-n:] if n > 0 else [])]
