"""Tests, contrasts and average effects in R: Python's numbers, R's names."""

import docx
import numpy as np
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
import r_bridge


@pytest.fixture(scope="module")
def study() -> hdp.Study:
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90, complete=True),
        size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
        hormon=hdp.Binary(complete=True),
        event3=hdp.Binary(),
    )
    return hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=schema,
        budget=hdp.Budget(epsilon=8),
    )


@pytest.fixture(scope="module")
def fit(study) -> hdp.Result:
    return hdpf.logit("event3 ~ size*hormon + age", data=study).fit(epsilon=1)


@pytest.fixture(scope="module")
def certain(study) -> hdp.Result:
    """A fit whose effect of size is far from zero whatever noise is drawn."""
    return hdpf.logit("event3 ~ size + age", data=study).fit(epsilon=5)


@pytest.fixture(autouse=True)
def _attached(evaluate):
    """Attach the R package."""


def same(found, expected) -> None:
    np.testing.assert_allclose(found.to_numpy(dtype=float), expected, rtol=1e-12)


def test_r_tests_in_its_own_names_and_order(fit) -> None:
    terms = fit.wald_test_terms()
    found = r_bridge.call("dp_wald_test", fit)
    assert list(found["term"]) == ["(Intercept)", *list(terms.tests)[1:]]
    same(found[["statistic", "p.value", "df"]], terms.table)
    python = fit.t_test("size[T.>50] - size[T.20-50] = 0.1, hormon", estimate="private_only")
    code = "function(x) dp_contrast(x, c('size>50 - size20-50 = 0.1', 'hormon'), estimate = 'private_only')"
    found = r_bridge.call(code, fit)
    same(found[["estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"]], python.summary_frame())
    one = "function(x) dp_contrast(x, as.numeric(names(coef(x)) == 'age'))"
    assert r_bridge.call(one, fit)["estimate"].tolist() == [fit.params["age"]]
    joint = (
        "function(x) dp_wald_test(x, diag(length(coef(x)))[names(coef(x)) %in% c('size20-50', 'size>50'), ], rhs = 0.1)"
    )
    python = fit.wald_test("size[T.20-50] = 0.1, size[T.>50] = 0.1")
    same(r_bridge.call(joint, fit), [[python.statistic, python.pvalue, 2]])
    pairs = fit.t_test_pairwise("size", method="holm")
    found = r_bridge.call("function(x) dp_contrast(x, term = 'size', adjust = 'holm')", fit)
    assert list(found["contrast"]) == list(pairs.contrasts.names)
    same(found[["adj.p.value"]], pairs.adjusted[:, None])


def test_r_averages_over_rows(fit) -> None:
    rows = hdp.datasets.load_gbsg()
    columns = ["estimate", "std.error", "p.value", "conf.low", "conf.high", "frame.error"]
    numbers = [name.replace(".", "_") for name in columns]
    found = r_bridge.call("function(x, rows) dp_average_effects(x, 'size', over = rows)", fit, rows)
    same(found[columns], fit.average_effects("size", over=rows).frame[numbers])
    code = "function(x, rows) dp_average_effects(x, 'age', over = rows, values = c(40, 60), conf.level = 0.9)"
    expected = fit.average_effects("age", over=rows, values=(40, 60), alpha=0.1).frame
    found = r_bridge.call(code, fit, rows)
    same(found[columns], expected[numbers])
    assert list(found["effect"]) == list(expected["effect"])
    assert r_bridge.call("dp_methods_text", fit) == fit.methods_text()


def test_r_writes_the_summary_of_a_result_to_word(fit, tmp_path) -> None:
    r_bridge.call("function(x, path) dp_write_docx(x, path)", fit, str(tmp_path / "table2.docx"))
    words = [cell.text for part in docx.Document(str(tmp_path / "table2.docx")).tables for cell in part._cells]
    assert {"size>50", "event3", "1-differential privacy (pure)"} <= set(words)


def test_what_r_cannot_mean_is_refused(fit) -> None:
    for code, message in (
        ("function(x) dp_contrast(x)", "one of the two"),
        ("function(x) dp_wald_test(x, list(1))", "hypothesis must be text"),
        ("function(x) dp_wald_test(x, diag(2))", "a column for each of the 7 coefficients"),
        ("function(x) dp_contrast(x, 'sise>50')", "there is no coefficient 'sise>50'; did you mean size>50"),
        ("function(x) dp_restricted_mean(x, 5)", "x must be a dp_curves, not a dp_result"),
        ("function(x) dp_contrast(x, 'size = 0')", "^hypothesis: .*'size'; did you mean size20-50 or size>50"),
        ("function(x) dp_contrast(x, term = 'age')", "^term must be one of 'size', 'hormon', not 'age'"),
        ("function(x) plot(x, labels = c('size50' = 'a'))", "labels: there is no coefficient 'size50'; did you mean"),
        ("function(x) dp_average_effects(x, 'size')", "over must be given"),
    ):
        with pytest.raises(Exception, match=message):
            r_bridge.call(code, fit)


def test_anova_has_the_drawn_errors(fit) -> None:
    found = r_bridge.call("function(x) as.data.frame(unclass(anova(x)))", fit)
    same(found, fit.wald_test_terms().table[["df_constraint", "statistic", "pvalue"]])


def test_the_least_p_value_is_shown_as_what_it_is(certain) -> None:
    for table in ("summary(x)", "anova(x)"):
        shown = "\n".join(r_bridge.call(f"function(x) capture.output(print({table}))", certain))
        assert "< 0.00025" in shown or "<3e-04" in shown  # as many digits as the column has
        assert "2e-04" not in shown


def test_r_averages_over_described_people_and_a_weighted_sample(study, fit) -> None:
    cohort = hdp.describe(study, ["age", "size", "hormon", "event3"], complete=True, epsilon=1)
    sample = hdp.hybrid_weights(study, ["size", "hormon"], epsilon=1)
    code = """function(x, study, over) {
      assign("the_study", study, globalenv()) # which the call of a fit in R names
      on.exit(rm("the_study", envir = globalenv()))
      x$call <- quote(dp_logit(data = the_study))
      dp_average_effects(x, "hormon", over = over)
    }"""
    attributes = f"function(...) attributes(({code})(...))[c('guarantee', 'statement', 'epsilon', 'delta')]"
    for over in (cohort, sample):
        found = fit.average_effects("hormon", over=over)
        ours, expected = found.guarantee, found.frame
        same(r_bridge.call(code, fit, study, over)[["estimate", "std.error"]], expected[["estimate", "std_error"]])
        said = r_bridge.call(attributes, fit, study, over)
        assert list(said.values()) == [str(ours), ours.statement(), float(ours.epsilon), float(ours.delta)]
        assert ours.epsilon == 2
