"""Several parties' blocks and statistics against the corrected errors, and coverage at one site: ``make validate``.

Every party answers with the mechanism that a site runs, exact noise included; the means over parties are compared with
`hdpstats.simulate.chen_sung`'s formulas.
"""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.data.table import AdmittedTable
from hdpstats.mechanisms import statistics, subsample
from hdpstats.mechanisms.base import Custody
from hdpstats.mechanisms.statistics import out_of_units
from hdpstats.mechanisms.subsample import optimal_blocks
from hdpstats.privacy.relation import Relation
from hdpstats.queries import StatisticsQuery, SubsampleQuery
from hdpstats.simulate import chen_sung as paper

pytestmark = pytest.mark.validate

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "distributed.md"
N = 1000
EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0)
PARTIES = (5, 20)
REPEATS = {5: 1200, 20: 400}
SECTIONS = 3
SCHEMA = hdp.Schema(x=hdp.Continuous(0, 30), b=hdp.Binary())
BOX = (0.5, 2.0)
CHANCE = 0.4
LOWER_ORDER = 0.1
"""Part of 1 / I that terms of the order of k / N, which the formulas leave out, may add."""


@pytest.fixture(scope="module")
def page():
    lines = [
        "# Parties that answer on their own, measured",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`.",
        "",
    ]
    yield lines
    if sum(line.startswith("## ") for line in lines) == SECTIONS:  # a part of the studies does not replace the page
        PAGE.write_text("\n".join(lines), encoding="utf-8")


def _custody():
    return Custody(schema=SCHEMA, relation=Relation.REPLACE_ONE, records=N)


def _table(**numeric):
    return AdmittedTable(numeric=numeric, codes={}, rows=N)


def _line(parties, epsilon, squares, predicted, information):
    scale = parties * N * information
    error = squares.std() / np.sqrt(len(squares))
    line = f"| {parties} | {epsilon:g} | {squares.mean() * scale:.3f} | {error * scale:.3f} | {predicted * scale:.3f} |"
    excess = LOWER_ORDER / (parties * N * information)
    return line, abs(squares.mean() - predicted) <= 4 * error + excess


HEAD = ["| parties | epsilon | MSE x M N I | its Monte-Carlo error | predicted |", "| --- | --- | --- | --- | --- |"]


def test_blocks_of_several_parties_meet_the_corrected_error(page):
    """The rate of exponential times; would fail for k epsilon, for sqrt(k), and for the same noise at two parties."""
    rng, met = np.random.default_rng(0), []
    page += [
        "## Subsample and aggregate: the rate of an exponential law, range 0.5 to 2, 1,000 records each",
        "",
        *HEAD,
    ]
    for parties in PARTIES:
        for epsilon in EPSILONS:
            blocks = optimal_blocks(N, epsilon=epsilon, widths=np.array([1.5]), spreads=np.array([1.0]))
            query = SubsampleQuery(
                column="x",
                family="exponential",
                box=(BOX,),
                blocks=blocks,
                epsilon=Fraction(str(epsilon)),
                schema_sha256=SCHEMA.sha256,
            )
            prepared = subsample.prepare(query, _custody())
            estimates = [
                np.mean(
                    [
                        out_of_units(prepared.compute(_table(x=own)).units, (BOX,), count=blocks)[0]
                        for own in np.minimum(rng.exponential(1.0, (parties, N)), 30.0)
                    ]
                )
                for _ in range(REPEATS[parties])
            ]
            predicted = paper.mse_blocks(
                parties=parties, records=N, epsilon=epsilon, blocks=blocks, width=1.5, information=1.0
            )
            line, fits = _line(parties, epsilon, (np.array(estimates) - 1.0) ** 2, predicted, 1.0)
            page.append(line)
            met.append(fits)
    page.append("")
    assert all(met)


def test_statistics_of_several_parties_meet_the_corrected_error(page):
    """Log-odds of a binary column; would fail for noise of k blocks, and for the printed formula."""
    rng, met, printed = np.random.default_rng(1), [], []
    truth, information = np.log(CHANCE / (1 - CHANCE)), CHANCE * (1 - CHANCE)
    page += ["## Sufficient statistics: the log-odds of a binary column, 1,000 records each", "", *HEAD]
    for parties in PARTIES:
        for epsilon in EPSILONS:
            query = StatisticsQuery(
                column="b", family="bernoulli", epsilon=Fraction(str(epsilon)), schema_sha256=SCHEMA.sha256
            )
            prepared = statistics.prepare(query, _custody())
            means = [
                np.mean(
                    [
                        out_of_units(prepared.compute(_table(b=own)).units, ((0.0, 1.0),), count=N)[0]
                        for own in (rng.random((parties, N)) < CHANCE) * 1.0
                    ]
                )
                for _ in range(REPEATS[parties])
            ]
            p = np.clip(means, 0.01, 0.99)
            terms = {"parties": parties, "records": N, "epsilon": epsilon, "width": 1.0, "information": information}
            squares = (np.log(p / (1 - p)) - truth) ** 2
            line, fits = _line(parties, epsilon, squares, paper.mse_statistics(**terms), information)
            page.append(line)
            met.append(fits)
            printed.append(_line(parties, epsilon, squares, paper.mse_statistics_printed(**terms), information)[1])
    page.append("")
    assert all(met)
    assert not all(printed)


def test_intervals_of_a_site_cover_the_truth(page):
    """At one site, through the public API: 95 % intervals of both mechanisms."""
    schema = hdp.Schema(sbp=hdp.Continuous(40, 240), died=hdp.Binary())
    truths = {"normal": ("sbp", {"sd": (5, 40)}, [130.0, 15.0]), "bernoulli": ("died", None, [CHANCE])}
    mechanisms = {
        "statistics": hdp.mechanisms.SufficientStatistics(),
        "subsample": hdp.mechanisms.SubsampleAggregate(order="arbitrary"),
    }
    covered = {(mechanism, name): [] for mechanism in mechanisms for name in truths}
    rng = np.random.default_rng(2)
    for _ in range(150):
        frame = pd.DataFrame({"sbp": rng.normal(130, 15, N), "died": rng.random(N) < CHANCE})
        study = hdp.Study(private=frame, schema=schema, budget=hdp.Budget(epsilon=10))
        for name, (column, ranges, truth) in truths.items():
            model = hdpf.family(f"{column} ~ 1", data=study, family=name, ranges=ranges)
            for mechanism, options in mechanisms.items():
                limits = model.fit(0.5, mechanism=options).conf_int()
                covered[mechanism, name].append((limits[0] <= truth) & (truth <= limits[1]))
    page += ["## Coverage of 95 % intervals at one site of 1,000, epsilon 0.5, 150 data sets", ""]
    page += ["| mechanism | family | covered |", "| --- | --- | --- |"]
    shares = {key: float(np.mean(found)) for key, found in covered.items()}
    page += [f"| {mechanism} | {name} | {share:.3f} |" for (mechanism, name), share in shares.items()]
    page.append("")
    assert all(0.90 <= share <= 0.99 for share in shares.values())
