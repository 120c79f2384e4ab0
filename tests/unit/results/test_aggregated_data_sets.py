"""Results of one data set are no independent members of an aggregate, and their guarantees add up."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats._base.errors import SiteError
from hdpstats.privacy.budget import Guarantee, Part, over_data_sets
from hdpstats.privacy.sensitivity import Relation
from hdpstats.results import Result
from hdpstats.results.aggregated import Aggregate
from hdpstats.results.sites import DescribedCohort
from r_bridge.handles import aggregate as aggregate_for_r

SCHEMA = hdp.Schema(died=hdp.Binary(complete=True))


def study_of(ledger):
    people = pd.DataFrame({"died": np.arange(1000) < 300})
    return hdp.Study(private=people, schema=SCHEMA, ledger=ledger)


def fitted(study, epsilon=1, **options):
    return hdpf.distribution("died ~ 1", data=study, family="bernoulli").fit(epsilon=epsilon, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def test_ten_fits_to_one_data_set_are_not_ten_populations(path):
    study = study_of(hdp.Ledger(path, dataset="trial", epsilon=20))
    results = [fitted(study, replicate=number) for number in range(1, 11)]
    with pytest.raises(hdp.ArgumentError, match=r"'1' \(data set 'trial', version 1\) and '2' .* one account"):
        hdp.aggregate(results)
    with pytest.raises(hdp.ArgumentError, match="one account"):
        aggregate_for_r(results)


@pytest.mark.parametrize("other", [{"dataset": "again", "same_people_as": "trial"}, {"dataset": "trial", "version": 2}])
def test_another_name_or_version_of_the_same_people_is_noticed_also_in_files(path, other):
    first = fitted(study_of(hdp.Ledger(path, dataset="trial", epsilon=20)))
    second = fitted(study_of(hdp.Ledger(path, **other, epsilon=20)))
    read = Result.from_json(second.to_json())
    for members in ([first, second], [first, read], {"A": [first], "B": [read]}):
        with pytest.raises(hdp.ArgumentError, match="charged to one account"):
            hdp.aggregate(members)
    elsewhere = fitted(study_of(hdp.Ledger(path, dataset="other", epsilon=20)))
    state = Aggregate.from_json(hdp.aggregate([first, elsewhere]).to_json())
    assert [each[0].dataset for each in state.data_sets] == ["trial", "other"]
    with pytest.raises(hdp.ArgumentError, match="charged to one account"):
        hdp.aggregate({"state": state, "school": second})


def test_the_same_release_twice_is_refused_as_before(path):
    result = fitted(study_of(hdp.Ledger(path, dataset="trial", epsilon=20)))
    with pytest.raises(hdp.ArgumentError, match="same release twice"):
        hdp.aggregate([result, result])


def with_account(result, account):
    """Return a result whose release was charged to another account, with the same numbers."""
    release = result.release.at(replace(result.release.entry, account=account))
    sites = tuple(replace(each, entries=(release.entry,)) for each in result.site_facts)
    return replace(result, released=replace(result.released, release=release, sites=sites))


def test_the_same_numbers_of_two_accounts_are_two_releases(path):
    """Two sites may well release one small table of counts, and the same one."""
    one, other = (with_account(fitted(study_of(hdp.Ledger(path, dataset="trial", epsilon=20))), each) for each in "ab")
    assert one.release.sha256 == other.release.sha256
    state = hdp.aggregate([one, other])
    assert "1-differential privacy (pure) at most for one person" in str(state)
    third = with_account(one, "c")
    assert "1-differential privacy (pure) at most" in str(hdp.aggregate({"state": state, "school": third}))
    for again in (with_account(one, "a"), with_account(one, "")):
        with pytest.raises(hdp.ArgumentError, match="same release twice"):
            hdp.aggregate({"state": state, "school": again})


def test_results_of_an_account_that_is_not_known_may_be_of_the_same_people(path):
    study = study_of(hdp.Ledger(path, dataset="trial", epsilon=20))
    first, second = fitted(study, 1), with_account(fitted(study, 2), "")
    found = hdp.aggregate([first, second])
    for each in (found, Aggregate.from_json(found.to_json())):
        assert "3-differential privacy (pure) at most for one person (replace_one)" in str(each)
    both = hdp.aggregate([with_account(first, ""), second])
    assert "3-differential privacy (pure) at most for one person (replace_one)" in str(both)


def test_accounts_of_one_name_in_two_ledgers_are_different_people(tmp_path):
    ledgers = [hdp.Ledger(tmp_path / name, dataset="trial", epsilon=2) for name in ("one.db", "two.db")]
    results = [fitted(study_of(ledger), epsilon) for ledger, epsilon in zip(ledgers, (1, 2), strict=True)]
    found = hdp.aggregate(results)
    assert "2-differential privacy (pure) at most for one person (replace_one)" in str(found)


def test_guarantees_of_one_data_set_add_up_and_those_of_several_do_not():
    def of(epsilon, delta=0):
        return Guarantee(epsilon=Fraction(epsilon), delta=Fraction(delta), relation=Relation.REPLACE_ONE, unit="person")

    def together(*given):
        found = over_data_sets(given)
        return found.epsilon, found.delta, found.listed

    a, b, nobody = frozenset("a"), frozenset("b"), frozenset()
    assert together((a, of(1)), (b, of(2))) == (2, 0, "")
    assert together((a, of(1)), (b, of(2)), (a, of(3, "1/10"))) == (4, Fraction(1, 10), "")
    assert together((a | b, of(1)), (b, of(2))) == (3, 0, "")
    assert together((nobody, of(1)), (nobody, of(2))) == (3, 0, ""), "who is not known may be anybody"
    assert together((nobody, of(1)), (a, of(2)), (b, of(4))) == (5, 0, "")

    described = Part(what="the description it rests on", epsilon=Fraction(2), delta=Fraction(0), releases=("d",))
    other = replace(described, epsilon=Fraction(5), releases=("e",))
    one, two = of(1).resting_on(described), of(3).resting_on(described)
    words = "4 for the fit, 2 for the description it rests on"
    assert together((a, one), (a, two)) == (6, 0, words), "one description of two fits is one charge"
    assert together((a, one), (a, of(3).resting_on(other))) == (11, 0, words.replace("2 for", "7 for"))
    assert together((a, one), (b, two)) == (5, 0, words.replace("4 for", "3 for"))
    assert together((a, one), (b, of(9))) == (9, 0, words.replace("4 for", "9 for"))


def test_an_aggregate_states_what_descriptions_cost_at_each_site_and_keeps_it_in_a_file():
    """At each hospital 3 was charged: 1 for the fit, 2 for the description that it rests on."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))

    def hospital():
        people = pd.DataFrame({"died": np.arange(2000) % 5 < 2, "age": (np.arange(2000) % 97) / 97})
        study = hdp.Study(private=people, schema=schema, public=people.head(300), budget=hdp.Budget(epsilon=4))
        cohort = hdp.describe(study, ["died", "age"], complete=True, epsilon=2)
        result = hdpf.logit("died ~ age", data=study).fit(epsilon=1, description=cohort)
        assert study.ledger.spent.epsilon == result.guarantee.epsilon == 3
        return result

    found = hdp.aggregate([hospital(), hospital()])
    words = (
        "3-differential privacy (pure) at most for one person (replace_one), whose records are in one data set only: "
        "at most 1 for the fit, 2 for the description it rests on"
    )
    for one in (found, Aggregate.from_json(found.to_json())):
        assert words in " ".join(str(one).split())


def test_a_description_of_an_account_that_is_not_known_may_be_of_any_of_the_people():
    """Here it is of the people of the second fit, who were charged 4: 2 for it, and 2 for their fit."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))
    people = pd.DataFrame({"died": np.arange(2000) % 5 < 2, "age": (np.arange(2000) % 97) / 97})

    def study():
        rows = {"private": people, "public": people.head(300), "schema": schema}
        return hdp.Study(**rows, budget=hdp.Budget(epsilon=9))

    one, other = study(), study()
    cohort = hdp.describe(other, ["died", "age"], complete=True, epsilon=2)
    ((name, release),) = cohort.releases
    nameless = replace(cohort, releases=((name, release.at(replace(release.entry, account=""))),))
    first = hdpf.logit("died ~ age", data=one).fit(epsilon=1, description=nameless)
    second = hdpf.logit("died ~ age", data=other).fit(epsilon=2)
    assert other.ledger.spent.epsilon == 4
    found = hdp.aggregate([first, second])
    for each in (found, Aggregate.from_json(found.to_json())):
        assert "5-differential privacy (pure) at most for one person" in str(each)
    its_own = hdpf.logit("died ~ age", data=one).fit(
        epsilon=1, description=hdp.describe(one, ["died", "age"], complete=True, epsilon=2)
    )
    state = hdp.aggregate([its_own, second])
    assert "3-differential privacy (pure) at most for one person" in str(state)
    assert [len(each) for each in state.data_sets] == [1, 1]

    elsewhere = replace(first.released.description, releases=((name, release),))  # charged to the second account
    moved = replace(first, released=replace(first.released, description=elsewhere))
    with pytest.raises(hdp.ArgumentError, match="charged to one account"):
        hdp.aggregate([moved, second])


def test_two_descriptions_with_the_same_numbers_are_two_charges():
    """Of both fits the account is not known, so that one person may have been charged for both, 3 each time."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))
    people = pd.DataFrame({"died": np.arange(2000) % 5 < 2, "age": (np.arange(2000) % 97) / 97})

    def nameless(release, **changes):
        return release.at(replace(release.entry, account="", **changes))

    def result(description, released, **changes):
        releases = tuple((site, nameless(each, **changes)) for site, each in description.releases)
        own = nameless(released.release)
        sites = tuple(replace(each, entries=(own.entry,)) for each in released.site_facts)
        given = DescribedCohort(charged=False, queries=description.queries, releases=releases)
        alone = Guarantee(epsilon=Fraction(1), delta=Fraction(0), relation=Relation.REPLACE_ONE, unit="person")
        kept = replace(released.released, release=own, sites=sites, description=given, guarantee=alone)
        return replace(released, released=kept)

    study = hdp.Study(private=people, public=people.head(300), schema=schema, budget=hdp.Budget(epsilon=9))
    cohort = hdp.describe(study, ["died", "age"], complete=True, epsilon=2)
    model = hdpf.logit("died ~ age", data=study)
    fits = [model.fit(epsilon=1, description=cohort, replicate=number) for number in (1, 2)]
    one, same, other = result(cohort, fits[0]), result(cohort, fits[1]), result(cohort, fits[1], head="0" * 64)
    assert "4-differential privacy (pure) at most for one person" in str(hdp.aggregate([one, same]))
    assert "6-differential privacy (pure) at most for one person" in str(hdp.aggregate([one, other]))


def test_a_site_of_which_no_entry_is_known_may_be_of_any_of_the_people(path):
    """Of one of two sites nothing says to whom its release was charged, here to the people of the second result."""
    ledgers = {each: hdp.Ledger(path, dataset=each, epsilon=20) for each in "ab"}
    both = hdp.Study(private={each: study_of(ledger).site for each, ledger in ledgers.items()}, schema=SCHEMA)
    first, second = fitted(both, 1), fitted(study_of(ledgers["b"]), 2)
    with pytest.raises(hdp.ArgumentError, match="charged to one account"):
        hdp.aggregate([first, second])
    (a, given), (b, lost) = first.release.sites
    release = replace(first.release, sites=((a, given), (b, replace(lost, entry=None))))
    facts = (first.site_facts[0], replace(first.site_facts[1], entries=()))
    lacking = replace(first, released=replace(first.released, release=release, sites=facts))
    assert ledgers["b"].spent.epsilon == 3
    found = hdp.aggregate([lacking, second])
    for each in (found, Aggregate.from_json(found.to_json())):
        assert "3-differential privacy (pure) at most for one person" in str(each)


def test_an_aggregate_of_two_relations_states_each():
    """1 under one relation is no number under the other."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))
    people = pd.DataFrame({"died": np.arange(2000) % 5 < 2, "age": (np.arange(2000) % 97) / 97})

    def of(epsilon, **terms):
        rows = {"private": people, "public": people.head(300), "schema": schema}
        return hdpf.logit("died ~ age", data=hdp.Study(**rows, budget=hdp.Budget(epsilon=4), **terms)).fit(epsilon)

    found = " ".join(str(hdp.aggregate([of(1), of(2, relation="add_or_remove_one", n_max=3000)])).split())
    assert "1-differential privacy (pure) at most for one person (replace_one)" in found
    assert "2-differential privacy (pure) at most for one person (add_or_remove_one)" in found


def test_a_fit_below_the_floor_is_charged_the_floor_and_says_so(path):
    """Before it is spent (plan, quote) and after (result, history); the guarantee is that of what ran."""
    ledger = hdp.Ledger(path, dataset="trial", epsilon=2)
    study = study_of(ledger)
    least = Fraction(1, 10**4)
    plan = hdpf.distribution("died ~ 1", data=study, family="bernoulli").plan(epsilon=[1e-5, 1])
    assert "it is charged 0.0001, the least that the account charges" in plan.verdicts[1e-5]
    assert "it is charged" not in plan.verdicts[1.0]
    result = fitted(study, 1e-5)
    assert result.guarantee.epsilon == Fraction(1, 10**5)
    assert ledger.spent.epsilon == least
    assert ledger.history()["epsilon"].tolist() == [1e-4]
    assert study.site.quote(result.query).cost.epsilon == least
    assert result.release.entry.charged.epsilon == least
    assert "charged epsilon = 0.0001" in " ".join(str(result.summary()).split())
    assert result.disclosure()["ledger"]["charged"]["epsilon"] == "1/10000"
    assert "charged" not in str(fitted(study, 0.5).summary())


class OnlyCounted(hdp.LocalSite):
    """A site that sells the number of its people and then nothing else."""

    def answer(self, query, **options):
        if query.kind != "count/1":
            raise SiteError("down")
        return super().answer(query, **options)


def test_a_site_that_sold_only_its_number_of_people_belongs_to_the_result():
    """Its people were charged for both results: 0.04 and 3."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))
    died = np.arange(2000) % 5 < 2
    people = pd.DataFrame({"died": died, "age": (np.arange(2000) % 97) / 97})
    terms = {"epsilon": 8, "relation": "add_or_remove_one"}
    a, b = (hdp.Ledger(None, dataset=name, **terms) for name in "ab")

    def site(kind, ledger):
        return kind(people, schema=schema, ledger=ledger, n_max=4000)

    def result(sites, epsilon, **options):
        study = hdp.Study(private=sites, schema=schema, public=people.head(300), **options)
        return hdpf.logit("died ~ age", data=study).fit(epsilon=epsilon)

    first = result({"A": site(hdp.LocalSite, a), "B": site(OnlyCounted, b)}, 2, quorum=1)
    second = result({"B": site(hdp.LocalSite, b)}, 3)
    assert b.spent.epsilon == Fraction("3.04")
    for one in (first, Result.from_json(first.to_json()), hdp.aggregate(first)):
        with pytest.raises(hdp.ArgumentError, match=r"'b', version 1.* were charged to one account"):
            hdp.aggregate({"x": one, "y": second})
    assert [each.dataset for sets in hdp.aggregate(first).data_sets for each in sets] == ["a", "b"]


class OnlyDescribed(hdp.LocalSite):
    """A site that sells a description and then nothing else."""

    def answer(self, query, **options):
        if not query.kind.startswith("description"):
            raise SiteError("down")
        return super().answer(query, **options)


def test_a_site_that_sold_only_a_description_belongs_to_the_result_that_rests_on_it(path):
    """Its people were charged 4: 2 for the description, and 2 for a fit of their own."""
    schema = hdp.Schema(died=hdp.Binary(complete=True), age=hdp.Continuous(0, 1, complete=True))
    people = pd.DataFrame({"died": np.arange(2000) % 5 < 2, "age": (np.arange(2000) % 97) / 97})
    a, b = (hdp.Ledger(path, dataset=name, epsilon=8) for name in "ab")

    def study(sites, **options):
        return hdp.Study(private=sites, schema=schema, public=people.head(300), **options)

    sites = {"A": hdp.LocalSite(people, schema=schema, ledger=a), "B": OnlyDescribed(people, schema=schema, ledger=b)}
    both = study(sites, quorum=1)
    cohort = hdp.describe(both, ["died", "age"], complete=True, epsilon=2)
    first = hdpf.logit("died ~ age", data=both).fit(epsilon=1, description=cohort)
    assert [name for name, _ in first.released.description.releases] == ["A", "B"]
    assert (first.guarantee.epsilon, first.guarantee.sites) == (3, 2)
    assert "each person is at one only" in first.guarantee.statement()
    model = hdpf.logit("died ~ age", data=study({"B": hdp.LocalSite(people, schema=schema, ledger=b)}))
    second = model.fit(epsilon=2)
    assert b.spent.epsilon == 4
    for one in (first, Result.from_json(first.to_json()), hdp.aggregate(first)):
        with pytest.raises(hdp.ArgumentError, match=r"'b', version 1.* were charged to one account"):
            hdp.aggregate({"x": one, "y": second})
    assert model.evaluate(first, epsilon=0.5).guarantee.epsilon == Fraction("3.5")
