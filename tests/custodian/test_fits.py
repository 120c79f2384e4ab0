"""Whatever is asked of a site in this process can be asked of one behind HTTPS, and costs the same."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.custodian.people import FORMULA, PRIVATE, PUBLIC, RECORDS, SCHEMA, SURVIVAL

pytestmark = pytest.mark.usefixtures("few_draws")

REPLICATES = itertools.count(1)


def local_study(**options):
    return hdp.Study(
        private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=1000, delta=1e-3), **options
    )


def logit(study):
    return hdpf.logit(FORMULA, data=study)


def hazard(study):
    return hdpf.hazard(SURVIVAL, data=study, intervals=4)


def linear(study):
    return hdpf.linear("k ~ x + g", data=study)


FITS = [
    pytest.param(logit, {}, id="logit"),
    pytest.param(hazard, {}, id="hazard"),
    pytest.param(linear, {}, id="linear"),
    pytest.param(logit, {"mechanism": "output"}, id="output"),
    pytest.param(logit, {"mechanism": hdp.mechanisms.ClippedNewton(rounds=1)}, id="one round"),
    pytest.param(logit, {"mechanism": "clipped_newton", "delta": 1e-6}, id="rounds"),
]


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("model", "options"), FITS)
def test_a_fit_is_the_local_one_but_for_its_noise(site, running, model, options):
    replicate = next(REPLICATES)
    near = model(local_study()).fit(epsilon=1.0, replicate=replicate, **options)
    study = hdp.Study(private=site, public=PUBLIC)
    before = len(running.account().history())
    far = model(study).fit(epsilon=1.0, replicate=replicate, **options)
    after = len(running.account().history())
    assert far.guarantee == near.guarantee
    assert far.glance()["nobs"].item() == near.glance()["nobs"].item() == RECORDS
    assert after > before  # the part for Gaussian noise counts as spent from its first release on
    # The first round of several is the same question; what follows depends on the noise of the first.
    first = [getattr(result.query, "rounds", [result.query])[0] for result in (near, far)]
    released = [getattr(result.release, "rounds", [result.release])[0] for result in (near, far)]
    assert first[0].to_json() == first[1].to_json()
    assert released[0].events == released[1].events
    constants = [
        {name: value for name, value in release.to_dict().items() if name not in ("theta", "total", "hessian", "grid")}
        for release in released
    ]
    assert constants[0] == constants[1]
    assert released[0].to_dict() != released[1].to_dict()
    pd.testing.assert_series_equal(far.public_only.params, near.public_only.params)


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(("model", "options"), FITS)
def test_the_same_fit_again_is_free_on_another_connection_too(institution, site, running, model, options):
    replicate = next(REPLICATES)
    first = model(hdp.Study(private=site, public=PUBLIC)).fit(epsilon=1.0, replicate=replicate, **options)
    charged = running.account().spent, len(running.account().history())
    with institution.connect(running) as other:
        again = model(hdp.Study(private=other, public=PUBLIC)).fit(epsilon=1.0, replicate=replicate, **options)
    assert again.release == first.release
    assert "stored release of 20" in again.summary().as_text()
    assert "stored release" not in first.summary().as_text()
    pd.testing.assert_series_equal(again.params, first.params)
    assert (running.account().spent, len(running.account().history())) == charged


def test_a_release_says_where_the_ledger_keeps_it(site, running):
    result = logit(hdp.Study(private=site, public=PUBLIC)).fit(epsilon=0.5, replicate=next(REPLICATES))
    account = running.account()
    assert result.release.entry.dataset == account.dataset == "trial"
    assert result.release.entry.number in set(account.history("ann")["entry"])
    assert account.verify(result.release.entry.head)


def test_a_site_shows_its_public_facts(site):
    local = local_study()
    assert (site.schema, list(site.schema)) == (SCHEMA, list(SCHEMA))
    assert site.schema.sha256 == SCHEMA.sha256
    assert (site.records, site.terms) == (RECORDS, local.site.terms)
    assert (site.facts.dataset, site.facts.version, site.analyst) == ("trial", 1, "ann")
    assert site.permissions == {"mechanisms": None, "models": None, "columns": None}


def test_a_quote_is_what_the_ledger_is_then_charged(site, running):
    replicate = next(REPLICATES)
    local = local_study()
    query = logit(local).fit(epsilon=0.7, replicate=replicate, describe=False).query
    before = running.account()
    quote = site.quote(query)
    assert quote.seconds > 0
    assert dataclasses.replace(quote, seconds=None) == local.site.quote(query)
    assert quote.columns == ("g", "k", "x", "y")
    assert quote.cost.epsilon == Fraction(7, 10)
    spent = running.account().spent.epsilon
    assert spent == before.spent.epsilon
    site.answer(query)
    assert running.account().spent.epsilon - spent == quote.cost.epsilon


def test_an_evaluation_and_weights_are_sent(site):
    study = hdp.Study(private=site, public=PUBLIC)
    evaluation = logit(study).evaluate(logit(study).fit_public(), epsilon=1.0)
    assert evaluation.release.entry.dataset == "trial"
    weighted = hdp.hybrid_weights(study, ["x", "k", "g"], epsilon=1.0)
    assert len(weighted.frame) > 0
    sample = hdp.importance_weights(study, "~ x + g", epsilon=1.0)
    assert len(sample.frame) == len(PUBLIC)
    assert np.isfinite(sample.frame["weight"]).all()


def test_dummy_rows_obey_the_schema_and_try_code(site):
    rows = site.dummy(500, seed=3)
    assert list(rows.columns) == list(SCHEMA)
    assert rows["x"].between(-3, 3).all()
    assert set(rows["g"]) == {"a", "b", "c"}
    assert set(rows["y"]) == {0.0, 1.0}
    pd.testing.assert_frame_equal(rows, site.dummy(500, seed=3))
    assert not rows.equals(site.dummy(500, seed=4))
    assert not set(rows["x"]) & set(PRIVATE["x"])
    trial = hdp.Study(private=rows, public=PUBLIC, schema=site.schema, budget=hdp.Budget(epsilon=1))
    assert logit(trial).fit(epsilon=1.0).glance()["nobs"].item() == 500


def test_dummy_rows_do_not_depend_on_the_private_ones(institution, site, small):
    with institution.connect(small) as other:
        pd.testing.assert_frame_equal(site.dummy(50), other.dummy(50))
