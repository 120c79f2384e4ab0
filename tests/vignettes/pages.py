"""The pages' code blocks, and what is written by hand for them in `docs`."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "how-to" / "index.md"
PAGES = sorted([ROOT / "README.md", DOCS / "index.md", *DOCS.glob("[!r]*/*.md")])
"""Every page but the reference's, and README."""


SHOWN = {
    "README": {
        "": ("Predicted standard errors, 2982 private records; nothing is spent", "1-differential privacy (pure)"),
    },
    "docs/index": {
        "": (
            "Predicted standard errors, 2982 private records; nothing is spent",
            "age 0.0090",
            "1-differential privacy (pure)",
        ),
    },
    "docs/how-to/invented-rows": {
        "python": ("True",),
        "r": ("data set: invented rows",),
    },
    "docs/start/start-here": {
        "": (
            "Not declared: meno, pgr, er, time, event: nothing reads them",
            "Every cell that is not empty is a value of its declared kind.",
            "<study: private records at 1 site, 686 public rows, 6 declared columns; replace_one, one row per person>",
            "grade3 0.2220",
            "public only",
            "private only",
            "of epsilon, 1.0% for the number of people who count",
            "Logistic regression was fitted with the formula event3 ~ age + size + grade3 + log1p(nodes) + hormon.",
            "spent 1 0",
            "3 charges, relation replace_one",
        ),
        "r": ("q.p.value", "size>50 0.4065", "[1] TRUE"),
        "python": ("size[T.>50] 0.4065", "Private vs public: Cochran's Q", "relation replace_one True"),
    },
    "docs/start/first-errors": {"": ("Nothing was charged",), "python": ("left: ",)},
    "docs/how-to/check-a-file": {"": ("'event': it is coded 1 and 2, not 0 and 1",)},
    "docs/how-to/treatment-effects": {
        "": (
            "Predicted standard errors of event3 ~ hormon, 2982 private people; nothing is spent",
            "Effect of hormon on event3, differentially private",
            "2-differential privacy (pure) in all: 1 for the effect, 1 for the propensity model",
            "Records without a value of event3 were left out.",
            "Balance before and after weighting, differentially private",
            "Predicted standard errors of Surv(time, event) ~ hormon, 2982 private people; nothing is spent",
            "Kaplan-Meier curves of Surv(time, event) ~ hormon were estimated by group.",
        ),
    },
    "docs/how-to/effects-of-several-rows": {
        "": (
            "Predicted standard errors of flare ~ drug, 3000 private people; nothing is spent",
            "Effect of drug on flare, differentially private",
            "outcome is a person's mean over 4 rows at most",
            "2-differential privacy (pure) in all: 1 for the effect, 1 for the propensity model",
        ),
    },
    "docs/how-to/choose-epsilon": {"r": ("0.0091",), "python": ("standard errors about 53% smaller",)},
    "docs/how-to/declare-a-schema": {"": ("unknown",), "r": ("I | II | III | unknown",)},
    "docs/how-to/hazards": {"": ("log1p(nodes)",), "r": ("1.946413", "1825"), "python": ("1.95",)},
    "docs/how-to/keep-a-ledger": {"": ("1 entry verifies",)},
    "docs/how-to/logistic": {"": ("1-differential privacy (pure)", "-0.65753", "1.083688")},
    "docs/how-to/many-sites": {
        "": ("Bergen", "Bodo", "Oslo", "answered", "Effect of hormon on event3, of 3 sites, differentially private")
    },
    "docs/how-to/nan": {"": ("and nothing was charged: there are not 40 complete public rows",)},
    "docs/how-to/other-outcomes": {"r": ("20-50:age",), "python": ("age",)},
    "docs/how-to/plan": {"": ("5000 private records", "0.0087", "wanted")},
    "docs/how-to/report": {
        "": (
            "Logistic regression was fitted with the formula event3 ~ age + hormon.",
            "This release is 1-differentially private",
            "- Dwork C, McSherry F, Nissim K, Smith A (2006).",
        ),
    },
    "docs/how-to/reproduce": {"python": ("the same: True", "read: True"), "r": ("the same: TRUE", "read: TRUE")},
    "docs/how-to/request-files": {"": ("request.json",)},
    "docs/how-to/several-rows": {"": ("1200 private records; nothing is spent", "0.0849")},
    "docs/how-to/subgroups": {
        "": ("hormon + hormon:grade3 = 0", "risk difference"),
        "python": ("418 rows of the given frame",),
    },
    "docs/how-to/survival-curves": {"": ("log-rank information kept", "1095")},
    "docs/how-to/table-1": {"": ("1.3-differential privacy (pure) in all: 1 for the fit, 0.3 for the description",)},
    "docs/how-to/tests-and-effects": {
        "": ("risk difference",),
        "r": ("Wald tests of terms", "size>50 - size20-50 = 0", ">50 - 20-50"),
    },
    "docs/how-to/weighted-samples": {"": ("20-50", "share"), "r": ("grade3",)},
    "docs/how-to/without-public-rows": {"": ("grade3 ", "3-differential privacy (pure)")},
}
"""What the blocks of a page print that does not depend on noise: in both languages, and in one of them."""


def not_printed(page: Path, language: str, printed: str) -> list[str]:
    """Return what the blocks of a page should have printed and did not; blanks and breaks of lines do not count."""
    stated = SHOWN.get(named(page), {})
    text = " ".join(printed.split())
    return [each for each in (*stated.get("", ()), *stated.get(language, ())) if each not in text]


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_of_pages", DOCS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


content = _module("content")
measured = _module("measured")


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a page that run: their fence says ``python`` or ``r``, and is no directive."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def built_on(page: Path, language: str) -> list[str]:
    """Return the blocks that a page builds on: how to do something begins with the study that the index shows."""
    return blocks(INDEX, language) if page.parent == INDEX.parent and page != INDEX else []


def with_blocks(language: str) -> list[Path]:
    """Return the pages with blocks of a language."""
    return [page for page in PAGES if blocks(page, language)]


def named(page: Path) -> str:
    """Return a page's name, ``docs/how-to/plan``."""
    return page.relative_to(ROOT).with_suffix("").as_posix()


def keep(page: Path, block: str, printed: str, folder: Path) -> None:
    """Keep what a block printed, for the pages; nothing where it printed nothing."""
    place = content.block_place(named(page), block)
    if printed.strip():
        content.keep(place, printed.replace(f"{folder}/", "").rstrip() + "\n")
