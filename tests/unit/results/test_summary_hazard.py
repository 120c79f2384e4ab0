"""What tables and summaries say about a hazard model."""

from dataclasses import replace

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.display import STYLE
from hdpstats.records.model import TimeGrid
from hdpstats.results import Result
from hdpstats.results.facts import HazardFacts

CAP = "the caps of one person's hazards add up to at most 4, relative to those that the public rows predict"


def with_dummies(result, intervals):
    """The same covariates on a baseline of one coefficient per interval."""
    names = tuple(f"interval[{number}]" for number in range(1, intervals + 1))
    hazard = replace(
        result.facts.hazard,
        grid=TimeGrid(tuple(float(cut) for cut in range(1, intervals + 1))),
        baseline=tuple(map(tuple, np.eye(intervals).tolist())),
        baseline_names=names,
    )
    terms = (*names, *result.estimate.terms[2:])
    variances = np.full(len(terms), 0.01)
    estimate = replace(
        result.estimate,
        terms=terms,
        values=np.concatenate([np.full(intervals, -3.0), result.estimate.values[2:]]),
        sampling=np.diag(variances),
        privacy=np.diag(variances),
    )
    return replace(result, facts=replace(result.facts, hazard=hazard), estimate=estimate)


def test_ratios_are_those_of_the_covariates(hazard):
    result = hazard("cloglog", ("relapse", "death"))
    found = result.hazard_ratios()
    covariates = [term for term in result.estimate.terms if "baseline" not in term]
    assert list(found.index) == covariates
    assert len(covariates) == 6
    np.testing.assert_allclose(found["estimate"], np.exp(result.params[covariates]))
    limits = result.conf_int().loc[covariates]
    np.testing.assert_allclose(found["conf_low"], np.exp(limits[0]))
    np.testing.assert_allclose(found["conf_high"], np.exp(limits[1]))
    np.testing.assert_allclose(found["std_error"], np.exp(result.params[covariates]) * result.bse[covariates])


@pytest.mark.parametrize(
    ("link", "method", "words"),
    [
        ("cloglog", "odds_ratios", r"no odds ratio: with the cloglog link .* hazard_ratios\(\), or .*'logit'"),
        ("logit", "hazard_ratios", r"no hazard ratio: with the logit link .* odds_ratios\(\), or .*'cloglog'"),
        ("probit", "odds_ratios", r"no odds ratio: with the probit link .* normal scale"),
        ("probit", "hazard_ratios", r"no hazard ratio: with the probit link"),
    ],
)
def test_ratios_that_the_link_does_not_have_are_refused(hazard, link, method, words):
    with pytest.raises(ArgumentError, match=words):
        getattr(hazard(link), method)()
    assert len(hazard("logit").odds_ratios()) == len(hazard("cloglog").hazard_ratios()) == 3


def test_a_logistic_regression_has_no_hazard_ratios(result):
    with pytest.raises(ArgumentError, match="odds ratio; ask for odds_ratios"):
        result.hazard_ratios()


def test_tidy_keeps_every_term_and_glance_knows_the_time_axis(hazard, result):
    model = hazard("logit", ("relapse", "death"))
    assert model.tidy()["term"].tolist() == list(model.estimate.terms)
    row = model.glance().iloc[0]
    assert (row["link"], row["intervals"], row["terms"]) == ("logit", 4, 10)
    assert "link" not in result.glance()


@pytest.mark.parametrize("causes", [("event",), ("relapse", "death")])
def test_text_of_the_summary(hazard, causes, snapshot):
    assert hazard("cloglog", causes, noise=0.4, cap=CAP, offset="o").summary().as_text() == snapshot


def test_html_and_latex_of_the_summary(hazard, snapshot):
    result = hazard("logit", ("<b>relapse</b>", "death & more"))
    assert result._repr_html_().replace(STYLE, "") == snapshot(name="html")
    assert result.summary().as_latex() == snapshot(name="latex")
    assert "<b>" not in result._repr_html_()


def test_covariates_come_before_the_baseline(hazard):
    text = str(hazard("cloglog", ("relapse", "death")))
    places = [
        text.index(f"\n{term} ")
        for term in ("relapse: age", "death: age", "relapse: baseline[1]", "death: baseline[1]")
    ]
    assert places == sorted(places)


def test_a_long_baseline_is_left_out_of_the_summary(hazard):
    short, long = (with_dummies(hazard(), size) for size in (12, 40))
    assert "interval[12] " in str(short)
    assert "baseline_hazard() gives" not in str(short)
    assert "\ninterval[1] " not in str(long)
    assert "baseline_hazard() gives the hazards" in " ".join(str(long).split())
    assert "40 coefficients: interval[1] to interval[40]" in str(long)
    assert len(long.tidy()) == 43
    assert max(map(len, str(long).splitlines())) <= 78


def test_a_long_baseline_alone_is_shown(hazard):
    long = with_dummies(hazard(), 40)
    keep = slice(0, 40)
    alone = replace(
        long.estimate,
        terms=long.estimate.terms[keep],
        values=long.estimate.values[keep],
        sampling=long.estimate.sampling[keep, keep],
        privacy=long.estimate.privacy[keep, keep],
    )
    assert "interval[40] " in str(replace(long, estimate=alone))


@pytest.mark.parametrize("causes", [("event",), ("relapse", "death")])
def test_hazard_results_come_back_from_json(hazard, causes):
    one = hazard("probit", causes, noise=0.4, cap=CAP, typical=(50.0, 0.2, 0.1))
    text = one.to_json()
    other = Result.from_json(text)
    assert other.facts == one.facts
    assert isinstance(other.facts.hazard, HazardFacts)
    assert other.to_json() == text
    assert str(other) == str(one)
    assert other.baseline_hazard().equals(one.baseline_hazard())


def test_the_disclosure_names_the_time_axis(hazard):
    assert hazard().disclosure()["model"]["hazard"]["grid"] == {"cuts": [1.0, 2.5, 4.0, 10.0]}
