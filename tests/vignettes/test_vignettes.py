"""Every vignette runs from top to bottom, without an error and without a warning: in Python, in R on either kernel.

All run in one folder, with what others left there. Those in Python that are not about R run where there is none.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

from r_bridge.kernel import install as install_kernel
from tests import forked, seeded
from tests.jupyter.session import own_sockets
from tests.r.conftest import library, once, one_folder  # noqa: F401 — fixtures shared with the tests of R
from tests.vignettes.pages import content
from tests.waiting import GENEROUS

ROOT = Path(__file__).parents[2]
VIGNETTES = sorted([*ROOT.joinpath("vignettes").glob("*.py"), *ROOT.joinpath("vignettes").glob("*.R")])
IN_EVERY_RUN = ("start-here",)
"""Vignettes that `make test` runs; the others run where pages are built (`.ci/docs`) and by `make test-wide`."""
STRICT = {
    "python": "import warnings\nfrom tests import few_draws, forked\n"
    "few_draws.begin()\nforked.everywhere()\nwarnings.simplefilter('error')\n",
    "R": "options(warn = 2)",
}
"""By language, what runs before a vignette; one in Python draws seeded noise besides, and standard errors seldom."""
CHANGED = {
    "five-hospitals": {"deadline=20": "deadline=600", "began < 20": "began < 600"},
    "paper-000": {
        "points + 1, 10), epsilon, repeats=2": "points + 1, 60), epsilon, repeats=1",
        "2_200, 3_000]), 3, repeats=2": "2_200, 3_000]), 3, repeats=1",
        "repeats=3": "repeats=2",
        "RUNS = 5": "RUNS = 3",
    },
    "paper-001": {"for _ in range(24)": "for _ in range(12)"},
    "paper-002": {"SPLITS, RIDGES = 6": "SPLITS, RIDGES = 2", '"draws": 4': '"draws": 2'},
    "paper-004": {
        "draws=1000, **arguments": "draws=100, **arguments",
        "draws=10, **arguments": "draws=2, **arguments",
        "draws=10, corrected": "draws=2, corrected",
        "steps=4_000": "steps=500",
        "steps=16_000": "steps=2_000",
    },
}
"""What stands in vignettes, and what for it here: deadlines that a machine under load would miss, and numbers of
splits, draws and steps that take long. What vignettes print of them stays the same.
"""
ABOUT_R = ("r-and-python", "weighted-sample")
"""Vignettes in Python with cells in R."""
TROUBLE = re.compile(r"Traceback \(most recent call last\)|Warning( in .*| message)?:|Exception ignored")

SHOWN = {
    "after-the-coefficients": (
        1,
        (
            "Joint Wald tests of terms",
            "risk difference, Lev+5FU - Obs",
            "restricted mean difference",
            "rx[T.Lev+5FU] - rx[T.Lev] = 0",
            "wrote table2.docx",
            "pure differential privacy (epsilon = 4",
            "count sampling and the privacy noise together",
        ),
    ),
    "check-it-yourself": (
        2,
        (
            "never above epsilon: True",
            "more than 99% of epsilon attained: True",
            "every broken version caught at every epsilon: True",
            "the formula fits the releases (p > 1e-9): True",
            "half the noise is rejected (p < 1e-9): True",
            "no evidence against epsilon = 1: True",
            "half the scale is caught: True",
            "hdpstats shows no difference: True",
            "the naive wrapper does: True",
            "numpy's Laplace noise shows an epsilon of 5 or more: True",
            "exact noise stays within its claim: True",
            "only the right one keeps its claim: True",
            "found 155.556, which is within the claimed 156",
            "found 155.556, which exceeds the claimed 100",
        ),
    ),
    "cancer-trial": (
        2,
        (
            "686 women, 299 relapses or deaths, 246 treated",
            "Check of private rows against their schema: for the custodian only",
            "hormonal treatment",
            "1-differential privacy (pure)",
            "Log-rank test",
            "Hospital and trial: HR",
            "HR: hazard ratio.",
            "whitened by public rows",
            "4 charges, relation replace_one",
        ),
    ),
    "cancer-trial-in-r": (
        2,
        (
            "686     299     246",
            "Check of private rows against their schema: for the custodian only",
            "hormonal treatment",
            "1-differential privacy (pure)",
            "Log-rank test",
            "Hospital and trial: HR",
            "HR: hazard ratio.",
            "whitened by public rows",
            "spent                5            0",
        ),
    ),
    "custodian": (
        0,
        (
            "ann may ask for mechanisms objective, output; models regression",
            "Check of private rows against their schema: for the custodian only",
            "is not declared, '<=20' is, and differs in blanks: spell it as declared",
            "may ask for: ('age', 'event3', 'grade3', 'nodes', 'size')",
            "(noisy; complete rows)",
            "same release: True",
            "3 releases; spent epsilon = 1, delta = 0; left epsilon = 1, delta = 0",
            "column: SiteError: the custodian does not permit this query",
            "cap: InsufficientBudget",
            "token: SiteError: the site does not accept the token",
            "certificate: SiteError: the site https://127.0.0.1",
            "analyst ann: epsilon = 1, delta = 0 of a cap of epsilon = 2",
            "11 entries verify",
            '"request": "answer", "kind": "count/1", "analyst": "ann"',
        ),
    ),
    "hormonal-treatment": (
        4,
        (
            "(epsilon = 4 in all: 2 for the curves, 2 for the propensity model",
            "2982 private people; nothing is spent",
            "Effect of hormon on event3, differentially private",
            "(epsilon = 4 in all: 2 for the effect, 2 for the propensity model",
            "Records without a value of event3 were left out.",
            "4-differential privacy (pure) in all: 2 for the fit, 2 for",
            "epsilon = 10, delta = 0",
        ),
    ),
    "hormonal-treatment-in-r": (
        4,
        (
            "Effect of hormon on event3, differentially private",
            "(epsilon = 4 in all: 2 for the effect, 2 for the propensity model",
            "Predicted standard errors of event3 ~ hormon, 2982 private people; nothing is spent",
        ),
    ),
    "repeated-visits": (
        1,
        (
            "at most 8 rows per 'id', n_max 210",
            "r=1 (W=1), epsilon=1",
            "r=0 (W=8), epsilon=4",
            "the average person: each of n rows counts 1 / n",
            "of 104 people",
            "Standard errors are over people",
        ),
    ),
    "survival-curves": (
        2,
        (
            "Predicted standard errors of Surv(time, died) ~ rx, 929 private people; nothing is spent",
            "epsilon = 0.1 Obs                        0.346            N/A",
            "Survival curves, differentially private",
            "1-differential privacy (pure)",
            "Log-rank test",
            "in spite of the noise",
            "log-rank without noise: p = 0.0043",
        ),
    ),
    "describe-the-cohort": (
        1,
        (
            "Check of private rows against their schema: for the custodian only",
            "the label 'obs' (251 cells) is not declared, 'Obs' is",
            "it is coded 1 and 2, not 0 and 1",
            "epsilon = 0.2: N/A would be everything of Obs, Lev, Lev+5FU",
            "Predicted standard errors, 729 private people; nothing is spent",
            "Description of the private cohort, differentially private",
            "2-differential privacy (pure)",
            "the same numbers: True - spent: 2.0",
            "left: 0.5",
        ),
    ),
    "five-hospitals": (
        1,
        (
            "5 processes: Aalst, Breda, Celje, Delft, Evora",
            "<study: private records at 5 sites, 686 public rows",
            "within the deadline: True",
            "No. private records:                      2550",
            "Delft: did not answer round 1: the site",
            "one person, at one of 4 sites only",
            "1-differential privacy (pure)",
            "Delft  epsilon = 0, delta = 0",
            "Evora  epsilon = 1, delta = 0",
            "Evora: 4 entries verify",
            "Delft: 2 entries verify",
            "3  Delft  answered      400      1.0",
            "the same releases: True",
            "Aalst  2 releases; spent epsilon = 1, delta = 0; no cap",
            "Delft  2 releases; spent epsilon = 1, delta = 0; no cap",
            "3  Delft  answered       3      1.0  0.000001",
            "ended: {0}",
        ),
    ),
    "omop-cohort": (
        1,
        (
            "Rows:    5000",
            "5000 people",
            "asks for hazard",
            "reads of each person: age, days, died, infarct, male, metformin",
            "release.json answers request",
            "2-differential privacy (pure)",
            "spent                2            0",
        ),
    ),
    "from-coxph": (
        3,
        (
            "686 public rows, 7 declared columns",
            "furthest from coxph, in standard errors: 0.",
            "largest gap between the curves: 0.0",
            "1-differential privacy (pure)",
            "same numbers: TRUE",
            "Nothing was charged",
            "spent                1            0",
        ),
    ),
    "logistic-in-irkernel": (
        2,
        (
            "Private records: ",
            "Of epsilon:     1.0% for the number of complete rows and",
            "1-differential privacy (pure)",
            "dp_insufficient_budget",
            "spent                1            0",
            "[1] TRUE",
        ),
    ),
    "paper-000": (
        5,
        (
            "the distance falls with the number of public records, in 2 and in 100 dimensions: True",
            "U-shaped where epsilon is small, with all of epsilon_2 for every size: True",
            "without noise more records are better: True",
            "p = 100: even without noise, more than half of the error of the public records is left: True",
            "Algorithm 2 is never better than the public records alone, not even in hindsight: True",
            "at a total of 6 and 20 the fit of the model is nearest: True",
            "one record moves t by more than 15 among 1,001 and by more than 45 among 10,001: True",
            "claimed: 2 epsilon; with 60 sizes: 61 epsilon",
            "at most half of Algorithm 2 in hindsight: True",
            "at most a tenth of the public records' error: True",
        ),
    ),
    "paper-002": (
        1,
        (
            "two steps with the printed number leave more than half: True",
            "two with the matrix, from the public fit, less than a tenth: True",
            "nothing beyond D(r): True",
            "the corrected noise is better than the printed at every epsilon: True",
            "the matched form has the smallest error from epsilon 1 on: True",
            "Newton's method in 2 steps at 3 sites with a public Hessian",
            "epsilon for every person, whatever the number of sites: 1.0",
            "two rounds at each site: [2, 2, 2]",
            "the matched form has the smaller standard errors: True",
            "six steps are farther away than one: True",
            "objective perturbation stays near: True",
        ),
    ),
    "paper-003": (
        1,
        (
            "data: Rotterdam and GBSG",
            "as lambda grows, the estimate goes to the public mean: True",
            "and its spread falls: True",
            "epsilon changes the spread: True",
            "and hardly the mean: True",
            "with more epsilon they vary less: True",
            "without noise nearer than unweighted public rows: True",
            "largest possible norm: 4.47",
            "the same rows are best for both: True",
            "one record moves the fit further than the remark allows, at every lambda: True",
            "the printed alpha over the derivative: 2.000",
            "within the corrected bound: True",
            "the same lambda, less noise: True",
            "nearer than the public rows: True",
            "-differential privacy (pure)",
        ),
    ),
    "paper-001": (
        3,
        (
            "only the projected mean is private: True",
            "blocks that change when rows are sorted: 10 of 10",
            "claimed 1, realised: {1: 1.0, 2: 1.414",
            "within 15 percent of (1000 / 63)^2: True",
            "the corrected formula fits at every epsilon: True",
            "printed, less than a fifth of the error at epsilon = 0.03: True",
            "every point within 30 percent of its line: True",
            "statistics of 64,000 records a party within 15 percent of 1: True",
            "blocks of 6 records are worse than blocks of 25: True",
            "Distribution results, differentially private",
            "1-differential privacy (pure)",
            "within 8 standard errors of the truth: True",
            "statistics have the smaller noise in the mean: True",
            "spent: 2.0 of 2",
            "declares it: hdp.Study(..., row_order='arbitrary')",
            "one person, at one of 4 sites only",
            "last, or last but one, in weight: True",
            "one person's guarantee: 2.0 ",
            "each account is charged its own: True",
            "equal hospitals, equal weights: True",
            "level by level or all at once, the same: True",
            "and the same covariance: True",
            "from the regions' files, the same: True",
            "a country of regions is less certain: True",
            "members differ, variance by Paule and Mandel",
            "across sites more often: True",
        ),
    ),
    "paper-004": (
        4,
        (
            "1,109,442 person-intervals, deviance 28484.729",
            "within the paper's 2 to 9 percent: True",
            "sensitivity of the gradient: 469.79",
            "as printed, the guarantee is broken at a = 10, 30, 100: True",
            "corrected, it is kept at every a: True",
            "the two fits of everybody agree to 1e-9: True",
            "from epsilon = 1.6 on nearer than Algorithms 1 and 2: True",
            "1-differential privacy (pure)",
        ),
    ),
    "r-and-python": (
        2,
        (
            "DiscreteHazard, 2-differential privacy (pure)",
            "{'coef': True, 'vcov': True, 'confint': True, 'p': True, 'survival': True}",
            "equal to the last bit: True",
            "the stored release: True | charged: 0",
            "Nothing was charged",
            "glm on 25,805 rows: 9 coefficients, relative error",
            "4 charges, relation replace_one",
        ),
    ),
    "start-here": (
        3,
        (
            "Logit results, differentially private",
            "1.2-differential privacy (pure) in all: 1 for the fit, 0.2 for",
            "Not protected:",
            "same numbers: True | charged: 0",
            "ten years of age: True | charged: 0",
            "stored release of 20",
            "Description of the private cohort, differentially private",
            "described before, at epsilon = 0.2 (",
            "version 2 | same numbers: False",
            "the release would cost (epsilon = 2.5, delta = 0)",
            "11 entries verify",
            "epsilon = 0, delta = 0",
        ),
    ),
    "survival": (
        6,
        (
            "Description of the private cohort, differentially private",
            "DiscreteHazard results, differentially private",
            "described before, at epsilon = 0.3 (",
            "coefficients of covariates are log hazard ratios",
            "Intervals: 20, up to 5 years",
            "people whose caps add up to more than",
            "1.3-differential privacy (pure) in all: 1 for the fit, 0.3",
            "concordance on public rows: 0.6",
            "DiscreteHazard evaluated on private records, differentially private",
            "(1, 1e-06)-differential privacy",
            "noisy Newton in 3 rounds",
            "one person, with at most 2 rows",
            "12 entries verify",
            "epsilon = 1: the private records add next to nothing",
        ),
    ),
    "weighted-sample": (
        3,
        (
            "1,546 private women, 686 public ones",
            "every combination is in the public rows: True",
            "1-differential privacy (pure)",
            "most of the trial's information on other columns is given up: True",
            "grade and treatment, at most half as far from the registry as the trial: True",
            "statsmodels' coefficients are the same to 1e-5: True",
            "scikit-learn's probabilities are the same to 1e-3: True",
            "statsmodels' standard errors are too small on average: True",
            "svyglm's coefficients are the same to 1e-5: True",
            "within half a standard error of coxph: True",
            "counts make coxph's errors too small: True",
            "the colleague's copy gives the same mean: True",
            "charged: 0",
            "Not protected:",
            "5 entries verify",
            "more than two standard errors off: True",
            "weighting moved them away from the registry: True",
            "No public row has 'node_class' '0': private people who do are counted at others.",
            "more than twice too many: True",
            "spent: 2.5 of 3",
        ),
    ),
}
"""By vignette: the number of figures, and texts that it must print.

Noise is seeded in Python, except at sites in processes of their own. With noise of the operating system, as in R and
at these sites, texts must say nothing that depends on it.
"""

TABLES = {"from-coxph": "log1p(nodes)", "logistic-in-irkernel": "log1p(nodes)", "r-and-python": "unfavourable"}
"""By vignette: the coefficient that must have a row of numbers in an HTML table."""


@pytest.fixture(scope="session")
def kernels(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:  # noqa: F811
    """Install both kernels of R into a fresh place; return what leads there, and to the R package for IRkernel."""
    place = tmp_path_factory.mktemp("kernels")
    install_kernel(prefix=str(place))
    subprocess.run(
        ["R", "--vanilla", "--no-echo", "-e", f"IRkernel::installspec(prefix = '{place}')"],
        env=os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        check=True,
        capture_output=True,
    )
    return {"JUPYTER_PATH": str(place / "share" / "jupyter"), "R_LIBS": str(library)}


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels: dict[str, str]) -> None:
    """Give the kernel this tree's package, figures in its outputs, and nobody's settings."""
    for name in ("HDPSTATS_ADULT", "HDPSTATS_PYTHON", "RETICULATE_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name, value in kernels.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")


def execute(script: str, folder: Path, suffix: str = ".py") -> nbformat.NotebookNode:
    """Run a percent script as a notebook in a folder, warnings being errors; raise at the first trouble."""
    notebook = jupytext.reads(script, fmt=f"{suffix[1:]}:percent")
    kernel = notebook.metadata.get("kernelspec", {"name": "python3", "language": "python"})
    first = STRICT[kernel["language"]] + (seeded.beginning() if kernel["language"] == "python" else "")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(first))
    folder.mkdir(exist_ok=True)
    with own_sockets() as config, forked.kernels():
        nbclient.NotebookClient(
            notebook,
            timeout=5 * GENEROUS,
            startup_timeout=GENEROUS,
            kernel_name=kernel["name"],
            resources={"metadata": {"path": str(folder)}},
            config=config,
        ).execute()
    found = [text for text in _streams(notebook) if TROUBLE.search(text)]
    if found:
        raise AssertionError("\n".join(found))
    return notebook


def _outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def _streams(notebook: nbformat.NotebookNode) -> list[str]:
    return [output.text for output in _outputs(notebook) if output.output_type == "stream"]


def _shown(notebook: nbformat.NotebookNode, kind: str) -> list[str]:
    return [output.data[kind] for output in _outputs(notebook) if kind in output.get("data", {})]


def _figures(notebook: nbformat.NotebookNode) -> int:
    return len(_shown(notebook, "image/png"))


def _keep(notebook: nbformat.NotebookNode, source: str, folder: Path) -> None:
    """Keep what a vignette printed, for the pages: its cells behind the one that was put before them."""
    kept = nbformat.v4.new_notebook(cells=notebook.cells[1:], metadata=notebook.metadata)
    content.keep(content.printed_place(source), nbformat.writes(kept).replace(f"{folder}/", ""))


def _missing(stated: tuple[str, ...], printed: str) -> list[str]:
    """Return the texts that were not printed, or were printed elsewhere with False for True."""
    denied = [text for text in stated if text.endswith(": True") and f"{text.removesuffix('True')}False" in printed]
    return [text for text in stated if text not in printed or text in denied]


def _has_row(html: str, term: str) -> bool:
    """Whether a table has a row of at least three numbers for a coefficient."""
    cells = rf"<t[hd][^>]*>\s*{re.escape(term)}\s*</t[hd]>(\s*<td[^>]*>\s*-?\d[\d.]*\s*</td>){{3}}"
    return re.search(cells, html) is not None


def _hide_r(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let whoever looks for R find programs that say there is none."""
    folder.mkdir()
    for name in ("R", "Rscript"):
        (folder / name).write_text("#!/bin/sh\necho there is no R here >&2\nexit 127\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    monkeypatch.delenv("R_HOME", raising=False)


@pytest.mark.vignette
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem in IN_EVERY_RUN else pytest.mark.wide) for path in VIGNETTES],
    ids=lambda path: path.stem,
)
def test_vignette_runs_from_top_to_bottom_and_shows_what_is_asked_of_it(
    path: Path,
    tmp_path: Path,
    one_folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = script = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and path.stem not in ABOUT_R:
        _hide_r(monkeypatch, tmp_path / "no R")
    for there, here in CHANGED.get(path.stem, {}).items():
        assert there in script
        script = script.replace(there, here)
    notebook = execute(script, one_folder, path.suffix)
    figures, stated = SHOWN.get(path.stem, (0, ()))
    printed = "".join([*_streams(notebook), *_shown(notebook, "text/plain")])
    assert _missing(stated, printed) == []
    assert _figures(notebook) >= figures
    if path.stem in TABLES:
        assert any(_has_row(html, TABLES[path.stem]) for html in _shown(notebook, "text/html"))
    _keep(notebook, source, one_folder)


def test_a_statement_that_holds_once_and_once_does_not_is_missing() -> None:
    assert _missing(("near: True", "spent: 2"), "near: True\nspent: 2\nnear: True") == []
    assert _missing(("near: True", "spent: 2"), "near: True\nspent: 3\nnear: False") == ["near: True", "spent: 2"]


@pytest.mark.wide
@pytest.mark.vignette
@pytest.mark.skipif(not seeded.INSTALLED, reason="noise is the operating system's")
def test_a_vignette_in_python_draws_the_same_noise_each_time(tmp_path: Path) -> None:
    script = "# %%\nfrom hdpstats.noise import exact\n\nprint(exact.bits(256))"
    first, second = (_streams(execute(script, tmp_path / name)) for name in ("one", "two"))
    assert first == second != []


@pytest.mark.vignette
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("# %%\nimport warnings\n\nwarnings.warn('careful')", id="warning", marks=pytest.mark.wide),
        pytest.param(
            "# %%\nimport traceback\n\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()",
            id="printed traceback",
        ),
    ],
)
def test_a_vignette_in_trouble_fails(script: str, tmp_path: Path) -> None:
    with pytest.raises((nbclient.exceptions.CellExecutionError, AssertionError), match=r"careful|by zero"):
        execute(script, tmp_path / "run")


@pytest.mark.vignette
@pytest.mark.wide
@pytest.mark.parametrize("kernel", ["ir", "hdpstats-r"])
@pytest.mark.parametrize("code", ["warning('careful')", "stop('careful')"])
def test_a_vignette_of_r_in_trouble_fails(kernel: str, code: str, tmp_path: Path) -> None:
    lines = ("# jupyter:", "#   kernelspec:", "#     display_name: R", "#     language: R", f"#     name: {kernel}")
    head = "\n".join(("# ---", *lines, "# ---", "", "# %%", ""))
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="careful"):
        execute(head + code, tmp_path / "run", ".R")


def test_there_are_vignettes() -> None:
    assert set(SHOWN) <= {path.stem for path in VIGNETTES}
