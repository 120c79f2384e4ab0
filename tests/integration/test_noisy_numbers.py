"""How summaries show a number of private people: with its noise wherever it has some."""

import re

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results import Result
from hdpstats.results.weighted_sample import WeightedSample

SAMPLES = {
    "importance": lambda study: hdp.importance_weights(study, "~ x + b", epsilon=1),
    "hybrid": lambda study: hdp.hybrid_weights(study, ["x", "b"], epsilon=1),
}
COMPLETE_ROWS = re.compile(r"\d+ \+/- \d+\.\d\d \(noisy; complete rows\)")


def study_of(*, complete, relation="replace_one"):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(0, 1, 700).clip(-5, 5), "b": rng.integers(0, 2, 700).astype(float)})
    private = frame[:400].copy()
    if not complete:
        private.loc[::4, "x"] = np.nan
    return hdp.Study(
        private=private,
        public=frame[400:].reset_index(drop=True),
        schema=hdp.Schema(x=hdp.Continuous(-5, 5, complete=complete), b=hdp.Binary(complete=complete)),
        budget=hdp.Budget(epsilon=10),
        relation=relation,
        **({} if relation == "replace_one" else {"n_max": 1000}),
    )


def fit_of(study):
    return hdpf.logit("b ~ x", data=study).fit(1.0, mechanism=hdp.mechanisms.PerturbedHistogram(bins=4))


@pytest.mark.parametrize("make", [*SAMPLES.values(), fit_of], ids=[*SAMPLES, "histogram"])
def test_a_noisy_number_is_shown_with_its_noise_and_a_public_one_without(make):
    noisy, public = make(study_of(complete=False)), make(study_of(complete=True))
    assert noisy.facts.records_sd > 0
    assert noisy.facts.complete_rows
    for shown in (str(noisy.summary()), noisy._repr_html_()):
        assert COMPLETE_ROWS.search(shown)
        assert f"{noisy.facts.records} +/- " in shown
    assert public.facts.records_sd is public.facts.complete_rows is None
    assert "+/-" not in str(public.summary())
    assert "records_sd" not in public.to_json()
    back = type(noisy).from_json(noisy.to_json())
    assert isinstance(back, Result | WeightedSample)
    assert back.facts == noisy.facts


@pytest.mark.parametrize("make", [SAMPLES["hybrid"], fit_of], ids=["hybrid", "histogram"])
def test_a_protected_number_is_shown_with_its_noise_where_all_rows_are_complete(make):
    found = make(study_of(complete=True, relation="add_or_remove_one"))
    assert f"{found.facts.records} +/- {found.facts.records_sd:.2f} (noisy)" in str(found.summary())


def test_a_fit_to_a_weighted_sample_shows_the_sample_s_number_with_its_noise():
    sample = SAMPLES["importance"](study_of(complete=False))
    shown = str(sample.fit(hdpf.logit, "b ~ x").summary())
    assert f"{sample.facts.records} +/- {sample.facts.records_sd:.2f} (noisy; complete rows)" in shown
