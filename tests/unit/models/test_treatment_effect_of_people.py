"""Treatment effects of people with several rows: which rows count, what is released, planned and kept."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.exchange.questions import Question
from hdpstats.inference.overlap_errors import outcome_model, spread_by_arm

SCHEMA = hdp.Schema(
    a=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3),
    y=hdp.Binary(),
    k=hdp.Continuous(0, 10, complete=True),
)
MOST = 4


def visits(count, seed):
    """Return people of one to four visits, of correlated outcomes; some first visits lack the covariate."""
    rng = np.random.default_rng(seed)
    x, own = rng.normal(size=count).clip(-3, 3), rng.normal(size=count)
    a = (rng.random(count) < expit(-0.3 + 0.7 * x)).astype(int)
    person = np.repeat(np.arange(count), rng.integers(1, MOST + 1, count))
    later = np.diff(person, prepend=-1) == 0
    p = expit(-0.5 + 0.6 * x - 0.6 * a + 0.8 * own)[person]
    frame = pd.DataFrame(
        {
            "id": person,
            "a": np.where(later, rng.integers(0, 2, len(person)), a[person]),
            "x": np.where(later, rng.uniform(-3, 3, len(person)), x[person]),
            "y": (rng.random(len(person)) < p).astype(float),
            "k": np.clip(3.0 + (x + a + own)[person] + rng.normal(size=len(person)), 0, 10),
        }
    )
    frame.loc[rng.random(len(person)) < 0.05, "y"] = np.nan
    return frame


PRIVATE, PUBLIC = visits(3000, 1), visits(300, 2)


def study_of(private=PRIVATE, public=PUBLIC, **terms):
    terms = {"unit": "id", "max_rows_per_unit": MOST, "n_max": 3000, "budget": hdp.Budget(epsilon=40)} | terms
    return hdp.Study(private=private, public=public, schema=SCHEMA, **terms)


@pytest.fixture(scope="module")
def study():
    return study_of()


@pytest.fixture(scope="module")
def propensity(study):
    return hdp.propensity("a ~ x", study, epsilon=4.0)


@pytest.fixture(scope="module")
def effect(study, propensity):
    return hdp.treatment_effect("y ~ a", study, propensity.weights(), epsilon=4.0)


def by_person(frame, outcome):
    return frame.groupby("id").agg(a=("a", "first"), x=("x", "first"), y=(outcome, "mean"))


def by_hand(weighting, outcome):
    """Return the weighted means of persons' means, untreated first, from the public coefficients."""
    people = by_person(PRIVATE, outcome)
    people = people[people["y"].notna()]
    first, slope = weighting.record.coefficients
    e, treated = expit(first + slope * people["x"]), people["a"] == 1
    w = np.where(treated, 1 - e, e)
    return [np.average(people["y"][treated == arm], weights=w[treated == arm]) for arm in (False, True)]


def test_the_propensity_is_that_of_one_row_each(study, propensity):
    """The same people with one row each give the same public fit, and nearly the same private one."""
    rows = PRIVATE.groupby("id").first().reset_index(drop=True)
    one = hdp.Study(private=rows, public=PUBLIC.groupby("id").first(), schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    assert hdp.propensity("a ~ x", one).fit_public().params.tolist() == pytest.approx(
        hdp.propensity("a ~ x", study).fit_public().params.tolist(), abs=1e-9
    )
    other = hdp.propensity("a ~ x", one, epsilon=4.0)
    both = np.hypot(propensity.bse, other.bse)
    assert (np.abs(propensity.params - other.params) < 6 * both).all()
    assert propensity.fit.facts.first_row == "id"
    assert "the first complete one of each id" in str(propensity.summary())
    assert "No. private people:" in str(propensity.summary())
    assert "to the first complete row of each person (column id)" in propensity.methods_text()


def test_an_effect_is_near_that_of_the_private_people(effect, propensity):
    table = effect.tidy().set_index("effect")
    untreated, treated = by_hand(propensity.weights(), "y")
    noise = effect.cells.sd / effect.cells.totals.min()
    assert table.loc["risk, a = 0", "estimate"] == pytest.approx(untreated, abs=6 * noise)
    assert table.loc["risk difference", "estimate"] == pytest.approx(treated - untreated, abs=6 * noise)
    assert effect.query.most_rows == MOST
    assert "outcome is a person's mean over 4 rows at most" in " ".join(str(effect.summary()).split())


def test_a_number_has_the_means_of_persons(study, propensity):
    found = hdp.treatment_effect("k ~ a", study, propensity.weights(), epsilon=4.0)
    untreated, treated = by_hand(propensity.weights(), "k")
    noise = 10 * found.cells.sd / found.cells.totals.min()
    assert found.tidy()["estimate"].iloc[2] == pytest.approx(treated - untreated, abs=8 * noise)


def test_errors_are_those_of_persons_means(study, effect):
    """Outcomes of a person go together, and a mean of several varies less than one outcome."""
    rows = study_of(public=PUBLIC.drop(columns="id"))
    single = hdp.treatment_effect("y ~ a", rows, hdp.propensity("a ~ x", rows, epsilon=4.0).weights()).plan(4.0)
    people = by_person(PRIVATE, "y")
    variance = people.groupby("a")["y"].var()
    own = np.sqrt(np.sum(variance / effect.cells.totals * 0.5))  # about half of the people weigh as much
    error = effect.tidy()["std_error"].iloc[2]
    assert 0.7 * own < error < 1.4 * own
    assert error < 0.95 * single.frame["std_error"].iloc[2]


def test_the_spread_of_means_is_below_that_of_outcomes():
    rng = np.random.default_rng(4)
    X, treated = np.column_stack([np.ones(4000), rng.normal(size=4000)]), rng.integers(0, 2, 4000).astype(float)
    m = expit(-0.3 + 0.5 * X[:, 1])
    for rows in (1, 4):
        y = rng.binomial(rows, m) / rows
        assert outcome_model(X, treated, y, binary=True).spread == pytest.approx(1 / rows, rel=0.1 * (rows > 1))
    by_arm = np.where(treated == 1, 8, 1)
    found = outcome_model(X, treated, rng.binomial(by_arm, m) / by_arm, binary=True)
    assert found.spread == pytest.approx([1.0, 1 / 8], rel=0.1)


def test_the_spread_of_a_number_is_that_of_the_arm_and_of_both_where_an_arm_is_small():
    rng = np.random.default_rng(5)
    X, treated = np.column_stack([np.ones(4000), rng.normal(size=4000)]), rng.integers(0, 2, 4000).astype(float)
    y = 0.3 * X[:, 1] + np.where(treated == 1, 0.2, 0.8) * rng.normal(size=4000)
    assert outcome_model(X, treated, y, binary=False).spread == pytest.approx([0.64, 0.04], rel=0.1)
    squares, ones = np.where(np.arange(4000) < 10, 4.0, 1.0), np.ones(4000)
    for number, expected in ((9, np.mean(squares)), (10, 4.0 * 10 / 9)):
        few = (np.arange(4000) < number).astype(float)
        found = spread_by_arm(squares, ones, few, coefficients=2)
        assert found == pytest.approx([np.mean(squares[number:]), expected], rel=0.001)


def people_of_rows(untreated, treated, seed, count, *, number=False):
    """Return people whose outcomes do not go together, of so many rows in either arm."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, count)
    a = (rng.random(count) < expit(0.4 + 0.5 * x)).astype(int)
    person = np.repeat(np.arange(count), np.where(a == 1, treated, untreated))
    y = rng.random(len(person)) < 0.3 + 0.1 * a[person]
    k = np.clip(3.0 + a[person] + rng.normal(size=len(person)), 0, 10)
    return pd.DataFrame({"id": person, "a": a[person], "x": x[person], "y": y.astype(float), "k": k})


@pytest.mark.parametrize(("private", "public"), [((1, 1), (8, 8)), ((1, 8), (1, 8)), ((8, 1), (1, 1))])
def test_errors_are_those_of_as_many_rows_as_private_people_have(private, public):
    """However many rows public people have, and whether arms differ in them: the released mean squares tell."""
    own = people_of_rows(*private, 1, 3000)
    study = study_of(own, people_of_rows(*public, 2, 400), max_rows_per_unit=8, budget=hdp.Budget(epsilon=90))
    w = hdp.propensity("a ~ x", study, epsilon=30.0).weights()
    found = hdp.treatment_effect("y ~ a", study, w, epsilon=30.0)
    assert found.query.cells == 3
    expected = [0.3 * 0.7 / private[0], 0.4 * 0.6 / private[1]]
    first, slope = w.record.coefficients
    people = own.groupby("id").first()
    e, treated = expit(first + slope * people["x"]), people["a"] == 1
    size = [np.sum(each) ** 2 / np.sum(each**2) for each in (e[~treated], 1 - e[treated])]
    by_hand = np.sqrt(np.divide(expected, size))
    assert found.tidy()["std_error"].iloc[:2].to_numpy() == pytest.approx(by_hand, rel=0.12)
    assert found.tidy()["std_error"].iloc[2] == pytest.approx(np.hypot(*by_hand), rel=0.12)
    if private == public:
        planned = hdp.treatment_effect("y ~ a", study, w).plan(30.0).frame
        assert planned["std_error"].iloc[:3].to_numpy() == pytest.approx(found.tidy()["std_error"].iloc[:3], rel=0.12)


def test_the_plan_is_near_what_is_reported(study, propensity, effect):
    planned = hdp.treatment_effect("y ~ a", study, propensity.weights()).plan(4.0).frame
    assert planned["std_error"].iloc[2] == pytest.approx(effect.tidy()["std_error"].iloc[2], rel=0.15)
    split = hdp.propensity("a ~ x", study).plan_effect("y ~ a", 8.0, shares=[0.5]).frame
    assert split["std_error"].iloc[0] == pytest.approx(effect.tidy()["std_error"].iloc[2], rel=0.2)


def test_it_is_kept_stated_and_answered_again_for_nothing(study, propensity, effect):
    spent = study.ledger.spent
    again = hdp.treatment_effect("y ~ a", study, hdp.Propensity.from_json(propensity.to_json()).weights(), epsilon=4.0)
    assert study.ledger.spent == spent
    pd.testing.assert_frame_equal(again.tidy(), effect.tidy())
    kept = hdp.TreatmentEffect.from_json(effect.to_json())
    assert str(kept.summary()) == str(effect.summary())
    assert effect.guarantee.epsilon == 8
    assert effect.guarantee.most_rows == MOST
    assert "Of a person with several records" in effect.methods_text()


def test_the_number_of_people_may_be_protected():
    study = study_of(relation="add_or_remove_one", n_max=4000)
    w = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    found = hdp.treatment_effect("y ~ a", study, w, epsilon=4.0)
    untreated, treated = by_hand(w, "y")
    assert found.tidy()["estimate"].iloc[2] == pytest.approx(treated - untreated, abs=0.02)


def test_sites_that_use_other_numbers_of_rows_are_refused_before_a_charge():
    halves = {"A": PRIVATE[PRIVATE["id"] < 1500], "B": PRIVATE[PRIVATE["id"] >= 1500]}
    sites = {
        name: hdp.LocalSite(
            rows,
            schema=SCHEMA,
            ledger=hdp.Ledger(None, dataset=name, epsilon=20, unit="id"),
            unit="id",
            max_rows_per_unit=4 if name == "A" else 3,
            n_max=1500,
        )
        for name, rows in halves.items()
    }
    study = hdp.Study(private=sites, public=PUBLIC)
    w = hdp.propensity("a ~ x", study, epsilon=4.0).weights()
    with pytest.raises(hdp.ArgumentError, match="as many rows of a person"):
        hdp.treatment_effect("y ~ a", study, w, epsilon=1.0)
    assert {site.ledger.spent.epsilon for site in sites.values()} == {4}


def test_a_balance_is_of_the_first_complete_rows(study, propensity):
    found = hdp.describe(study, ["x"], weighting=propensity.weights(), epsilon=8.0).tidy().set_index("sample")
    people = by_person(PRIVATE, "y")
    x, treated = people["x"], people["a"] == 1
    unit = np.sqrt((x[treated].var() + x[~treated].var()) / 2)
    crude = (x[treated].mean() - x[~treated].mean()) / unit
    assert found.loc["unweighted", "difference"] == pytest.approx(crude, abs=5 * found.loc["unweighted", "std_error"])
    assert abs(found.loc["weighted", "difference"]) < 0.1


def test_adjusted_curves_are_of_the_first_complete_rows():
    """Later rows say nothing: with other times, events and arms the same public curves, and the same private table."""
    rng = np.random.default_rng(5)
    own = {"s": hdp.Duration(10, complete=True), "t": hdp.Duration(10, complete=True), "d": hdp.Binary(complete=True)}
    schema = hdp.Schema(**{name: SCHEMA[name] for name in SCHEMA}, **own)

    def with_times(frame, later):
        first = ~frame["id"].duplicated()
        t = np.where(first, rng.exponential(6, len(frame)).clip(0.1, 10), later)
        return frame.assign(s=0.0, t=t, d=np.where(first, rng.random(len(frame)) < 0.6, 1).astype(int))

    private, public = with_times(PRIVATE, 0.1), with_times(PUBLIC, 0.1)
    terms = {"schema": schema, "unit": "id", "max_rows_per_unit": MOST, "n_max": 3000}
    found = []
    for rows in (private, private[~private["id"].duplicated()]):
        study = hdp.Study(private=rows, public=public, budget=hdp.Budget(epsilon=60), **terms)
        w = hdp.propensity("a ~ x", study, epsilon=20.0).weights()
        found.append(hdpf.survfit("Surv(t, d) ~ a", study, times=[2, 5, 10], weighting=w).fit(epsilon=20.0))
    several, one = (each.tidy() for each in found)
    assert several["estimate"].to_numpy() == pytest.approx(one["estimate"].to_numpy(), abs=0.03)
    assert several["std_error"].to_numpy() == pytest.approx(one["std_error"].to_numpy(), rel=0.2)
    assert found[0].guarantee.most_rows == MOST
    spent = study.ledger.spent
    with pytest.raises(hdp.ArgumentError, match="whole follow-up in the first row"):
        hdpf.survfit("Surv(s, t, d) ~ a", study, weighting=w)
    assert study.ledger.spent == spent
    public_rows = [public, public[~public["id"].duplicated()].drop(columns="id")]
    curves = []
    for rows in public_rows:
        study = hdp.Study(public=rows, **terms)
        w = hdp.propensity("a ~ x", study).fit_public().weights()
        curves.append(hdpf.survfit("Surv(t, d) ~ a", study, times=[2, 5, 10], weighting=w).fit_public().tidy())
    pd.testing.assert_frame_equal(curves[0], curves[1])


def test_a_regression_of_all_rows_gives_no_weights(study):
    fit = hdpf.logit("a ~ x", study).fit_public()
    with pytest.raises(hdp.ArgumentError, match="of the treatment of each person"):
        hdp.Propensity.of(fit).weights()


def test_a_request_file_asks_for_it_as_the_call_does():
    study = study_of()
    question = Question(
        kind="treatment_effect",
        what="y ~ a",
        options={"propensity_formula": "a ~ x"},
        spending={"epsilon": 2.0, "propensity_epsilon": 2.0},
    )
    asked = question.ask(study)
    spent = study.ledger.spent
    own = hdp.treatment_effect("y ~ a", study, hdp.propensity("a ~ x", study, epsilon=2.0).weights(), epsilon=2.0)
    assert study.ledger.spent == spent
    pd.testing.assert_frame_equal(asked.tidy(), own.tidy())
    few = study_of(public=PUBLIC[PUBLIC["id"] < 30])
    with pytest.raises(hdp.ArgumentError, match="40 complete public rows or more, not"):
        question.ask(few)
    assert few.ledger.spent.epsilon == 0
