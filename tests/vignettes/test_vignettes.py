"""Every vignette runs from top to bottom, without an error and without a warning."""

import re
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
VIGNETTES = sorted(ROOT.joinpath("vignettes").glob("*.py"))
STRICT = "import warnings\nwarnings.simplefilter('error')"
TROUBLE = re.compile(r"Traceback \(most recent call last\)|Warning:|Exception ignored")

PROMISED = {
    "check-it-yourself": (
        1,
        (
            "never above epsilon: True",
            "more than 99% of epsilon attained: True",
            "every broken version caught at every epsilon: True",
            "the formula fits the releases (p > 1e-7): True",
            "half the noise is rejected (p < 1e-7): True",
            "no evidence against epsilon = 1: True",
            "half the scale is caught: True",
            "hdpstats shows no difference: True",
            "the naive wrapper does: True",
            "every coefficient is a whole number of steps: True",
        ),
    ),
    "paper-004": (
        4,
        (
            "1,109,442 person-intervals, deviance 28484.729",
            "within the paper's 2 to 9 percent: True",
            "sensitivity of the gradient: 469.79",
            "as printed, the promise is broken at a = 10, 30, 100: True",
            "corrected, it is kept at every a: True",
            "the two fits of everybody agree to 1e-9: True",
            "from epsilon = 0.4 on nearer than Algorithms 1 and 2: True",
            "1-differential privacy (pure)",
        ),
    ),
    "start-here": (
        2,
        (
            "Logit results, differentially private",
            "1-differential privacy (pure)",
            "Not protected:",
            "same numbers: True | charged: 0",
            "the release would cost (epsilon = 2.5, delta = 0)",
            "5 entries verify",
            "epsilon = 0, delta = 0",
        ),
    ),
    "survival": (
        6,
        (
            "DiscreteHazard results, differentially private",
            "coefficients of covariates are log hazard ratios",
            "Intervals: 20, up to 5 years",
            "follow-up ends before a person's caps add up to more than",
            "1-differential privacy (pure)",
            "concordance on public rows: 0.6",
            "DiscreteHazard evaluated on private records, differentially private",
            "(1, 1e-06)-differential privacy",
            "noisy Newton in 3 rounds",
            "one person, with at most 2 rows",
            "12 entries verify",
            "epsilon = 1: the private records add next to nothing",
        ),
    ),
}
"""By vignette: the number of figures, and texts that it must print whatever the noise."""


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the kernel this tree's package, figures in its outputs, and nobody's settings."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")


def execute(script: str, folder: Path) -> nbformat.NotebookNode:
    """Run a percent script as a notebook in a folder, warnings being errors; raise at the first trouble."""
    notebook = jupytext.reads(script, fmt="py:percent")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    folder.mkdir()
    nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    found = [text for text in _streams(notebook) if TROUBLE.search(text)]
    if found:
        raise AssertionError("\n".join(found))
    return notebook


def _outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def _streams(notebook: nbformat.NotebookNode) -> list[str]:
    return [output.text for output in _outputs(notebook) if output.output_type == "stream"]


def _figures(notebook: nbformat.NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in _outputs(notebook))


@pytest.mark.vignette
@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_vignette_runs_from_top_to_bottom_and_shows_what_it_promises(path: Path, tmp_path: Path) -> None:
    notebook = execute(path.read_text(encoding="utf-8"), tmp_path / "run")
    figures, promised = PROMISED.get(path.stem, (0, ()))
    printed = "".join(_streams(notebook))
    assert [text for text in promised if text not in printed] == []
    assert _figures(notebook) >= figures


@pytest.mark.vignette
@pytest.mark.parametrize(
    "script",
    [
        "# %%\nimport warnings\n\nwarnings.warn('careful')",
        "# %%\nimport traceback\n\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()",
    ],
    ids=["warning", "printed traceback"],
)
def test_a_vignette_in_trouble_fails(script: str, tmp_path: Path) -> None:
    with pytest.raises((nbclient.exceptions.CellExecutionError, AssertionError), match=r"careful|by zero"):
        execute(script, tmp_path / "run")


def test_there_are_vignettes() -> None:
    assert set(PROMISED) <= {path.stem for path in VIGNETTES}
