"""What is raised where a request is refused with a code."""


class Unacceptable(Exception):  # noqa: N818  (a code, not an error)
    """A request is refused with a code of `hdpstats.sites.codes`, and public numbers that go with it."""

    def __init__(self, code: str, **numbers: float) -> None:
        super().__init__(code)
        self.code, self.numbers = code, numbers
