"""The pages as they are built: without a warning, by the rules of axe-core, read by keyboard, and found by search."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page

from tests.browser import SECONDS, look_with_a_browser
from tests.r.conftest import once  # noqa: F401 — a fixture shared with the tests of R
from tests.vignettes.pages import ROOT

TYPES = {
    "home": "docs/index",
    "cards": "docs/start/index",
    "steps": "docs/start/start-here",
    "a task": "docs/how-to/nan",
    "questions": "docs/understand/questions",
    "glossary": "docs/about/glossary",
    "gallery": "docs/gallery",
    "a vignette": "vignettes/describe-the-cohort",
    "a vignette in R": "vignettes/logistic-in-irkernel",
    "a proof": "vignettes/explanation/objective-perturbation",
    "a measured page": "vignettes/validation/losses",
    "a decision": "vignettes/decisions/0007-mixed-accounts",
    "a list of names": "docs/reference/results",
    "a name": "docs/reference/generated/hdpstats.api.Ledger",
    "a help page of R": "docs/reference/r/dp_logit",
    "a table from code": "docs/reference/from_code/errors",
    "the search": "search",
}
"""A page of each type."""
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
COLOURS = {"resultTypes": ["violations"], "runOnly": ["color-contrast", "link-in-text-block"]}
RULES = {"light": {"resultTypes": ["violations"]}, "dark": COLOURS}
"""By colour scheme, the rules of axe-core: what is dark differs by its colours only."""

FOUND = {
    "how to write a spline": "vignettes/explanation/formulas",
    "what epsilon means for a patient": "docs/understand/privacy-in-plain-words",
    "average_effects R": "docs/start/coming-from",
    "why is a standard error NaN": "docs/how-to/nan",
    "proof of objective perturbation": "vignettes/explanation/objective-perturbation",
    "what must a custodian back up": "docs/understand/questions",
    "how to report in a paper": "docs/how-to/report",
    "unit=": "docs/how-to/several-rows",
    "how to choose epsilon": "docs/how-to/choose-epsilon",
    "how to pool sites": "docs/how-to/many-sites",
    "missing values": "docs/how-to/declare-a-schema",
    "hazard ratios": "docs/how-to/hazards",
    "weights": "docs/how-to/weighted-samples",
    "install offline": "docs/start/install",
    "Table 1": "docs/how-to/table-1",
    "plan a sample size": "docs/how-to/plan",
    "read a ledger": "docs/how-to/keep-a-ledger",
    "rotate keys": "docs/how-to/keep-a-ledger",
    "delta": "docs/understand/privacy-in-plain-words",
    "cite": "docs/about/cite",
    "subset": "docs/how-to/subgroups",
    "only women": "docs/how-to/subgroups",
    "seed": "docs/how-to/reproduce",
    "reproducible": "docs/how-to/reproduce",
    "p-value": "docs/how-to/tests-and-effects",
    "multiple comparisons": "docs/how-to/tests-and-effects",
    "random effects": "docs/how-to/several-rows",
    "ethics committee": "docs/about/what-may-i-write",
    "remaining budget": "docs/how-to/keep-a-ledger",
    "save a result": "docs/how-to/report",
    "revoke an analyst": "docs/how-to/what-to-do-when",
    "stratify": "docs/how-to/hazards",
    "time-varying covariate": "docs/how-to/hazards",
    "cluster robust standard errors": "docs/how-to/several-rows",
}
"""Which page answers what readers ask the search for; it is among the first two that the search lists."""
LISTED = "#search-results ul.search > li > a"
DONE = "() => /Search finished|did not match/.test(document.querySelector('#search-results').innerText)"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):  # noqa: A002 — the name of the library
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder to this machine; yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def built(once) -> Path:  # noqa: F811
    """The pages as `make docs` builds them; a warning is an error."""

    def build(place: Path) -> None:
        options = ("-W", "--keep-going", "-q", "-b", "html", "-c", "docs", "-d", "docs/_doctrees")
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *options, ".", str(place)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return once("pages", build)


def opened_page(opened: BrowserContext) -> Page:
    """Open a page that waits as long as a machine under load needs."""
    page = opened.new_page()
    page.set_default_timeout(1000 * SECONDS)
    return page


def asked(page: Page, address: str, words: str) -> list[str]:
    """Return the pages that the search lists for some words, best first."""
    page.goto(f"{address}/search.html?q={quote(words)}")
    page.wait_for_function(DONE)
    links = page.locator(LISTED).evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return list(dict.fromkeys(link.partition("?")[0].partition("#")[0].removesuffix(".html") for link in links))


@pytest.mark.parametrize("colours", RULES)
@pytest.mark.parametrize("screen", SCREENS)
def test_every_type_of_page_is_accessible(built: Path, screen: str, colours: str, tmp_path: Path) -> None:
    def look(opened: BrowserContext, attempt: int) -> None:
        page = opened_page(opened)
        page.set_viewport_size(SCREENS[screen])
        page.emulate_media(color_scheme=colours)
        found = []
        for name in TYPES.values():
            if name == "search":
                assert asked(page, address, "epsilon")
            else:
                page.goto(f"{address}/{name}.html")
            assert page.locator("html").get_attribute("data-theme") == colours
            for violation in Axe().run(page, options=RULES[colours]).response["violations"]:
                found.append((name, violation["id"], [node["html"] for node in violation["nodes"]]))
            beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            if (wide := page.evaluate(beyond)) > 0:
                found.append((name, "wider than the screen", wide))
        assert found == []

    with served(built) as address:
        look_with_a_browser(tmp_path, look)


def test_the_search_answers_what_readers_ask(built: Path, tmp_path: Path) -> None:
    def look(opened: BrowserContext, attempt: int) -> None:
        page = opened_page(opened)
        listed = {words: asked(page, address, words)[:2] for words in FOUND}
        assert {words: listed[words] for words, name in FOUND.items() if name not in listed[words]} == {}

    with served(built) as address:
        look_with_a_browser(tmp_path, look)


FOCUSED = """() => {
    const at = document.activeElement, box = at.getBoundingClientRect();
    const style = getComputedStyle(at);
    return {what: at.tagName, text: (at.innerText || at.getAttribute('aria-label') || '').trim(),
            href: at.getAttribute('href') || '', seen: box.width > 0 && box.height > 0,
            ring: style.outlineStyle !== 'none' || style.boxShadow !== 'none'};
}"""


def test_pages_can_be_read_with_the_keyboard_alone(built: Path, tmp_path: Path) -> None:
    """The first Tab skips to the text, each stop is seen, R is chosen by an arrow, and search needs no pointer."""

    def look(opened: BrowserContext, attempt: int) -> None:
        page = opened_page(opened)
        page.goto(f"{address}/docs/how-to/nan.html")
        page.keyboard.press("Tab")
        assert "main content" in page.evaluate(FOCUSED)["text"]
        stops = []
        for _ in range(60):
            page.keyboard.press("Tab")
            stops.append(page.evaluate(FOCUSED))
        assert all(stop["seen"] and stop["ring"] for stop in stops if stop["what"] not in ("INPUT", "BODY")), stops
        assert any("plan" in stop["href"] for stop in stops)
        page.locator("input[id^='sd-tab-item']").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_text("dp_study(private = rotterdam").first.is_visible()
        page.keyboard.press("Control+k")
        page.wait_for_function("() => document.activeElement.type === 'search'")
        page.keyboard.type("spline")
        page.keyboard.press("Enter")
        page.wait_for_function(f"() => {{ const said = document.querySelector('{LISTED}'); return said !== null; }}")
        page.wait_for_function(DONE)
        page.locator(LISTED).first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/formulas.html*")

    with served(built) as address:
        look_with_a_browser(tmp_path, look)
