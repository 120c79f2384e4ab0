"""JupyterLab in a real browser opens a notebook, runs it, and shows its tables and plots, in light and in dark."""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, takewhile
from pathlib import Path

import jupytext
import nbformat
import psutil
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from r_bridge.kernel import install
from tests import forked
from tests.browser import SECONDS, look_with_a_browser
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight are on the page, too
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
SERVER = """
from jupyterlab.labapp import main
from tests import forked
from tests.browser import SECONDS, look_with_a_browser
with forked.kernels():
    main()
"""
INLINE = "module://matplotlib_inline.backend_inline"  # what a kernel sets where matplotlib is not imported yet
PORTS = range(2**14, 2**15)
"""Where the server looks for a free port. It lets go what it finds before it listens there; here, below Linux's range
of ports that are handed out, no other program is given it meanwhile.
"""
ERROR = "[data-mime-type='application/vnd.jupyter.error']"
DONE = """error => {
    const cells = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')];
    const done = cells.every(prompt => /^\\[\\d+\\]:$/.test(prompt.innerText.trim()));
    return document.querySelector(error) || cells.length > 1 && done;
}"""
# Contrasts of the text of visible cells with what is behind it, by WCAG 2: (lighter + 0.05) / (darker + 0.05).
CONTRASTS = """cells => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = colour => {
        const [r, g, b] = numbers(colour).map(v => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const clear = part => (numbers(getComputedStyle(part).backgroundColor)[3] ?? 1) < 1;
    return cells.filter(cell => cell.checkVisibility()).map(cell => {
        let behind = cell;
        while (behind.parentElement && clear(behind)) behind = behind.parentElement;
        const pair = [light(getComputedStyle(cell).color), light(getComputedStyle(behind).backgroundColor)];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    });
}"""
PLOTS = "iframe.jp-OutputArea-output, .jp-OutputArea-output img"
# How many colours a plot has, in a frame of its own or not; nothing drawn is one.
COLOURS = """plot => {
    const image = plot.contentDocument ? plot.contentDocument.querySelector('img') : plot;
    const paper = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d');
    paper.drawImage(image, 0, 0);
    const pixels = paper.getImageData(0, 0, image.naturalWidth, image.naturalHeight).data;
    return new Set(new Uint32Array(pixels.buffer)).size;
}"""


@contextmanager
def laboratory(folder: Path, runtime: Path) -> Iterator[tuple[str, str]]:
    """Run JupyterLab over a folder, for this machine only, without anybody's settings; yield its address and token.

    Its kernels are reached at Unix sockets in the other folder, whose path must be short.
    """
    places = {
        name: str(folder.parent / name.lower())
        for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR",
                     "JUPYTERLAB_WORKSPACES_DIR")
    }  # fmt: skip
    for place in places.values():
        Path(place).mkdir()
    places["JUPYTER_RUNTIME_DIR"] = str(runtime)
    for name, setting in SETTINGS.items():
        file = Path(places["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab", f"{name}.jupyterlab-settings")
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(json.dumps(setting), encoding="utf-8")
    options = (
        "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={PORTS[os.getpid() % len(PORTS)]}",
        f"--notebook-dir={folder}", "--KernelManager.transport=ipc",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly", "--ServerApp.terminals_enabled=False",
    )  # fmt: skip
    log = folder.parent / "server.log"
    with log.open("w", encoding="utf-8") as written, forked.kernels():
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, *options],
            env=os.environ | places | {"PYTHONPATH": str(ROOT), "MPLBACKEND": INLINE},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        address, token = _announced(server, runtime, log)
        yield address, token
        _ask_to_stop(address, token)  # stops its kernels first
        server.wait(SECONDS)
    finally:
        server.terminate()
        server.wait(SECONDS)


def _announced(server: "subprocess.Popen[bytes]", runtime: Path, log: Path) -> tuple[str, str]:
    """Wait until a server has written where it answers; return its address and token."""

    def written() -> list[Path]:
        assert server.poll() is None, log.read_text(encoding="utf-8")
        return [file for file in runtime.glob("jpserver-*.json") if file.read_text(encoding="utf-8").endswith("}")]

    said = json.loads(until(written, log.read_text, pause=0.2)[0].read_text(encoding="utf-8"))
    return said["url"], said["token"]


def _ask_to_stop(address: str, token: str) -> None:
    request = urllib.request.Request(
        f"{address}api/shutdown", method="POST", headers={"Authorization": f"token {token}"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS):
        pass


@contextmanager
def notebook_page(opened: BrowserContext, address: str, token: str, name: str) -> Iterator[Page]:
    """Open a notebook in a workspace of its own."""
    page = opened.new_page()
    page.set_default_timeout(1000 * SECONDS)
    page.goto(f"{address}lab/workspaces/{Path(name).stem}/tree/{name}?token={token}")
    page.locator(".jp-CodeCell").first.wait_for()
    yield page
    page.close()


def run_all(page: Page) -> None:
    """Choose Run, Run All Cells, and wait until each cell has its number; fail at an error."""
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=1000 * SECONDS)
    _menu(page, "Run", "Run All Cells")
    page.wait_for_function(DONE, arg=ERROR)
    assert page.locator(ERROR).all_inner_texts() == []


def _menu(page: Page, *names: str) -> None:
    for depth, name in enumerate(names):
        item = page.locator(".lm-MenuBar-item" if depth == 0 else ".lm-Menu-item", has_text=re.compile(f"^{name}$"))
        item.first.click() if depth in (0, len(names) - 1) else item.first.hover()


def choose_theme(page: Page, name: str, light: str) -> None:
    """Choose a theme in Settings, and wait for it."""
    _menu(page, "Settings", "Theme", name)
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)


def coefficient_rows(page: Page, term: str) -> Locator:
    """Return the rows of HTML tables in outputs whose first cell is a coefficient's name."""
    name = re.compile(rf"^\s*{re.escape(term)}\s*$")
    return page.locator(".jp-OutputArea-output table tr").filter(has=page.locator("th, td", has_text=name))


def least_contrast(page: Page) -> float:
    """Return the least contrast of a cell of the tables in outputs with what is behind it."""
    found: list[float] = page.locator(".jp-OutputArea-output table").locator("th, td").evaluate_all(CONTRASTS)
    assert len(found) > 50
    return min(found)


NOTEBOOKS = {
    "in-r": ({"vignettes/from-coxph.R": "## Curves"}, {"log1p(nodes)"}, 1),
    "in-python": (
        {"tests/jupyter/several_sites.py": None, "vignettes/r-and-python.py": "## Write here, read there"},
        {"stage[T.2]", "hormon"},
        3,
    ),
}
"""By name: notebooks that are run as one, with the heading before which each is cut, coefficients that have a row of a
table, and the number of plots.

Behind these headings nothing of another kind is shown; `tests/vignettes` runs the notebooks to their ends.
"""


def beginning(notebook: nbformat.NotebookNode, heading: str | None) -> list[nbformat.NotebookNode]:
    """Return the cells of a notebook as far as a heading."""
    if heading is None:
        return notebook.cells
    return list(takewhile(lambda cell: f"\n{heading}\n" not in f"\n{cell.source}\n", notebook.cells))


def joined(parts: dict[str, str | None]) -> nbformat.NotebookNode:
    """Return one notebook of the beginnings of several in one language."""
    notebooks = [jupytext.read(ROOT / part) for part in parts]
    cells = [beginning(notebook, heading) for notebook, heading in zip(notebooks, parts.values(), strict=True)]
    notebooks[0].cells = list(chain.from_iterable(cells))
    return notebooks[0]


def seen(opened: BrowserContext, address: str, token: str, folder: Path, attempt: int) -> None:
    """Run notebooks, and look at their tables and plots in both themes."""
    for name, (parts, terms, plots) in NOTEBOOKS.items():
        file = f"{name}-{attempt}.ipynb"
        jupytext.write(joined(parts), folder / file)
        with notebook_page(opened, address, token, file) as page:
            run_all(page)
            for term in terms:
                rows = coefficient_rows(page, term).all_inner_texts()
                assert any(len(re.findall(r"(?<=\s)-?\d+\.\d+", row)) >= 3 for row in rows), rows
            drawn = [plot.evaluate(COLOURS) for plot in page.locator(PLOTS).all()]
            assert len(drawn) >= plots
            assert min(drawn) > 50, drawn
            for theme, light in (("Light", "true"), ("Dark", "false")):
                choose_theme(page, f"JupyterLab {theme}", light)
                coefficient_rows(page, min(terms)).last.scroll_into_view_if_needed()
                page.screenshot(path=folder.parent / f"{theme}.png")
                assert least_contrast(page) >= 4.5


def processes_of(folder: Path) -> list[list[str]]:
    """Return command lines and working folders of the processes that have a folder in them; kernels are forked."""
    processes = [process.info for process in psutil.process_iter(["cmdline", "cwd"])]
    words = [[*(each["cmdline"] or ()), each["cwd"] or ""] for each in processes]
    return [each for each in words if any(str(folder) in word for word in each)]


@pytest.mark.wide
@pytest.mark.vignette
def test_notebooks_run_in_a_browser_and_are_legible_in_both_themes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(prefix=str(tmp_path / "kernels"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "kernels" / "share" / "jupyter"))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="lab-") as runtime, laboratory(folder, Path(runtime)) as (address, token):
        look_with_a_browser(tmp_path, lambda opened, attempt: seen(opened, address, token, folder, attempt))
    until(lambda: not processes_of(tmp_path), lambda: f"the end of {processes_of(tmp_path)}", pause=0.1)
