"""Whatever a record holds, a fit by clipped scores shows the same but for the noisy numbers, and keeps no record."""

import dataclasses
import functools
import gc
import weakref

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import observe
from hdpstats.papers.trials import eight_interval_trial
from tests import seeded
from tests.support import TOGETHER, replaced_together, without_numbers, without_words_on_noise

pytestmark = pytest.mark.usefixtures("no_noise")
# Releases are without noise: what is seen of them differs by the rows alone, and no comparison by chance.

RECORDS = 397
TRIAL = eight_interval_trial(RECORDS + 90, seed=3)
COLUMNS = ["x1", "x2", "time", "event"]
PUBLIC = TRIAL.frame.iloc[:90][COLUMNS]
PRIVATE = TRIAL.frame.iloc[90:][COLUMNS].reset_index(drop=True)
SCHEMA = hdp.Schema({name: TRIAL.schema[name] for name in COLUMNS})
SETTINGS = {
    "normal": {"delta": 1e-6, "mechanism": "clipped_newton"},
    "pure": {"mechanism": hdp.mechanisms.ClippedNewton(rounds=1)},
}


def fit_to(private, setting, **options):
    budget = hdp.Budget(epsilon=20, delta=1e-4)
    study = hdp.Study(private=private, public=PUBLIC, schema=SCHEMA, budget=budget, **options)
    model = hdpf.hazard("Surv(time, event) ~ x1 + x2", study, intervals=8, link="cloglog")
    return study, model.fit(5.0, **SETTINGS[setting])


def look(private, setting):
    """Fit and return all that can be seen; the coefficients that later rounds are asked at are released numbers."""
    study, result = fit_to(private, setting)
    rounds = [each.to_dict() for each in result.release.rounds]
    return {
        "asked": [dataclasses.replace(each, theta=(0.0,) * len(each.theta)).to_json() for each in result.query.rounds],
        "answered": rounds,
        "where": [(each.entry.dataset, each.entry.number) for each in result.release.rounds],
        "facts": dataclasses.asdict(result.facts),
        "estimates": [
            (part.label, part.params, part.bse, part.pvalues, part.conf_int(0.1))
            for part in (result.public_only, result.private_only, result.pooled)
        ],
        "tables": [result.tidy(), result.glance(), result.predict_survival(PUBLIC.iloc[:2])],
        # From "98% to 99%" to "99%" is a matter of noisy numbers.
        "summary": without_numbers(str(result.summary())).replace("# to # of the variance", "# of the variance"),
        "guarantee": result.guarantee.statement(),
        "ledger": without_numbers(str(study.ledger)),
        "history": study.ledger.history().drop(columns=["at", "request"]),
    }


@pytest.fixture(autouse=True)
def no_words_on_noise(monkeypatch):
    without_words_on_noise(monkeypatch)


@seeded.remembered
def ordinary(setting):
    seen = observe(functools.partial(look, PRIVATE, setting))
    assert seen.exception is None
    return seen


@pytest.mark.covering(cases=3)
@pytest.mark.parametrize("corners", TOGETHER)
def test_rows_change_nothing_that_is_seen(corners):
    neighbour = replaced_together(PRIVATE, COLUMNS, corners)
    assert observe(functools.partial(look, neighbour, "normal")) == ordinary("normal")


@pytest.mark.covering(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "frame",
    [
        PRIVATE.assign(time=0.0),
        PRIVATE.assign(event=1, time=1.0),
        PRIVATE.assign(event=0, time=99.0),
        PRIVATE.assign(x1=np.nan, x2=np.inf),
        pd.DataFrame({name: ["?"] * RECORDS for name in COLUMNS}),
    ],
    ids=["at 0", "all at once", "nobody", "no covariates", "no numbers"],
)
def test_hostile_tables_change_nothing_that_is_seen(frame, setting):
    assert observe(functools.partial(look, frame, setting)) == ordinary(setting)


def test_without_people_a_fit_is_made_all_the_same():
    _, result = fit_to(PRIVATE.iloc[:0], "normal", relation="add_or_remove_one", n_max=500)
    assert np.all(np.isfinite(result.bse))


def holds(value, seen):
    """Yield the arrays and frames that an object leads to."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Series):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from holds(getattr(value, field.name), seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from holds(item, seen)


def test_a_result_has_nothing_with_an_entry_per_private_record():
    _, result = fit_to(PRIVATE, "normal")
    found = list(holds(result, set()))
    assert found
    assert not any(RECORDS in np.shape(array) for array in found)
    assert not any(len(each.total) == RECORDS for each in result.release.rounds)


def test_a_result_does_not_keep_the_private_table_alive():
    study, result = fit_to(PRIVATE, "normal")
    table = weakref.ref(study.site)
    del study
    gc.collect()
    assert table() is None
    assert result.params.notna().all()
