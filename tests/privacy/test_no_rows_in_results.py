"""A result is made of released and public numbers: no private value, and nothing as long as the private rows."""

import gc
import io
import json
import types
import weakref

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.results.tables import REFUSED
from hdpstats.schema.table import AdmittedTable, PrivateTable
from hdpstats.sites import LocalSite, Study
from hdpstats.solvers import Rows
from tests.support import FORMULA, PUBLIC_ROWS, RECORDS, SCHEMA, people

CANARIES = ["canary-7f3a91", "1.2345678987", "17.17171717", "canary@example.org"]
"""Values that occur in private rows and nowhere else; two are numbers in their declared bounds."""


def marked():
    frame = people(RECORDS)
    frame.loc[5, "g"] = CANARIES[0]
    frame.loc[6, "x"] = float(CANARIES[1])
    frame.loc[7, "k"] = float(CANARIES[2])
    return frame.assign(email=CANARIES[3])


PUBLIC = people(PUBLIC_ROWS, seed=1)
SETTINGS = {
    "box": (None, {}, {"se_share": 0}),
    "public rows": (PUBLIC, {}, {}),
    "public rows without outcomes": (PUBLIC.drop(columns="y"), {}, {}),
    "weights and offset": (PUBLIC, {"weights": "w", "offset": "o"}, {}),
    "noisy Hessian": (None, {}, {"epsilon": 9.0, "se_share": 0.5}),
    "noisy Hessian beside public rows": (PUBLIC, {}, {"se_share": 0.3}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the ledgers are."""
    return tmp_path_factory.mktemp("ledgers")


@pytest.fixture(params=SETTINGS, scope="module")
def fit(request, folder):
    """Return ledger, model and result of a fit to marked rows."""
    public, columns, options = SETTINGS[request.param]
    ledger = hdp.Ledger(folder / f"trial {request.param}.db", dataset="trial", epsilon=10)
    study = hdp.Study(private=marked(), public=public, schema=SCHEMA, ledger=ledger)
    model = hdpf.logit(FORMULA, data=study, **columns)
    return ledger, model, model.fit(**{"epsilon": 2.0} | options)


def texts_of(ledger, model, result, folder):
    """Yield every text in which a release may be handed on."""
    result.to_json(folder / "result.json")
    ledger.export(folder / "ledger.json")
    ledger.export(folder / "ledger.csv")
    for name in ("result.json", "ledger.json", "ledger.csv"):
        yield (folder / name).read_text(encoding="utf-8")
    for summary in (result.summary(), result.summary(alpha=0.2)):
        yield from (summary.as_text(), summary.as_html(), summary.as_latex(), summary.as_csv())
    yield from (repr(result), str(result), result._repr_html_(), json.dumps(result.disclosure()))
    for frame in (
        result.tidy(),
        result.tidy(exponentiate=True),
        result.glance(),
        result.odds_ratios(),
        result.cov_params(),
    ):
        yield frame.to_csv()
    yield from (ledger.history().to_csv(), str(ledger), repr(ledger), ledger._repr_html_(), str(ledger.verify()))
    yield from (repr(model), str(model.plan()), model.plan()._repr_html_())
    yield from (result.query.to_json(), result.release.to_json(), repr(result.query), repr(result.release))
    yield from (repr(result.facts), repr(result.schema), repr(result.estimate), repr(result.guarantee))
    yield result.predict(PUBLIC, ci=True).to_csv()


@pytest.mark.covering(cases=3)
def test_no_private_value_is_in_any_text(fit, tmp_path):
    for text in texts_of(*fit, tmp_path):
        assert not any(canary in text for canary in CANARIES)


def test_no_private_value_is_in_the_file_of_the_ledger(fit, folder):
    files = [path for path in folder.iterdir() if path.name.startswith("trial ")]
    assert files
    for path in files:
        content = path.read_bytes()
        for canary in CANARIES:
            assert canary.encode() not in content
            if canary[0].isdigit():
                assert np.float64(canary).tobytes() not in content


@pytest.mark.covering(cases=3)
def test_no_private_value_is_in_a_plot(fit):
    picture = io.StringIO()
    axes = fit[2].plot_coefficients()
    drawn = sum(len(line.get_xdata()) for line in axes.get_lines())
    axes.figure.savefig(picture, format="svg")
    pyplot.close(axes.figure)
    assert drawn < RECORDS
    assert not any(canary in picture.getvalue() for canary in CANARIES)


def parts(start):
    """Yield every object that a result leads to; the package's code is not entered."""
    seen, waiting = set(), [start]
    while waiting:
        value = waiting.pop()
        code = types.ModuleType | types.FunctionType | types.MethodType | types.BuiltinFunctionType | type
        if id(value) in seen or isinstance(value, code):
            continue
        seen.add(id(value))
        yield value
        waiting.extend(gc.get_referents(value))
        if isinstance(value, np.ndarray) and value.base is not None:
            waiting.append(value.base)


def has_an_entry_per_record(value):
    """Whether a value has one entry, or one block of entries, per private record, or is of a type that holds rows."""
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Series | pd.Index):
        return RECORDS in value.shape or (value.size > 0 and value.size % RECORDS == 0)
    if isinstance(value, list | tuple | set | frozenset | dict):
        return len(value) == RECORDS
    if isinstance(value, bytes | bytearray):
        return len(value) in (RECORDS, 8 * RECORDS)
    return isinstance(value, PrivateTable | AdmittedTable | Rows | LocalSite | Study)


def rows_in(start):
    return [value for value in parts(start) if has_an_entry_per_record(value)]


@pytest.mark.covering(cases=3)
def test_a_result_has_nothing_of_the_length_of_the_private_rows(fit):
    assert rows_in(fit[2]) == []
    assert rows_in(fit[1].plan()) == []


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros(RECORDS), np.zeros((RECORDS, 3)), np.zeros((2, RECORDS)), pd.Series(range(RECORDS)),
        list(range(RECORDS)),
        people(RECORDS), tuple("x" * RECORDS), np.zeros((RECORDS, 4))[:2], dict.fromkeys(range(RECORDS)),
    ],
    ids=lambda rows: type(rows).__name__,
)  # fmt: skip
def test_the_walk_finds_rows(rows):
    """The walk of the test above must be able to fail."""
    assert rows_in({"kept": [(rows,)]}) != []


def test_a_result_does_not_lead_to_the_model_or_the_ledger(fit):
    assert not any(type(value).__name__ in ("Logit", "Regression", "Ledger", "Store") for value in parts(fit[2]))


def test_a_result_does_not_keep_the_private_frame_alive():
    frame = marked()
    study = hdp.Study(private=frame, schema=SCHEMA, budget=hdp.Budget(epsilon=10))
    site = weakref.ref(study.site._table._cells["x"])
    result = hdpf.logit(FORMULA, data=study).fit(epsilon=1.0, se_share=0)
    del study, frame
    gc.collect()
    assert site() is None
    assert np.isfinite(result.params).all()


def test_results_survive_json_and_hold_no_more_afterwards(fit):
    again = hdp.Result.from_json(fit[2].to_json())
    assert again.to_json() == fit[2].to_json()
    assert rows_in(again) == []


def test_what_would_need_the_rows_is_refused_with_a_reason(fit):
    for name in REFUSED:
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(fit[2], name)
        assert "Instead" in str(caught.value)
        assert not any(canary in str(caught.value) for canary in CANARIES)
