"""Weighted public samples in R: the numbers of Python, the files of Python, and other packages on the rows."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import r_bridge
from r_bridge import from_r, to_r
from r_bridge.functions import answer

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(complete=True),
    time=hdp.Duration(2557, complete=True),
    event=hdp.Binary(complete=True),
)
COLUMNS = ["size", "grade3", "hormon"]


def opened() -> hdp.Study:
    return hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=SCHEMA,
        budget=hdp.Budget(epsilon=8),
    )


@pytest.fixture(scope="module", params=["hybrid", "selected", "unprojected", "importance"])
def sample(request: pytest.FixtureRequest) -> hdp.WeightedSample:
    if request.param == "importance":
        return hdp.importance_weights(opened(), "~ age + size + grade3", epsilon=1)
    options = {"selected": {"select": True}, "unprojected": {"projection": "none"}}.get(request.param, {})
    return hdp.hybrid_weights(opened(), COLUMNS, epsilon=1, **options)


def ask(code, *values):
    """Return what R code, a function, returns for Python values."""
    return r_bridge.call(code, *values)


@pytest.fixture(autouse=True)
def _attached(evaluate):
    """Attach the R package."""


def same(found, expected):
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True),
        expected.rename(columns=lambda name: name.replace("_", ".")).reset_index(drop=True),
        rtol=1e-13,  # 1 - 0.95 is not 0.05
        atol=0.0,
        check_dtype=False,
        check_index_type=False,
        check_categorical=False,
    )


@pytest.mark.covering(cases=2)
def test_a_sample_crosses_and_comes_back(sample, evaluate):
    there = to_r(sample)
    assert from_r(evaluate("class")(there)) == "dp_weighted_sample"
    back = from_r(there)
    assert isinstance(back, hdp.WeightedSample)
    assert back.to_json() == sample.to_json()
    assert bool(evaluate("identical")(there, to_r(back))[0])
    frame = from_r(evaluate("as.data.frame")(there))
    pd.testing.assert_frame_equal(frame, sample.frame, check_index_type=False, check_categorical=False)
    assert frame["size"].cat.categories.tolist() == ["<=20", "20-50", ">50"]
    facts = from_r(evaluate('function(x) unclass(x)[c("effective_size", "overlap", "max_weight", "records")]')(there))
    assert facts == {
        "effective_size": sample.effective_size,
        "overlap": sample.overlap,
        "max_weight": sample.max_weight,
        "records": sample.facts.records,
    }


@pytest.mark.covering(cases=2)
def test_r_says_the_numbers_of_python(sample):
    mean = ask("function(x) dp_sample_mean(x, ~ age + (age > 50) + size, level = 0.9)", sample)
    assert mean["term"].tolist() == ["age", "age > 50", "size<=20", "size20-50", "size>50"]
    functions = ["age", lambda d: d.age > 50] + [
        lambda d, level=level: d["size"] == level for level in SCHEMA["size"].levels
    ]
    for place, of in enumerate(functions):
        here = sample.mean(of)
        row = mean.iloc[place]
        assert row["estimate"] == here.estimate
        assert row["std.error"] == here.std_error
        assert row["sampling.error"] == here.sampling_error
        assert (row["conf.low"], row["conf.high"]) == pytest.approx(here.conf_int(0.1), rel=1e-14)
    quantiles = ask("function(x) dp_sample_quantile(x, 'age', q = c(0.1, 0.5), level = 0.95)", sample)
    expected = sample.quantile("age", [0.1, 0.5])
    np.testing.assert_array_equal(quantiles[["q", "estimate"]], expected[["q", "estimate"]])
    np.testing.assert_allclose(quantiles["std.error"], expected["std_error"], rtol=1e-12)
    same(
        ask("function(x) dp_sample_table(x, ~ size + grade3, level = 0.5)", sample),
        sample.table("size", "grade3", alpha=0.5),
    )
    same(ask("function(x) dp_sample_balance(x, level = 0.5)", sample), sample.balance(0.5))


@pytest.mark.covering(cases=2)
def test_r_fits_what_python_fits(sample):
    for model, formula, options, code in (
        (hdpf.logit, "event3 ~ grade3 + hormon", {}, "event3 ~ grade3 + hormon"),
        (hdpf.hazard, "Surv(time, event) ~ grade3", {"intervals": 6}, "Surv(time, event) ~ grade3, intervals = 6"),
        (hdpf.linear, "age ~ C(size)", {}, "age ~ factor(size), model = 'linear'"),
    ):
        here = sample.fit(model, formula, **options)
        there = ask(f"function(x) dp_sample_fit(x, {code})", sample)
        assert isinstance(there, hdp.Result)
        np.testing.assert_array_equal(there.params, here.params)
        np.testing.assert_array_equal(there.cov_params(), here.cov_params())
        assert there.guarantee == here.guarantee


@pytest.mark.covering(cases=2)
def test_what_one_language_writes_the_other_reads(sample, tmp_path):
    sample.to_json(tmp_path / "python.json")
    weights = ask("function(path) weights(dp_read_sample(path))", str(tmp_path / "python.json"))
    np.testing.assert_array_equal(weights, sample.weights)
    ask("function(x, path) { dp_write_sample(x, path); NULL }", sample, str(tmp_path / "r.json"))
    assert (tmp_path / "r.json").read_text(encoding="utf-8") == sample.to_json()
    ask("function(x, path) { saveRDS(x, path); NULL }", sample, str(tmp_path / "sample.rds"))
    assert ask("readRDS", str(tmp_path / "sample.rds")).to_json() == sample.to_json()


@pytest.mark.covering(cases=2)
def test_a_frame_that_was_changed_changes_no_number(sample):
    code = "function(x) { x$frame$weight <- 1; x$frame$age <- rev(x$frame$age); dp_sample_table(x, 'size') }"
    same(ask(code, sample), sample.table("size"))


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("dp_hybrid_weights(x, c('size', 'grade3', 'hormon'), 1, distance_share = 0.1)",
         lambda study: hdp.hybrid_weights(study, COLUMNS, epsilon=1, distance_share=0.1)),
        ("dp_hybrid_weights(x, 'grade3', 0.5, projection = 'clip', replicate = 2)",
         lambda study: hdp.hybrid_weights(study, ["grade3"], epsilon=0.5, projection="clip", replicate=2)),
        ("dp_hybrid_weights(x, ~ size + grade3 + event3, 1, select = 'loss', model = event3 ~ grade3, share = 0.2)",
         lambda study: hdp.hybrid_weights(study, ["size", "grade3", "event3"], epsilon=1, select="loss",
                                          model="event3 ~ grade3", share=0.2)),
        ("dp_importance_weights(x, ~ size + age, 1, ridge = 0.05, mechanism = 'output')",
         lambda study: hdp.importance_weights(study, "~ size + age", epsilon=1, ridge=0.05, mechanism="output")),
        ("dp_importance_weights(x, ~ size + age, 1, delta = 1e-6)",
         lambda study: hdp.importance_weights(study, "~ size + age", epsilon=1, delta=1e-6)),
    ],
)  # fmt: skip
def test_a_request_in_r_is_that_of_python_which_is_then_free(code, asked):
    study = opened() if "delta" not in code else hdp.Study(
        private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=SCHEMA,
        budget=hdp.Budget(epsilon=8, delta=1e-5),
    )  # fmt: skip
    there = ask(f"function(x) {code}", study)
    spent = study.ledger.spent
    here = asked(study)
    assert [each.sha256 for each in here.releases] == [each.sha256 for each in there.releases]
    np.testing.assert_array_equal(here.weights, there.weights)
    assert study.ledger.spent == spent


@pytest.mark.wide
def test_other_packages_take_the_rows():
    sample = hdp.hybrid_weights(opened(), COLUMNS, epsilon=4)
    frame = sample.frame[sample.frame["weight"] > 0]
    cox = ask(
        "function(x) { d <- subset(as.data.frame(x), weight > 0)\n"
        "coef(survival::coxph(survival::Surv(time, event) ~ grade3 + hormon, data = d, weights = weight,"
        " ties = 'breslow')) }",
        sample,
    )
    hazard = sample.fit(hdpf.hazard, "Surv(time, event) ~ grade3 + hormon", intervals=24, link="cloglog")
    assert cox.to_numpy() == pytest.approx(hazard.params[["grade3", "hormon"]].to_numpy(), abs=0.15)
    found = ask(
        "function(x) { d <- subset(as.data.frame(x), weight > 0)\n"
        "design <- survey::svydesign(ids = ~1, weights = ~weight, data = d)\n"
        "coef(survey::svyglm(age ~ grade3 + size, design)) }",
        sample,
    )
    expected = smf.wls("age ~ grade3 + C(size)", frame, weights=frame["weight"]).fit().params
    assert found.to_numpy() == pytest.approx(
        expected[["Intercept", "grade3", "C(size)[T.20-50]", "C(size)[T.>50]"]].to_numpy()
    )


def test_a_histogram_is_a_mechanism_in_r(evaluate):
    study = opened()
    there = ask(
        "function(x) dp_logit(event3 ~ grade3 + age, x, 2, mechanism = list(name = 'histogram', bins = 6))", study
    )
    here = hdpf.logit("event3 ~ grade3 + age", data=study).fit(
        epsilon=2, mechanism=hdp.mechanisms.PerturbedHistogram(bins=6)
    )
    assert there.release.sha256 == here.release.sha256
    assert "histogram" in there.facts.method


@pytest.mark.filterwarnings("ignore:public rows alone")
def test_errors_have_their_classes(evaluate):
    study = opened()
    for code, kind in (
        ("dp_hybrid_weights(x, 'sizes', 1)", hdp.SchemaError),
        ("dp_hybrid_weights(x, 'size', 9)", hdp.InsufficientBudget),
        ("dp_hybrid_weights(x, 'size', 1, projection = 'none at all')", hdp.ArgumentError),
        ("dp_importance_weights(x, ~ no(age), 1)", hdp.FormulaError),
        ("dp_logit(event3 ~ age + size + grade3 + hormon + time, x, 0.1, mechanism = 'histogram')", hdp.MechanismError),
    ):
        with pytest.raises(kind):
            ask(f"function(x) {code}", study)
    assert study.ledger.spent.epsilon == 0


def test_values_that_came_for_names_are_not_quoted(evaluate):
    evaluate("reply <- NULL")
    arguments = to_r({"study": opened(), "columns": ["secret"] * 50, "epsilon": 1.0})
    reply = from_r(answer(to_r("hybrid_weights"), arguments))
    assert reply["status"] == "error"
    assert "secret" not in str(reply)
    reply = from_r(answer(to_r("sample_table"), to_r({"sample": hdp.hybrid_weights(opened(), ["size"], epsilon=1),
                                                     "columns": pd.Series([17.25] * 3)})))  # fmt: skip
    assert "17.25" not in str(reply)


@pytest.mark.covering(cases=2)
def test_a_plot_of_each_kind_is_drawn(sample, tmp_path):
    for which in ("weights", "balance"):
        path = tmp_path / f"{which}.png"
        code = "function(x, which, path) { png(path, 700, 400); plot(x, which); dev.off(); NULL }"
        ask(code, sample, which, str(path))
        assert path.stat().st_size > 3000
