"""Response times over HTTPS tell nothing about cells: 200 questions, one timed response each; ``make validate``."""

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import hdpstats.api as hdp
from tests.statistical.clock_studies import CALIBRATION, FAMILIES, FEATURES, MOST_RIGHT, QUESTIONS, attack

pytestmark = [
    pytest.mark.validate,
    pytest.mark.filterwarnings("ignore:public rows alone"),  # nobody's secret is public, and some coefficients are none
]

PAGE = Path(__file__).parents[2] / "vignettes" / "validation" / "running-time.md"
MATCHES = {"alone": False, "with probes": True}


@pytest.fixture(scope="module")
def page():
    rows: dict[str, list[str]] = {}
    yield rows
    if not set(MATCHES) <= set(rows):
        return  # a part of the study does not replace the page
    families = ", ".join(f"{number} with a {name}" for name, number in FAMILIES.items())
    lines = [
        "# Response times over HTTPS, attacked",
        "",
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}, written by `make validate`; {os.cpu_count()} "
        f"cores, load {os.getloadavg()[0]:.1f} at the end.",
        "",
        "Each of 500 people has a secret that a coin decided. The attacker asks a site with the default slots (three "
        "times the predicted time, on a grid of 50 ms) one question about each of "
        f"{QUESTIONS} people, whose covariate "
        "`I(exp(3 * (secret - 5) - 20 * (code - j)**2))` is large only if person j has a high secret: "
        f"{families} query. From {2 * CALIBRATION} people whose secrets he knows he learns, for every kind of query, "
        "the best threshold and direction for what he sees of a response. Then he guesses. *Seconds* run from question "
        "to answer; *beyond the slot* is their remainder modulo the slot that the site quotes. *With probes* another "
        "client, who has a certificate and no token, asks as often as he can meanwhile, and the attacker looks at when "
        "his refusals become quick and how long they take.",
        "",
        f"If times are independent of secrets, right guesses are binomial({QUESTIONS}, 1/2): more than {MOST_RIGHT} "
        "have a probability of 3e-11, and the study fails.",
        "",
        "| attack | what is seen | right guesses | overruns |",
        "| --- | --- | --- | --- |",
        *(row for name in MATCHES for row in rows[name]),
        "",
        "Milliseconds from question to answer, by the true answer (5 %, 50 %, 95 %):",
        "",
        "| attack | query | secret is low | secret is high |",
        "| --- | --- | --- | --- |",
        *(row for name in MATCHES for row in rows[f"{name}: times"]),
        "",
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def _quantiles(responses, answer):
    seconds = [response.seconds for response, high in responses if high == answer]
    return ", ".join(f"{1000 * value:.0f}" for value in np.quantile(seconds, (0.05, 0.5, 0.95)))


@pytest.mark.parametrize("name", MATCHES)
def test_no_attacker_guesses_cells_from_response_times(name, page, tmp_path):
    """A false alarm has a probability of at most 4 * 3e-11: what is seen in four ways may not tell any secret.

    Power: where three of four answers show their secret by their time, 175 guesses are expected to be right, and
    fewer than 146 have a probability of 1e-8.
    """
    probing = MATCHES[name]
    right, asked, overruns = attack(tmp_path, probing=probing, seed=secrets.randbits(64))  # coins that nobody chose
    seen = [each for each in FEATURES if probing or "probe" not in each]
    page[name] = [f"| {name} | {each} | {right[each]} of {QUESTIONS} | {overruns} |" for each in seen]
    page[f"{name}: times"] = [
        f"| {name} | {family} | {_quantiles(responses, False)} | {_quantiles(responses, True)} |"
        for family, responses in asked.items()
    ]
    assert {each: right[each] for each in seen if right[each] > MOST_RIGHT} == {}
