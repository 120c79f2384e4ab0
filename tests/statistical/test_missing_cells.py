"""Fits to private rows with missing cells, as shown in ``vignettes/validation``. Run by ``make validate``."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.missing_studies import (
    ARMS,
    CASES,
    EPSILON,
    HAZARD,
    LOGIT,
    NAMES,
    POISSON,
    PRIVATE,
    PUBLIC,
    SAMPLE,
    TRUTH,
    Lacking,
    one_fit,
    people,
    schema_of,
    simulate,
)
from tests.statistical.monte_carlo import OF_THE_MODEL

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "missing-cells.md"
REPEATS, MORE, SECTIONS = 40, 160, 3
"""Data sets of a line, and of a line of logistic regressions about what a schema makes of missing cells."""

WITHIN = 0.15
"""Largest mean distance of estimates from complete cases without noise, in standard errors; within two Monte-Carlo
standard errors."""

LEAST_COVERAGE = 0.93
"""Of the mean over coefficients, within two Monte-Carlo standard errors."""

LACKING = {
    "nodes": hdp.Continuous(0, 40),
    "arm": hdp.Categorical(ARMS),
    "y": hdp.Binary(),
    "answer": hdp.Binary(),
    "visits": hdp.Continuous(0, 20),
    "time": hdp.Duration(6),
}
"""Columns with missing cells, as they are declared."""

CELLS = (
    (LOGIT, "nodes"),
    (LOGIT, "y"),
    (HAZARD, "nodes"),
    (HAZARD, "time"),
    (POISSON, "nodes"),
    (POISSON, "visits"),
    (CASES, "nodes"),
    (SAMPLE, "arm"),
    (SAMPLE, "answer"),
)
"""Models, and the column that lacks cells."""


def _row(*cells):
    return "| " + " | ".join(cells) + " |"


def _mean(values, digits=3):
    """Return a mean over data sets with its Monte-Carlo standard error."""
    return f"{np.mean(values):.{digits}f} ({np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f})"


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Private rows with missing cells, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`. {PRIVATE:,} private "
        f"and {PUBLIC} public rows, epsilon {EPSILON:g}, private-only estimates; means over {REPEATS} data sets, in "
        "brackets their Monte-Carlo standard errors. Covariates: a number, a skewed count that depends on it "
        "(log(1 + nodes)), a treatment. *Complete cases* is the maximum-likelihood fit without noise to the rows that "
        "are complete.",
        "",
        OF_THE_MODEL,
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def test_estimates_are_those_of_complete_cases(page):
    page += [
        "## Distance from complete cases without noise",
        "",
        "Cells missing completely at random, or more often where the covariate x is large. Distances are means of "
        "(estimate - complete cases) / standard error; the largest of the coefficients in size is shown. Coverage of "
        "the true coefficients by 95 % intervals, mean over coefficients. *Case weights* are declared numbers from 0.5 "
        "to 2; *weighted sample* is a fit to public rows with hybrid weights of outcome and covariates.",
        "",
        _row("model", "missing", "share", "largest distance", "coverage", "complete rows, noisy"),
        _row(*["---"] * 6),
    ]
    off = []
    for formula, column in CELLS:
        for at_random in (True, False):
            for share in (0.05, 0.2):
                lacking = Lacking(column=column, share=share, at_random=at_random)
                fits = simulate(formula, lacking, REPEATS, **{column: LACKING[column]})
                apart = np.array([(fit.estimate - fit.complete_cases) / fit.std_error for fit in fits])
                worst = int(np.argmax(np.abs(apart.mean(axis=0))))
                covered = [float(fit.covered.mean()) for fit in fits]
                noisy, exact = (np.mean([getattr(fit, name) for fit in fits]) for name in ("records", "complete"))
                page.append(
                    _row(
                        NAMES[formula],
                        f"{column}, {'at random' if at_random else 'depending on x'}",
                        f"{share:.0%}",
                        _mean(apart[:, worst]),
                        _mean(covered),
                        f"{noisy:.0f} for {exact:.0f}",
                    )
                )
                bias, coverage = (2.0 * np.std(each, ddof=1) / REPEATS**0.5 for each in (apart[:, worst], covered))
                far = abs(apart.mean(axis=0)[worst]) > WITHIN + bias
                if far or np.mean(covered) < LEAST_COVERAGE - coverage:
                    off.append((NAMES[formula], column, at_random, share))
    page.append("")
    assert not off


def test_an_outcome_may_be_missing_too_and_a_value_that_fills_in_is_asked_for_by_name(page):
    page += [
        "## What a schema makes of 20 % missing cells",
        "",
        f"Depending on x. The coefficient of log(1 + nodes), {MORE} data sets.",
        "",
        _row("missing", "the schema says", "truth", "complete cases", "estimate", "coverage"),
        _row(*["---"] * 6),
    ]
    place, truth = list(TRUTH[LOGIT]).index("log1p(nodes)"), TRUTH[LOGIT]["log1p(nodes)"]
    found = {}
    for column, words, declared in (
        ("nodes", "nothing: rows left out", hdp.Continuous(0, 40)),
        ("nodes", "missing=20, the middle", hdp.Continuous(0, 40, missing=20)),
        ("nodes", "missing=2, the median", hdp.Continuous(0, 40, missing=2)),
        ("y", "nothing: rows left out", hdp.Binary()),
        ("y", "missing=0", hdp.Binary(missing=0)),
    ):
        lacking = Lacking(column=column, share=0.2, at_random=False)
        fits = simulate(LOGIT, lacking, MORE, **{column: declared})
        covered = [float(fit.covered[place]) for fit in fits]
        found[column, words] = covered
        page.append(
            _row(
                column,
                words,
                f"{truth:g}",
                _mean([fit.complete_cases[place] for fit in fits]),
                _mean([fit.estimate[place] for fit in fits]),
                _mean(covered, 2),
            )
        )
    page.append("")
    for (_, words), covered in found.items():
        error = 2.0 * np.std(covered, ddof=1) / MORE**0.5
        assert np.mean(covered) >= LEAST_COVERAGE - error or "missing=" in words


def test_a_file_that_is_coded_otherwise_has_few_complete_rows_and_says_so(page):
    page += [
        "## Files that are coded otherwise than declared",
        "",
        "One data set each: the number of complete rows that a fit releases, and the standard error of the treatment.",
        "",
        _row("file", "declared", "records", "complete rows, noisy", "estimate", "std error"),
        _row(*["---"] * 6),
    ]
    rng = np.random.default_rng(41_000)
    public, private = people(PUBLIC, rng), people(PRIVATE, rng)
    one_two, lower = private.assign(y=private["y"] + 1), private.assign(arm=private["arm"].str.lower())
    of = {}
    for file, words, rows, changes in (
        ("as declared", "Binary()", private, {"y": hdp.Binary()}),
        ("outcome 1 and 2", "Binary()", one_two, {"y": hdp.Binary()}),
        ("outcome 1 and 2", 'Binary(labels=("1", "2"))', one_two, {"y": hdp.Binary(labels=("1", "2"))}),
        ("treatment in lower case", "Categorical", lower, {"arm": hdp.Categorical(ARMS)}),
    ):
        schema = schema_of(LOGIT, **changes)
        outcome = public.assign(y=(public["y"] + 1).astype(int).astype(str)) if "labels" in words else public
        fit = one_fit(LOGIT, rows[list(schema)], outcome[list(schema)], schema, complete_cases=False)
        of[file, words] = fit
        arm = list(TRUTH[LOGIT]).index("arm[T.Drug]")
        shown = (f"{PRIVATE}", f"{fit.records}", f"{fit.estimate[arm]:.2f}", f"{fit.std_error[arm]:.2f}")
        page.append(_row(file, words, *shown))
    page.append("")
    right = of["as declared", "Binary()"]
    assert abs(right.records - PRIVATE) < 0.2 * PRIVATE
    assert of["outcome 1 and 2", "Binary()"].records < 0.8 * PRIVATE
    assert np.allclose(of["outcome 1 and 2", 'Binary(labels=("1", "2"))'].estimate, right.estimate, atol=0.5)
    gone = of["treatment in lower case", "Categorical"]
    assert gone.records < 0.2 * PRIVATE
    assert not gone.std_error[arm] <= 5.0 * right.std_error[arm]  # NaN where it cannot be told
