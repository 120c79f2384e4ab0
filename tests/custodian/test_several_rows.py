"""A site of people with several rows behind HTTPS: what is answered, what it costs, for how many rows a slot is."""

import dataclasses

import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.custodian.institution import EVERYTHING
from tests.custodian.people import FORMULA, SCHEMA, people

pytestmark = pytest.mark.usefixtures("few_draws")

MOST, PEOPLE = 3, 130
PRIVATE = people(2 * PEOPLE, seed=4).assign(pid=[f"p{k // 2}" for k in range(2 * PEOPLE)])
PUBLIC = people(150, seed=5).assign(pid=[f"q{k // 3}" for k in range(150)])
PERSONS = {"unit": "pid", "max_rows_per_unit": MOST, "n_max": PEOPLE}


@pytest.fixture(scope="module")
def visits(started):
    institution = started[0]
    analysts = {"ann": EVERYTHING, "bob": {"mechanisms": "all", "models": ["hazard"]}}
    settings = institution.write(
        "visits", PRIVATE, SCHEMA, persons=PERSONS, analysts=analysts, limits={"seconds": 60, "query": 200_000}
    )
    running = institution.start(settings)
    yield running
    running.stop()


@pytest.fixture
def site(started, visits):
    with started[0].connect(visits) as connected:
        yield connected


def local():
    budget = hdp.Budget(epsilon=100, delta=1e-3)
    return hdp.Study(private=PRIVATE, public=PUBLIC, schema=SCHEMA, budget=budget, **PERSONS)


def test_a_fit_is_the_local_one_but_for_its_noise(site, visits):
    near, far = (
        hdpf.logit(FORMULA, study, correlation=0.3).fit(epsilon=4.0)
        for study in (local(), hdp.Study(private=site, public=PUBLIC))
    )
    assert far.guarantee == near.guarantee
    assert far.facts.several_rows.most_rows == MOST
    kinds = list(visits.account().history("ann")["mechanism"])
    assert kinds[-1] == "objective/1"
    spent = visits.account().spent
    again = hdpf.logit(FORMULA, hdp.Study(private=site, public=PUBLIC), correlation=0.3).fit(epsilon=4.0)
    assert again.release == far.release
    assert visits.account().spent == spent
    description = hdp.describe(hdp.Study(private=site, public=PUBLIC), ["x", "y"], epsilon=1.0)
    assert "rows" in set(description.tidy()["statistic"])


def test_another_correlation_is_another_question(site, visits):
    study, spent = hdp.Study(private=site, public=PUBLIC), []
    for correlation in ("person", "independence"):
        before = visits.account().spent.epsilon
        hdpf.logit(FORMULA, study, correlation=correlation).fit(epsilon=1.0, describe=False)
        spent.append(float(visits.account().spent.epsilon - before))
    assert spent == pytest.approx([1.0, 1.0])


def test_a_slot_is_that_of_all_rows_that_people_may_have(site):
    """Not of the rows that they have: their number is private."""
    study = local()
    query = hdpf.logit(FORMULA, study).fit(epsilon=1.0, describe=False).query
    site.put_public(study.public)
    quote = site.quote(query)
    assert quote.seconds > 0
    assert dataclasses.replace(quote, seconds=None) == study.site.quote(query)
    few = hdp.Study(private=PRIVATE.head(20), public=PUBLIC, schema=SCHEMA, budget=hdp.Budget(epsilon=9), **PERSONS)
    assert few.site.work(query) == study.site.work(query)
    more = hdp.Study(
        private=PRIVATE,
        public=PUBLIC,
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=9),
        **PERSONS | {"max_rows_per_unit": 6},
    )
    larger = hdpf.logit(FORMULA, more).fit(epsilon=1.0, describe=False).query
    assert more.site.work(larger).passes > 1.5 * study.site.work(query).passes


def test_who_may_not_fit_regressions_may_not_with_several_rows(started, visits):
    spent = visits.account().spent
    with started[0].connect(visits, token=started[0].token("bob")) as connected:
        study = hdp.Study(private=connected, public=PUBLIC)
        with pytest.raises(hdp.SiteError, match="does not permit"):
            hdpf.logit(FORMULA, study).fit(epsilon=1.0)
    assert visits.account().spent == spent


def test_public_rows_keep_whose_they_are(site):
    study = hdp.Study(private=site, public=PUBLIC)
    pd.testing.assert_series_equal(
        hdpf.logit(FORMULA, study).fit_public().bse, hdpf.logit(FORMULA, local()).fit_public().bse
    )
