"""Every result has tables in broom's words: `tidy` has rows of numbers, `glance` one row."""

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

LIMITS = ["conf_low", "conf_high"]


@pytest.fixture(scope="module")
def fits():
    """Results of each kind, of the public rows and of a private study."""
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90),
        size=hdp.Categorical(["<=20", "20-50", ">50"]),
        hormon=hdp.Binary(),
        event3=hdp.Binary(),
        time=hdp.Duration(2557, unit="days"),
        event=hdp.Binary(),
    )
    study_rows = hdp.datasets.load_gbsg()
    study = hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=study_rows,
        schema=schema,
        budget=hdp.Budget(epsilon=20),
    )
    model = hdpf.logit("event3 ~ age + size", data=study)

    def apart(half):
        people = hdp.datasets.load_rotterdam().iloc[half::2]
        alone = hdp.Study(private=people, public=study_rows, schema=schema, budget=hdp.Budget(epsilon=2))
        return hdpf.logit("event3 ~ age", data=alone).fit(epsilon=2)

    fit, public = model.fit(epsilon=1), model.fit_public()
    curves = hdpf.survfit("Surv(time, event) ~ hormon", data=study).fit(epsilon=2)
    return {
        "fit": fit,
        "contrasts": fit.t_test("size[T.>50] = 0.5, age = 0"),
        "wald": fit.wald_test("size[T.>50] = 0, size[T.20-50] = 0"),
        "terms": fit.wald_test_terms(),
        "pairs": fit.t_test_pairwise("size"),
        "effects": fit.average_effects("size"),
        "slopes": fit.get_margeff(),
        "comparison": fit.compare(public),
        "disagreement": fit.disagreement,
        "evaluation": model.evaluate(fit, epsilon=1),
        "curves": curves,
        "log-rank": curves.logrank_test(),
        "aggregate": hdp.aggregate({"A": apart(0), "B": apart(1)}),
        "description": hdp.describe(study, ["age", "size"], by="hormon", epsilon=1),
        "sample": hdp.hybrid_weights(study, ["age", "size"], epsilon=1),
    }


COLUMNS = {
    "fit": ["term", "estimate", "std_error", "statistic", "p_value", *LIMITS],
    "contrasts": ["contrast", "null_value", "estimate", "std_error", "statistic", "p_value", *LIMITS],
    "wald": ["statistic", "df", "p_value"],
    "terms": ["term", "statistic", "df", "p_value"],
    "pairs": ["contrast", "null_value", "estimate", "std_error", "statistic", "p_value", *LIMITS, "adj_p_value"],
    "effects": ["effect", "contrast", "estimate", "std_error", "p_value", *LIMITS, "frame_error"],
    "slopes": ["term", "estimate", "std_error", "statistic", "p_value", *LIMITS],
    "disagreement": ["term", "public", "private", "statistic", "df", "p_value"],
    "evaluation": ["measure", "estimate", "std_error", *LIMITS],
    "curves": ["group", "time", "estimate", "std_error", *LIMITS, "at_risk", "events"],
    "log-rank": ["method", "statistic", "df", "p_value"],
    "sample": ["feature", "public", "private", "difference", "std_error", *LIMITS],
}
GLANCES = {
    "wald": ["statistic", "df", "p_value"],
    "effects": ["variable", "population", "epsilon", "delta", "effects"],
    "slopes": ["population", "epsilon", "delta", "terms"],
    "comparison": ["reference", "terms", "relative_error"],
    "disagreement": ["statistic", "df", "p_value"],
    "evaluation": ["model", "outcome", "concordance", "concordance_error", "groups", "epsilon", "delta"],
    "curves": ["groups", "intervals", "people", "events", "epsilon", "delta"],
    "log-rank": ["method", "statistic", "df", "p_value"],
    "aggregate": ["model", "results", "groups", "levels", "terms"],
    "description": ["people", "columns", "groups", "epsilon", "delta"],
    "sample": ["rows", "effective_size", "overlap", "max_weight", "epsilon", "delta"],
}


def test_columns(fits):
    assert {name: list(fits[name].tidy()) for name in COLUMNS} == COLUMNS
    assert all(isinstance(made.tidy(), pd.DataFrame) and len(made.tidy()) for made in fits.values())


def test_one_row_each(fits):
    found = {name: fits[name].glance() for name in GLANCES}
    assert {name: list(row) for name, row in found.items()} == GLANCES
    assert all(len(row) == 1 for row in found.values())


def test_every_kind_has_a_page(fits):
    for made in fits.values():
        assert made._repr_html_().startswith('<div class="hdp-page">')


@pytest.mark.parametrize(
    "kind", ["fit", "contrasts", "pairs", "effects", "slopes", "evaluation", "curves", "aggregate"]
)
def test_a_higher_level_has_wider_limits(fits, kind):
    narrow, wide = (fits[kind].tidy(conf_level=level)[LIMITS].to_numpy() for level in (0.8, 0.99))
    known = np.isfinite(narrow).all(axis=1) & np.isfinite(wide).all(axis=1)
    assert known.any()
    assert (wide[known, 0] <= narrow[known, 0]).all()
    assert (wide[known, 1] >= narrow[known, 1]).all()
    assert (wide[known] != narrow[known]).any()


def test_numbers_are_those_of_the_objects(fits):
    contrasts, frame = fits["contrasts"], fits["contrasts"].tidy()
    assert frame["null_value"].tolist() == [0.5, 0.0]
    assert frame["statistic"].tolist() == contrasts.statistic.tolist()
    assert frame[LIMITS].to_numpy().tolist() == contrasts.conf_int().tolist()
    assert fits["pairs"].tidy()["adj_p_value"].tolist() == fits["pairs"].adjusted.tolist()
    assert fits["wald"].tidy().iloc[0].tolist() == [fits["wald"].statistic, 2, fits["wald"].pvalue]
    evaluation = fits["evaluation"]
    assert evaluation.tidy().loc[0, ["measure", "estimate"]].tolist() == ["concordance", evaluation.concordance]
    assert fits["curves"].glance().loc[0, "epsilon"] == 2.0
    assert fits["aggregate"].glance().loc[0, "results"] == 2


def test_the_page_of_pairs_shows_adjusted_p_values(fits):
    assert "adj. P&gt;|z|" in fits["pairs"]._repr_html_()
    assert "adjusted for 3 pairs (hs)" in " ".join(str(fits["pairs"]).split())


def test_one_joint_test_has_a_page_and_stays_one_line_as_text(fits):
    assert str(fits["wald"]).startswith("<Wald test: statistic=")
    assert "2 degrees of freedom" in fits["wald"]._repr_html_()
    assert "degrees of freedom" in fits["wald"].summary().as_text()
