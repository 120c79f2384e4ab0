"""Debian's Chromium, for tests that look at pages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Error, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SECONDS = 120
BROWSERS = 9
"""How many are started where the process of Chromium itself ends, as Debian's does now and then by a segmentation
fault in its search for fonts: all of them with probability 1e-9 if each did with probability 0.1. A page that crashes,
or a look that fails, leaves the browser there.
"""


@contextmanager
def browser(profile: Path) -> Iterator[BrowserContext]:
    """Start Debian's Chromium, with an empty profile."""
    with sync_playwright() as engine:
        opened = engine.chromium.launch_persistent_context(
            str(profile),
            executable_path=CHROMIUM,
            args=list(FLAGS),
            viewport={"width": 1200, "height": 1000},
            timeout=1000 * SECONDS,
        )
        try:
            yield opened
        finally:
            opened.close()


def look_with_a_browser(folder: Path, look: Callable[[BrowserContext, int], None]) -> None:
    """Call a function with a browser and the number of the attempt; again where the browser's own process ended."""
    ended: list[str] = []
    for attempt in range(BROWSERS):
        profile = str(folder / f"profile-{attempt}")
        lived = False
        try:
            with browser(Path(profile)) as opened:
                opened.on("close", lambda *, profile=profile: ended.append(profile))
                try:
                    look(opened, attempt)
                except (Error, AssertionError):
                    lived = profile not in ended
                    raise
            return
        except (Error, AssertionError):
            if lived or attempt == BROWSERS - 1:
                raise
