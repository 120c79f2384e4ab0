"""The share of epsilon that buys standard errors: chosen from public facts; what would report NaN is not charged."""

import re

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference.information import chance_of_clear
from tests.support import study_of

pytestmark = pytest.mark.usefixtures("few_draws")

NAMES = tuple(f"x{i}" for i in range(8))
SCHEMA = hdp.Schema(
    **{name: hdp.Continuous(-1, 1, complete=True) for name in NAMES},
    y=hdp.Binary(complete=True),
    z=hdp.Continuous(-4, 4, complete=True),
    k=hdp.Continuous(0, 8, complete=True),
    g=hdp.Categorical(["a", "b", "c"], complete=True),
    time=hdp.Duration(5, complete=True),
)
FOUR = "y ~ x0 + x1 + x2"
EIGHT = "y ~ " + " + ".join(NAMES)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(0.0, 0.5, (n, len(NAMES))).clip(-1, 1), columns=list(NAMES))
    eta = frame["x0"] - 0.7 * frame["x1"]
    return frame.assign(
        y=(rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        z=(eta + rng.normal(size=n)).clip(-4, 4),
        k=rng.poisson(np.exp(0.5 * eta)).clip(0, 8).astype(float),
        g=rng.choice(["a", "b", "c"], n),
        time=np.minimum(rng.exponential(5.0 * np.exp(-eta)), 5.0),
    )


def study(n: int, public: int = 0, *, seed: int = 0) -> hdp.Study:
    return study_of(rows(n, seed), rows(public, seed + 1) if public else None, schema=SCHEMA)


DESIGNS = {
    "no public rows": (4000, 0, {}),
    "too few public rows": (4000, 39, {}),
    "a share that is hidden": (600, 0, {"se_share": 0.05}),
}


def hidden_number(people: int, most: int) -> hdp.Study:
    ledger = hdp.Ledger(None, dataset="hidden", epsilon=10, relation="add_or_remove_one")
    site = hdp.LocalSite(rows(people), schema=SCHEMA, ledger=ledger, n_max=most)
    return hdp.Study(private=site)


@pytest.mark.wide
def test_a_fit_of_fewer_people_than_declared_is_charged_for_their_number_alone() -> None:
    """The noise in the number, for .04, is below 740 but with a chance of 1e-12."""
    assert not hdpf.logit(EIGHT, hidden_number(10, most=800)).plan(2).frame["reported"].any()
    data = hidden_number(60, most=10**5)
    for _ in range(2):  # the number is charged once
        with pytest.raises(hdp.ArgumentError, match=r"Their number stays charged \(epsilon = 0\.04\).*se_share=0"):
            hdpf.logit(EIGHT, data).fit(epsilon=2)
        assert data.ledger.spent.epsilon == pytest.approx(0.04)
    result = hdpf.logit(EIGHT, data).fit(epsilon=2, se_share=0)
    assert np.isnan(result.bse).all()
    assert data.ledger.spent.epsilon == 2


def test_the_share_follows_the_number_that_was_counted() -> None:
    """It lies between those that plans for 15,000 and for 20,000 people have: the noise in the number is below 1000."""
    numbers = (15_000, 20_000, 50_000)
    planned = [hdpf.logit(FOUR, hidden_number(10, n)).plan(4).frame["se_share"].iloc[0] for n in numbers]
    result = hdpf.logit(FOUR, hidden_number(17_500, most=50_000)).fit(epsilon=4)
    assert planned[0] >= float(result.query.hessian_share) >= planned[1] > planned[2]


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("design", DESIGNS)
def test_none_of_eight_fits_is_charged_for_nan(design: str) -> None:
    n, public, options = DESIGNS[design]
    for seed in range(8):
        data = study(n, public, seed=seed)
        model = hdpf.logit(FOUR, data)
        if "hidden" in design:
            with pytest.raises(hdp.ArgumentError, match=r"nothing was charged.*se_share=0 asks for coefficients alone"):
                model.fit(epsilon=1, **options)
            assert data.ledger.spent.epsilon == 0
        else:
            result = model.fit(epsilon=1, **options)
            assert np.isfinite(result.bse).all()
            assert data.ledger.spent.epsilon == 1


@pytest.mark.covering(cases=1)
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_none_of_the_fits_with_a_description_is_charged_for_nan(spread: float) -> None:
    """A column in which people spread little, for what is declared, hides the Hessian: the description tells it."""
    refused = 0
    for seed in range(1):
        data = study_of(rows(4000, seed).assign(x0=lambda frame: spread * frame["x0"]), schema=SCHEMA)
        cohort = hdp.describe(data, ["x0", "x1", "x2", "y"], complete=True, quantiles=False, epsilon=0.5)
        model = hdpf.logit(FOUR, data)
        plan = model.plan(1, description=cohort)
        if not plan.frame["reported"].any():
            refused += 1
            with pytest.raises(hdp.ArgumentError, match="nothing was charged"):
                model.fit(epsilon=1, description=cohort)
            assert data.ledger.spent.epsilon == 0.5
        else:
            result = model.fit(epsilon=1, description=cohort)
            assert np.isfinite(result.bse).all()
            assert set(plan.frame["se_share"]) == {float(result.query.hessian_share)}
            assert result.bse["x0"] == pytest.approx(plan.frame.set_index("term")["std_error"]["x0"], rel=0.5)
    assert refused == (1 if spread < 1 else 0)


@pytest.mark.wide
def test_a_share_is_chosen_for_skewed_columns_where_that_is_cheap() -> None:
    for seed in range(5):
        data = study_of(rows(4000, seed).assign(x0=lambda frame: 0.2 * frame["x0"]), schema=SCHEMA)
        assert np.isfinite(hdpf.logit("y ~ x0", data).fit(epsilon=3).bse).all()


@pytest.mark.wide
def test_plans_say_what_a_description_would_tell() -> None:
    data = study(4000)
    cohort = hdp.describe(data, ["x0", "x1", "x2", "y", "g"], complete=True, quantiles=False, epsilon=2)
    model = hdpf.logit(FOUR, data)
    assert "fit(description=hdp.describe(...)) knows before the charge" in str(model.plan(1))
    assert "evenly" in str(model.plan(1))
    described = str(model.plan(1, description=cohort))
    assert "knows before" not in described
    assert "evenly" not in described
    assert "as described" in described
    some = hdp.describe(data, ["x1", "x2", "y"], complete=True, quantiles=False, epsilon=2)
    assert "evenly" in str(model.plan(1, description=some))
    levels = hdpf.multinomial("g ~ x0", data)
    assert "knows before" in str(levels.plan(5))
    assert "as described" in str(levels.plan(5, description=cohort))
    assert "knows before" not in str(hdpf.logit(FOUR, study(4000, 60)).plan(1))


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(("terms", "public"), [(8, 100), (3, 40)])
def test_few_public_rows_are_enough(terms: int, public: int, delta: float) -> None:
    model = hdpf.logit(f"y ~ {' + '.join(NAMES[:terms])}", study(3000, public))
    result = model.fit(epsilon=1, delta=delta)
    assert np.isfinite(result.bse).all()
    assert result.query.hessian_share == 0
    assert result.release == model.fit(epsilon=1, delta=delta, se_share=0).release


MODELS = {
    "logit": lambda data: hdpf.logit(FOUR, data),
    "linear": lambda data: hdpf.linear("z ~ x0 + x1", data),
    "poisson": lambda data: hdpf.poisson("k ~ x0", data),
    "multinomial": lambda data: hdpf.multinomial("g ~ x0", data),
}


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("name", MODELS)
def test_plan_and_fit_agree_on_the_share(name: str) -> None:
    model = MODELS[name](study(8000))
    frame, result = model.plan(2).frame, model.fit(epsilon=2)
    assert set(frame["se_share"]) == {float(result.query.hessian_share)}
    assert 0.05 <= frame["se_share"].iloc[0] <= 0.7
    assert frame["reported"].all()
    assert np.isfinite(result.bse).all()
    share = f"se_share = {float(result.query.hessian_share):g}"
    assert share in " ".join(str(result.summary()).split())
    assert model.fit(epsilon=2, se_share=float(result.query.hessian_share)).release == result.release


def test_the_share_falls_as_epsilon_and_the_number_of_records_grow() -> None:
    def share(n: int, epsilon: float) -> float:
        return float(hdpf.logit(FOUR, hdp.Study(schema=SCHEMA)).plan(epsilon, n=n).frame["se_share"].iloc[0])

    assert share(1500, 1.5) > share(4000, 1) > share(4000, 2)
    assert share(4000, 10) > share(4000, 40)  # from about 4 on skewed columns too are thought of
    assert share(4000, 1) > share(40_000, 1)


def test_the_share_is_not_chosen_by_private_rows() -> None:
    shares = set()
    for seed, spread in [(0, 1.0), (1, 0.01)]:
        frame = rows(4000, seed)
        frame[list(NAMES)] *= spread
        model = hdpf.logit(FOUR, study_of(frame, schema=SCHEMA))
        shares.add(model.fit(epsilon=1).query.hessian_share)
    assert len(shares) == 1


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (lambda data: hdpf.logit(FOUR, data), {}, "noisy Hessian of 4 coefficients.* at epsilon=1 at any share"),
        (lambda data: hdpf.logit(FOUR, data), {"se_share": 0.1}, "with se_share=0.1.*times the epsilon"),
        (lambda data: hdpf.logit(FOUR, data), {"mechanism": "output"}, "noisy Hessian"),
        (lambda data: hdpf.logit(FOUR, data), {"delta": 1e-6}, "noisy Hessian"),
        (lambda data: hdpf.quantile("z ~ x0", data), {}, "no model that gives its curvature"),
        (lambda data: hdpf.linear("z ~ x0", data, loss=hdp.losses.Huber(1.0)), {}, "public rows with the outcome"),
        (lambda data: hdpf.hazard("Surv(time, y) ~ x0", data, intervals=5, df=2), {}, "noisy Hessian"),
        (lambda data: hdpf.multinomial("g ~ x0 + x1", data), {}, "noisy Hessian of 6 coefficients"),
    ],
)
def test_what_would_report_none_is_refused_uncharged(model, options: dict[str, object], words: str) -> None:
    data = study(400)
    made = model(data)
    with pytest.raises(hdp.ArgumentError, match=words) as refusal:
        made.fit(epsilon=1, **options)
    assert refusal.value.argument == "se_share"
    assert data.ledger.spent.epsilon == 0
    assert len(data.ledger.history()) == 0
    alone = made.fit(epsilon=1, **options | {"se_share": 0})
    assert np.isfinite(alone.params).all()
    assert alone.bse.isna().all()


def test_a_plan_says_what_a_fit_would_be_refused_for() -> None:
    model = hdpf.logit(FOUR, study(400))
    plan = model.plan([1, 45])
    assert plan.frame.groupby("epsilon")["reported"].all().tolist() == [False, True]
    assert "a fit would be refused, as its standard errors would be NaN" in str(plan)
    assert "a fit would report no standard errors: se_share=0" in str(model.plan(1, se_share=0))
    with pytest.raises(hdp.ArgumentError) as refusal:
        model.fit(epsilon=1)
    (times,) = re.findall(r"about ([\d.]+) times the epsilon", str(refusal.value))
    assert model.plan(float(times)).frame["reported"].all()


def test_a_refused_share_names_one_that_is_enough() -> None:
    model = hdpf.logit(FOUR, study(4000))
    with pytest.raises(hdp.ArgumentError, match=r"with se_share=0.01\. Use se_share=(0\.\d+) or 'auto'") as refusal:
        model.fit(epsilon=1, se_share=0.01)
    (share,) = re.findall(r"Use se_share=(0\.\d+)", str(refusal.value))
    assert model.fit(epsilon=1).query.hessian_share == pytest.approx(float(share))


def test_sites_are_judged_together() -> None:
    def several(n: int, count: int) -> hdp.Study:
        return study_of({f"s{k}": rows(n, k) for k in range(count)}, schema=SCHEMA)

    few = several(400, 2)
    with pytest.raises(hdp.ArgumentError, match="noisy Hessian"):
        hdpf.logit(FOUR, few).fit(epsilon=1)
    assert all(ledger.spent.epsilon == 0 for ledger in few.ledgers.values())
    result = hdpf.logit("y ~ x0", several(1500, 2)).fit(epsilon=1)
    assert np.isfinite(result.bse).all()


@pytest.mark.wide
def test_a_hazard_model_without_public_follow_up_buys_its_standard_errors() -> None:
    model = hdpf.hazard("Surv(time, y) ~ x0", study(3000), intervals=4, df=2)
    result = model.fit(epsilon=9)
    assert result.query.hessian_share > 0
    assert np.isfinite(result.bse).all()


def test_a_mean_that_is_cut_everywhere_is_refused() -> None:
    schema = hdp.Schema(x=hdp.Continuous(-1, 1, complete=True), k=hdp.Continuous(0, 0.5, complete=True))
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 500), "k": 0.0})
    data = study_of(frame, schema=schema)
    with pytest.raises(hdp.ArgumentError, match="noisy Hessian"):
        hdpf.poisson("k ~ x", data).fit(epsilon=1)
    assert data.ledger.spent.epsilon == 0


def test_a_share_is_given_once() -> None:
    model = hdpf.logit(FOUR, study(400))
    given = hdp.mechanisms.ObjectivePerturbation(se_share=0.3)
    with pytest.raises(hdp.ArgumentError, match="se_share must be given once"):
        model.fit(epsilon=1, mechanism=given, se_share=0)
    for share in ("most", -0.1, 0.95, True, None):
        with pytest.raises(hdp.ArgumentError, match="se_share"):
            model.fit(epsilon=1, se_share=share)
    assert hdp.mechanisms.ObjectivePerturbation().share is None


def test_the_chance_that_a_hessian_stands_clear_grows_with_it() -> None:
    H = np.diag([9.0, 5.0, 40.0])
    chances = [chance_of_clear(k * H, noise_sd=1.0, spreads=(1.0,)) for k in (0.5, 0.8, 1.0, 1.3, 4.0)]
    assert chances == sorted(chances)
    assert (chances[0], chances[-1]) == (0.0, 1.0)
    assert 0.0 < chances[2] < 1.0
    assert chance_of_clear(H, noise_sd=0.01, spreads=(1.0, 1e-9)) == 0.5
