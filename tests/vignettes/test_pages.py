"""Code blocks of the pages run; every public name, function of R, method of results and vignette is on a page."""

import contextlib
import io
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.vignettes import pages
from tests.vignettes.pages import DOCS, PAGES, ROOT, content, measured

NAMESPACE = (ROOT / "r_bridge" / "R" / "hdpstats" / "NAMESPACE").read_text(encoding="utf-8")
LINKS = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.covering(cases=5)
@pytest.mark.vignette
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("page", pages.with_blocks("python"), ids=pages.named)
def test_blocks_of_python_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, object] = {}
    for block in pages.built_on(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    whole = ""
    for block in pages.blocks(page, "python"):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block, str(page), "exec"), names)
        pages.keep(page, block, printed.getvalue(), tmp_path)
        whole += printed.getvalue() + "\n"
    plt.close("all")
    assert pages.not_printed(page, "python", whole) == []


def test_what_pages_print_is_stated_of_every_page_of_tasks() -> None:
    silent = {"docs/how-to/index", "docs/start/install"}
    shown = {pages.named(page) for language in ("python", "r") for page in pages.with_blocks(language)}
    assert shown - silent - {"docs/reference/index"} == set(pages.SHOWN)


def test_what_a_page_does_not_print_is_missed() -> None:
    page = pages.DOCS / "how-to" / "plan.md"
    printed = "5000 private records\n\nage  0.0087   wanted"
    assert pages.not_printed(page, "r", printed) == []
    assert pages.not_printed(page, "r", printed.replace("87", "88")) == ["0.0087"]


def test_functions_of_the_page_of_formulas_are_read() -> None:
    page = (ROOT / "vignettes" / "explanation" / "formulas.md").read_text(encoding="utf-8")
    table = page.partition("one by one\n")[2].partition("\nWhere bounds")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    read = [formula for cell in first for formula in re.findall(r"`([^`]+)`", cell)]
    assert len(read) > 20
    number = hdp.Continuous(20, 90)
    schema = hdp.Schema(x=number, z=number, a=hdp.Continuous(0, 1), g=hdp.Categorical(["a", "b", "c"]), y=hdp.Binary())
    x = [20 + 70 * place / 59 for place in range(60)]
    rows = pd.DataFrame({"x": x, "z": x[::-1], "a": 0.5, "g": ["a", "b", "c"] * 20, "y": [0, 1] * 30})
    study = hdp.Study(public=rows, schema=schema)
    for formula in read:
        hdpf.logit(f"y ~ {formula}", data=study)


def test_every_public_name_has_a_page() -> None:
    listed = set()
    for page in DOCS.glob("reference/*.rst"):
        listed |= set(re.findall(r"^   (\w+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE))
    modules = {"audit", "datasets", "losses", "mechanisms", "model_matrix", "simulate", "__version__", "BY_NAME"}
    public = {*hdp.__all__, *hdpf.__all__, *dir(hdp.mechanisms), *dir(hdp.losses), *dir(hdp.datasets)} - modules
    assert sorted(public - listed) == []


def test_every_method_of_results_has_a_purpose() -> None:
    by_class = {name: [] for name in content.RESULTS}
    for classes in content.purposes().values():
        for owner, names in classes.items():
            by_class[owner] += names
    for owner, names in by_class.items():
        public = [name for name in dir(getattr(hdp, owner)) if not name.startswith("_")]
        assert sorted(names) == sorted(public), owner


def test_every_function_of_r_has_its_twin() -> None:
    twins = {name: twin for functions in content.twins().values() for name, twin in functions.items()}
    exported = {
        name.strip() for names in re.findall(r"^export\((.*)\)$", NAMESPACE, re.MULTILINE) for name in names.split(",")
    }
    methods = set(re.findall(r"^S3method\(\"?([\w.:\[]+)\"?,", NAMESPACE, re.MULTILINE))
    assert sorted(exported - set(twins)) == []
    assert sorted(set(twins) - exported - methods) == []
    for twin in filter(None, twins.values()):
        content.resolved(twin)


def test_the_gallery_has_every_vignette() -> None:
    listed = re.findall(r"^([\w-]+) = ", (DOCS / "gallery.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "vignettes").iterdir() if path.is_file())


def test_every_word_of_the_glossary_is_used() -> None:
    others = [*PAGES, *ROOT.glob("vignettes/explanation/*.md")]
    text = " ".join(page.read_text(encoding="utf-8").lower() for page in others if page.stem != "glossary")
    words = content.glossary()
    assert len(words) > 30
    assert [word for word in words if word not in text] == []


def measured_pages() -> list[str]:
    found = [*ROOT.glob("vignettes/validation/*.md"), *ROOT.glob("benchmarks/results/*.md")]
    return sorted(pages.named(page) for page in found)


@pytest.mark.parametrize("page", measured_pages())
def test_a_measured_page_says_how_to_repeat_it_and_has_the_tables_of_its_figures(page: str) -> None:
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    assert measured.repeated_by(page)
    for figure in measured.figures():
        if figure.page == page:
            table = measured.of(figure, text)
            numbers = [measured.number(cell).value for name in figure.values for cell in table.column(name)]
            assert sum(number == number for number in numbers) > len(numbers) / 2
            assert f"{len(table.cells)} lines" in measured.described(figure, table)


def test_every_figure_belongs_to_a_measured_page() -> None:
    assert {figure.page for figure in measured.figures()} <= set(measured_pages())


def test_a_figure_shows_the_numbers_of_its_table_and_keeps_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "vignettes/validation/losses"
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    monkeypatch.setattr(measured, "FIGURES", tmp_path / "figures")
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    shown = measured.with_figures(page, text)
    assert "/figures/losses-1.svg\n:alt: coverage of 95 % intervals, 10 lines, by fit, epsilon:" in shown
    assert [line for line in shown.splitlines() if line.startswith("|")] == [
        line for line in text.splitlines() if line.startswith("|")
    ]
    drawn = (tmp_path / "figures" / "losses-1.svg").read_text(encoding="utf-8")
    assert "huber, 1" in drawn


@pytest.mark.parametrize("page", PAGES, ids=pages.named)
def test_links_lead_somewhere(page: Path) -> None:
    made = {DOCS / "gallery.md", DOCS / "reference" / "r.md"}
    made |= {DOCS / "reference" / "from_code" / f"{name}.md" for name in content.FROM_CODE}
    targets = [link for link in LINKS.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    lost = [link for link in targets if not (place := (page.parent / link).resolve()).exists() and place not in made]
    assert lost == []
