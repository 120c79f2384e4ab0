"""Private fits to rows of real people against ordinary ones, by `make validate`; writes ``real-outcomes.md``.

What a finished setting found is kept in pytest's cache, under the code that found it: a study that was interrupted
goes on where it ended.

**False alarms.** A mean difference is held against `BIAS` plus three Monte-Carlo errors, a share of covered people
against the numbers that are no rarer than `ALARM`, a root mean square against quantiles of chi-square. Each limit is
exceeded with the probability `ALARM` (one-sided, that of three normal errors) where what is measured lies exactly at
it, and the more rarely the farther it is from it: with `FITS` fits a mean difference of 0.3 standard errors is found
beyond with a probability of 1e-6, a coverage of 0.93 below with one of 1e-7. Draws have seeds, so that a study whose
code has not changed finds the same again.

**Defects that chance could hide.** With `FITS` fits the allowance for chance hides a mean coverage of .89. So a setting
whose coverage is beyond its limits by less than that is fitted `MORE` times as often, and held against the same limits
with what chance may do to so many fits.
"""

import hashlib
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

import hdpstats.api as hdp
from hdpstats.results.plots import COLOURS, GREY
from tests.statistical.monte_carlo import code_digest
from tests.statistical.real_outcomes import FORMULAS, KINDS, NONE
from tests.statistical.real_outcomes_studies import (
    BLUR,
    LARGE,
    MIDDLE,
    RESAMPLED,
    SETTINGS,
    SITES,
    SMALL,
    Cell,
    Setting,
    Trial,
    agreements,
    cell_of,
    measured,
    ordinary_errors,
    without_noise,
)

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "real-outcomes.md"
FITS = min(100, int(os.environ.get("HDPSTATS_SETS", "100")))
"""Fits for a line of the table; fewer where ``HDPSTATS_SETS`` says so."""
MORE = 4
ALARM = 0.00135
ERRORS = 3.0
"""Monte-Carlo errors that a mean may be beyond its limit."""
BIAS = 0.5
COVERED, COVERED_ON_AVERAGE = 0.88, (0.93, 0.97)
NOISE = (0.7, 1.3)
WIDEST = 1.6
OTHER_COEFFICIENTS, OTHER_NOISE = ("logit, public Hessian",), ("median",)
"""Kinds whose coefficients are not those of the ordinary fit, or differ from them by more than noise on one sample."""
SETS, LEVEL, AGREED = 6_000, 0.05, (0.04, 0.06)
"""Sets of sites, and how often agreement may be rejected: at .05 a share outside has a probability of 4e-4."""
SITES_OF = ("logit", "flchain", "random")
SEEN_BY_SIZE = {SMALL: COLOURS[0], MIDDLE: COLOURS[2], LARGE: COLOURS[1]}


@pytest.fixture(scope="module")
def kept(request) -> Path:
    """Return the folder of what was found with this code."""
    folder = request.config.cache.mkdir("real-outcomes") / f"{code_digest()}-{FITS}-{RESAMPLED}"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def page():
    """Collect the cells of all settings, and write the page when all of them are there."""
    found: dict[Setting | str, list[Cell] | float] = {}
    yield found
    if len(found) == len(SETTINGS) + 1:
        ordered = {setting: found[setting] for setting in SETTINGS}
        PAGE.write_text(page_of(ordered, rejected=found["sites"]), encoding="utf-8")
        figure_of(ordered).savefig(PAGE.with_suffix(".png"), dpi=110, metadata={"Software": None})


def cells_of(setting: Setting, folder: Path) -> list[Cell]:
    """Return what a setting's trials say, now or when they were run before."""
    path = folder / f"{hashlib.sha256(repr(setting).encode()).hexdigest()[:16]}.json"
    if path.exists():
        return [Cell(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    errors = ordinary_errors(setting)
    alone = without_noise(setting)
    found = measured(setting, fits=FITS)
    if any(doubtful(each) for each in cells_from(setting, found, errors, alone)):
        more = measured(setting, fits=(MORE - 1) * FITS, first=FITS)
        found = [[*before, *after] for before, after in zip(found, more, strict=True)]
    cells = cells_from(setting, found, errors, alone)
    text = json.dumps([asdict(cell) for cell in cells])
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.rename(path)
    return cells


def cells_from(setting: Setting, found: list[list[Trial]], errors: np.ndarray, alone: pd.DataFrame) -> list[Cell]:
    """Return the cells of a setting's trials, one of each epsilon."""
    return [cell_of(setting, trials, errors, alone.loc[trials[0].epsilon].tolist()) for trials in found]


def doubtful(cell: Cell) -> bool:
    """Return whether coverage is beyond its limits by no more than chance may do."""
    low, high = COVERED_ON_AVERAGE
    room = ERRORS * cell.covered_error
    mean, least = float(np.mean(cell.covered)), round(min(cell.covered) * cell.fits)
    average = low - room <= mean < low or high < mean <= high + room
    return average or stats.binom.ppf(ALARM, cell.fits, COVERED) <= least < COVERED * cell.fits


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_private_fits_are_the_ordinary_ones_but_for_noise(setting, page, kept):
    cells = page[setting] = cells_of(setting, kept)
    wrong = [f"epsilon {cell.epsilon:g}: {words}" for cell in cells for words in beyond(setting, cell)]
    assert not wrong, "\n".join([str(setting), *wrong])


def test_sites_of_one_population_and_unequal_size_agree(page, kept):
    path = kept / "sites.json"
    if not path.exists():
        path.write_text(json.dumps(agreements(*SITES_OF, sets=SETS)), encoding="utf-8")
    rejected = page["sites"] = float(np.mean(np.array(json.loads(path.read_text(encoding="utf-8"))) < LEVEL))
    assert AGREED[0] <= rejected <= AGREED[1]


def beyond(setting: Setting, cell: Cell) -> list[str]:
    """Return in words which limits a cell exceeds."""
    if not np.isfinite([cell.bias, cell.noise, cell.width]).all():
        return ["estimates or standard errors are missing"]
    if setting.kind in OTHER_COEFFICIENTS:
        return []
    found = [
        f"{term}: {bias:+.2f} ({error:.2f}) standard errors from the ordinary fit"
        for term, bias, error in zip(cell.terms, cell.bias, cell.bias_error, strict=True)
        if setting.rows == LARGE and abs(bias) > BIAS + ERRORS * error
    ]
    fewest = stats.binom.ppf(ALARM, cell.fits, COVERED)
    found += [
        f"{term}: covered {share:.2f}"
        for term, share in zip(cell.terms, cell.covered, strict=True)
        if round(share * cell.fits) < fewest
    ]
    low, high = COVERED_ON_AVERAGE
    mean, room = float(np.mean(cell.covered)), ERRORS * cell.covered_error
    if not low - room <= mean <= high + room:
        found.append(f"covered on average {mean:.3f} ({cell.covered_error:.3f})")
    if setting.rows == LARGE and setting.kind not in OTHER_NOISE:
        smallest, largest = (
            limit * np.sqrt(stats.chi2.ppf(level, cell.fits) / cell.fits)
            for limit, level in zip(NOISE, (ALARM, 1.0 - ALARM), strict=True)
        )
        found += [
            f"{term}: {whole:.2f} of what is said of noise and weights, {alone:.2f} of the noise"
            for term, whole, alone in zip(cell.terms, cell.noise, cell.noise_alone, strict=True)
            if whole > largest or alone < smallest
        ]
    if setting.rows == LARGE and cell.epsilon >= 3.0 and setting.public != NONE:
        found += [
            f"{term}: a standard error of {width:.2f} ordinary ones"
            for term, width in zip(cell.terms, cell.width, strict=True)
            if width > WIDEST
        ]
    return found


HEAD = """\
# Real people with their own outcomes, measured

hdpstats {version}, {today}, written by `make validate`. Other pages draw outcomes from the model that they fit, where
weights of people, caps and clips change nothing but the precision. No model fits real outcomes exactly. Here people of
five studies, with the outcomes that they had, are drawn with replacement: {small:,}, {middle:,} or {large:,} rows,
{fits} times for a line, and each draw is fitted through the public API. Public rows are a trial of the same disease
(gbsg for Rotterdam), or 500 people (colon: 200) taken out of the population: a random part, or a *shifted* one, where
the odds of being public grow e-fold with a standard deviation of a covariate (age, in RAND the number of diseases).
The *ordinary* fit is R's `lm`, `glm` or `rlm`, statsmodels' `QuantReg`, for hazards `glm` on person-period rows.
[What weights do, how they vanish, and what remains](../explanation/row-weights.md).

* *Bias*: the mean of (private - ordinary fit to the same rows), in reported standard errors; the largest of the
  coefficients, in brackets its Monte-Carlo error. Limit with {large:,} rows: {bias}.
* *Without noise*: the same of one fit to everybody, equally often, if noise were 0; the largest of the coefficients.
* *Noise*: the root mean square of the same, over what noise, and noise with the allowance for weights, are said to make
  of it; the least and the largest of the coefficients. Limits with {large:,} rows: {noise[0]} and {noise[1]}.
* *Allowance*: in reported standard errors, the largest.
* *Coverage*: how often 95 % intervals of the private people alone hold the ordinary coefficients of the whole
  population, mean and least. Limits: {average[0]} to {average[1]}, and {covered}.
* *Pooled*: the coverage of the estimate that is reported, mean and least. No limits.
* *Width*: the median standard error over that of the ordinary fit which holds whether or not the model is true (from at
  least 100 resampled fits), median and largest. Limit with public rows, {large:,} private ones and epsilon 3: {widest}.
* *Seconds*: processor time of a fit.

Chance may exceed limits: by {errors:g} Monte-Carlo errors, or as far as the binomial or the chi-square distribution
goes with a probability of {alarm}. Where coverage is beyond a limit by less than chance may do in {first} fits, there
are {more} times as many. Outcomes of medians have normal noise, {blur:g} of their standard deviation, a row: copies of
a few thousand people have no density on the scale on which a median of {large:,} rows varies. What a private median
estimates, that of the outcome with a little uniform noise of its own, differs from the ordinary one to the same rows by
more than privacy noise; the covariates of the public Hessian are cut, and its coefficients are others: the former hold
no limit of noise, the latter none of bias, coverage and noise.

![bias and coverage of all coefficients by model and number of rows](real-outcomes.png)

*Each point is a coefficient in a line of the table: on the left its bias (logarithmic beyond 1), on the right how often
its intervals hold the ordinary coefficient of the population. Dashed: the limits.*

"""
COLUMNS = (
    *(
        "model",
        "people, public rows",
        "rows",
        "epsilon",
        "fits",
        "bias",
        "without noise",
        "noise",
        "allowance",
        "coverage",
    ),
    *("pooled", "width", "seconds"),
)


def page_of(found: dict[Setting, list[Cell]], *, rejected: float | None) -> str:
    """Return the page; it names what was not measured, ``rejected`` is None where sites were not."""
    head = HEAD.format(
        version=hdp.__version__,
        today=datetime.now(UTC).date(),
        small=SMALL,
        middle=MIDDLE,
        large=LARGE,
        fits=" or ".join(str(n) for n in sorted({cell.fits for cells in found.values() for cell in cells})),
        bias=BIAS,
        noise=NOISE,
        average=COVERED_ON_AVERAGE,
        covered=COVERED,
        widest=WIDEST,
        errors=ERRORS,
        alarm=ALARM,
        first=FITS,
        more=MORE,
        blur=BLUR,
    )
    lines = [f"| {' | '.join(COLUMNS)} |", f"| {' | '.join(['---'] * len(COLUMNS))} |"]
    lines += [line_of(setting, cell) for setting, cells in found.items() for cell in cells]
    formulas = dict.fromkeys((setting.data, FORMULAS[setting.data, KINDS[setting.kind].outcome]) for setting in found)
    lines += ["", "Formulas:", "", *(f"* {data}: `{formula}`" for data, formula in formulas)]
    lines += ["", "## Beyond the limits", "", *(beyond_said(found) or ["Nothing."])]
    left = [str(setting) for setting in SETTINGS if setting not in found]
    if left:
        lines += ["", "Not measured with this code:", "", *(f"* {each}" for each in left)]
    said = "Not measured." if rejected is None else SITES_SAID.format(sets=SETS, level=LEVEL, rejected=rejected)
    lines += ["", "## Sites of one population", "", said]
    return head + "\n".join(lines) + "\n"


def beyond_said(found: dict[Setting, list[Cell]]) -> list[str]:
    """Return in words which limits lines of the table exceed."""
    said = []
    for setting, cells in found.items():
        for cell in cells:
            words = beyond(setting, cell)
            line = f"{setting.label}; {setting.data}, {setting.public}; {setting.rows:,}; epsilon {cell.epsilon:g}"
            if words:
                said.append(f"* {line}: {'; '.join(words)}.")
    return said


SITES_SAID = (
    f"Sites of {', '.join(f'{rows:,}' for rows in SITES.values())} people drawn from one population ({SITES_OF[1]}), "
    "epsilon 1 at each, a {kind}: in {{sets:,}} sets agreement was rejected at {{level}} in {{rejected:.4f}}."
).format(kind=SITES_OF[0])


def line_of(setting: Setting, cell: Cell) -> str:
    """Return a line of the table."""
    worst = int(np.argmax(np.abs(cell.bias)))
    cells = [
        setting.label,
        f"{setting.data}, {setting.public}",
        f"{setting.rows:,}",
        f"{cell.epsilon:g}",
        f"{cell.fits}",
        f"{cell.bias[worst]:+.2f} ({cell.bias_error[worst]:.2f})",
        f"{cell.without_noise[int(np.argmax(np.abs(cell.without_noise)))]:+.2f}",
        f"{min(cell.noise_alone):.2f} {max(cell.noise):.2f}",
        f"{max(cell.allowance):.2f}",
        f"{np.mean(cell.covered):.3f} {min(cell.covered):.2f}",
        f"{np.mean(cell.covered_pooled):.3f} {min(cell.covered_pooled):.2f}",
        f"{np.median(cell.width):.2f} {max(cell.width):.2f}",
        f"{cell.seconds:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def figure_of(found: dict[Setting, list[Cell]]) -> Figure:
    """Return bias and coverage of every coefficient, by model and number of rows."""
    kinds = [*dict.fromkeys(setting.label for setting in found)]
    figure = Figure(figsize=(9.0, 1.2 + 0.42 * len(kinds)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, (rows, colour) in enumerate(SEEN_BY_SIZE.items()):
        values: dict[str, list[float]] = {"at": [], "bias": [], "covered": []}
        for setting, cells in found.items():
            for cell in cells if setting.rows == rows else ():
                values["at"] += [kinds.index(setting.label) + 0.25 * (place - 1)] * len(cell.terms)
                values["bias"] += cell.bias
                values["covered"] += cell.covered
        for axes, name in ((left, "bias"), (right, "covered")):
            axes.plot(values[name], values["at"], "o", color=colour, markersize=4, alpha=0.7, label=f"{rows:,} rows")
    for axes, limits in ((left, (-BIAS, BIAS)), (right, (COVERED, *COVERED_ON_AVERAGE))):
        for limit in limits:
            axes.axvline(limit, color=GREY, linestyle="--", linewidth=0.8, zorder=0)
        for between in range(len(kinds) - 1):
            axes.axhline(between + 0.5, color=GREY, linewidth=0.3, zorder=0)
    left.set(yticks=range(len(kinds)), yticklabels=kinds, ylim=(len(kinds) - 0.5, -0.5), xlabel="bias, standard errors")
    right.set(xlabel="coverage of 95 % intervals", xlim=(None, 1.01))
    left.set_xscale("symlog", linthresh=1.0)
    left.xaxis.set_major_formatter("{x:g}")
    figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    return figure
