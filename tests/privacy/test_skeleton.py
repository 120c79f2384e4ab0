"""Whatever a record holds, a caller sees the same but for the noisy numbers: nothing is learned around the noise."""

import dataclasses
import functools
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import statsmodels.formula.api as smf

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.audit import observe, skeleton
from hdpstats.noise.exact import bits
from tests import seeded
from tests.support import (
    ALIKE,
    CORNERS,
    FORMULA,
    PUBLIC_ROWS,
    RECORDS,
    SCHEMA,
    TOGETHER,
    fitted,
    people,
    replaced,
    replaced_together,
    seen_of_ledger,
    seen_of_result,
    study_of,
    without_words_on_noise,
)

pytestmark = pytest.mark.usefixtures("no_noise")
# Releases are without noise: what is seen of them differs by the rows alone, and no comparison by chance.

PRIVATE = people(RECORDS)
PUBLIC = people(PUBLIC_ROWS, seed=1)
COVARIATES = ("x", "k", "g")


def look(private, public=None, **fit):
    """Fit and return all that can be seen: of model, plan, result and ledger."""
    study, model, result = fitted(private, public, **fit)
    return {
        "study": repr(study),
        "site": repr(study.site),
        "model": repr(model),
        "plan": str(model.plan(2.0)),
        "result": seen_of_result(result),
        "ledger": seen_of_ledger(study.ledger),
    }


SETTINGS = {
    "box": {},
    "public rows": {"public": PUBLIC},
    "public rows without outcomes": {"public": PUBLIC.drop(columns="y")},
    "weights and offset": {"weights": "w", "offset": "o"},
    "noisy Hessian": {"epsilon": 50.0, "se_share": 0.5},
    "noisy Hessian beside public rows": {"public": PUBLIC, "epsilon": 50.0, "se_share": 0.5},
}


def watch(private, setting):
    return observe(functools.partial(look, private, **SETTINGS[setting]))


@pytest.fixture(autouse=True)
def no_words_on_noise(monkeypatch):
    without_words_on_noise(monkeypatch)


@seeded.remembered
def ordinary(setting):
    """Return what is seen of the fit to the ordinary rows."""
    seen = watch(PRIVATE, setting)
    assert seen.exception is None
    return seen


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize("corners", ALIKE, ids=", ".join)
def test_rows_change_nothing_that_is_seen(corners):
    neighbour = replaced_together(PRIVATE, list(PRIVATE.columns), corners)
    assert watch(neighbour, "weights and offset") == ordinary("weights and offset")


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("corners", TOGETHER)
def test_cells_of_a_column_change_nothing_that_is_seen(corners):
    column = ("y", *COVARIATES)[TOGETHER.index(corners) % 4]
    assert watch(replaced_together(PRIVATE, [column], corners), "box") == ordinary("box")


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("corner", list(CORNERS)[::6])
def test_one_row_changes_nothing_that_is_seen_beside_public_rows(corner):
    neighbour = replaced(PRIVATE, list(PRIVATE.columns), CORNERS[corner])
    assert watch(neighbour, "public rows") == ordinary("public rows")


@pytest.mark.covering(1)
@pytest.mark.parametrize("setting", ["public rows without outcomes", "noisy Hessian"])
@pytest.mark.parametrize("corner", ["nan", "1e308", "None", "complex", "evil"])
def test_one_row_changes_nothing_that_is_seen_in_other_settings(corner, setting):
    neighbour = replaced(PRIVATE, list(PRIVATE.columns), CORNERS[corner], row=0)
    assert watch(neighbour, setting) == ordinary(setting)


def typed(column, cells, dtype):
    frame = PRIVATE.copy()
    frame[column] = pd.Series(cells, dtype=dtype)
    return frame


def typed_columns():
    """Yield frames whose columns have other types, as another program or another file format may give them."""
    x, g = PRIVATE["x"].tolist(), PRIVATE["g"].tolist()
    for dtype in ("float16", "float32", ">f8", "<f4", "longdouble", "Float64", "double[pyarrow]", "complex128", "str"):
        yield f"x as {dtype}", typed("x", x, dtype)
    for dtype in ("int8", "uint16", ">i4", "Int64", "UInt8", "int64[pyarrow]", "object"):
        yield f"k as {dtype}", typed("k", [int(k) for k in PRIVATE["k"]], dtype)
    for dtype in ("bool", "boolean", "bool[pyarrow]", "Int8", "object"):
        yield f"y as {dtype}", typed("y", [bool(y) for y in PRIVATE["y"]], dtype)
    for dtype in ("object", "string[python]", "string[pyarrow]", "large_string[pyarrow]", "category"):
        yield f"g as {dtype}", typed("g", g, dtype)
    yield "k as Int64 with NA", typed("k", [pd.NA, *[int(k) for k in PRIVATE["k"]][1:]], "Int64")
    yield "y as boolean with NA", typed("y", [pd.NA, *[bool(y) for y in PRIVATE["y"]][1:]], "boolean")
    yield "x as sparse", typed("x", pd.arrays.SparseArray(PRIVATE["x"], fill_value=0.0), None)
    yield "x as dates", typed("x", pd.date_range("2020", periods=RECORDS), None)
    yield "x as times with zone", typed("x", pd.date_range("2020", periods=RECORDS, tz="UTC"), None)
    yield "x as periods", typed("x", pd.period_range("2020", periods=RECORDS, freq="D"), None)
    yield "x as time differences", typed("x", pd.to_timedelta(np.arange(RECORDS)), None)
    yield "g with unused categories", typed("g", pd.Categorical(g, categories=["z", "c", "b", "a", "q"]), None)
    yield "g ordered", typed("g", pd.Categorical(g, categories=["c", "b", "a"], ordered=True), None)
    yield "g as numbers", typed("g", np.arange(RECORDS), None)
    yield "everything text", PRIVATE.astype(str)
    yield "everything object", PRIVATE.astype(object)
    yield "everything missing", PRIVATE.astype(object).where(PRIVATE.isna())


@pytest.mark.covering(cases=5)
@pytest.mark.parametrize("frame", [pytest.param(frame, id=name) for name, frame in typed_columns()])
def test_types_of_columns_change_nothing_that_is_seen(frame):
    assert watch(frame, "box") == ordinary("box")


def degenerate():
    yield "outcome constant", PRIVATE.assign(y=1.0)
    yield "perfectly separated", PRIVATE.assign(y=(PRIVATE["x"] > 0).astype(float))
    yield "constant covariate", PRIVATE.assign(x=2.0)
    yield "covariate all zero", PRIVATE.assign(x=0.0, k=0.0)
    yield "one level only", PRIVATE.assign(g="a")
    yield "collinear", PRIVATE.assign(x=np.log1p(PRIVATE["k"]))
    yield "weights all zero", PRIVATE.assign(w=0.0)
    yield "weights hostile", PRIVATE.assign(w=np.resize([np.nan, np.inf, -1.0, 1e300, -0.0], RECORDS))
    yield "magnitudes mixed", PRIVATE.assign(x=np.resize([1e308, -1e308, 5e-324, np.nan, np.inf], RECORDS))
    yield "index duplicated", PRIVATE.set_index(pd.Index([0] * RECORDS))
    yield "index of dates", PRIVATE.set_index(pd.date_range("2020", periods=RECORDS))
    yield "shuffled", PRIVATE.sample(frac=1.0, random_state=1)


@pytest.mark.covering(1)
@pytest.mark.parametrize("frame", [pytest.param(frame, id=name) for name, frame in degenerate()])
@pytest.mark.parametrize("setting", ["public rows", "weights and offset"])
def test_degenerate_data_change_nothing_that_is_seen(frame, setting):
    assert watch(frame, setting) == ordinary(setting)


def test_an_undeclared_column_changes_nothing_that_is_seen():
    assert watch(PRIVATE.assign(name=[object()] * RECORDS), "box") == ordinary("box")


def admitted(study, *names):
    """Return the cells of columns as a site admits them, by column."""
    table = study.site._table.admit(names)
    return {**table.numeric, **table.codes}


def inferred(cells):
    """Return a column as pandas makes it from a list: one cell may change the type of all."""
    try:
        return pd.Series(cells.tolist(), index=cells.index)
    except (RuntimeError, UnicodeEncodeError):  # pandas itself refuses such cells
        return cells


@seeded.remembered
def ordinary_cells():
    """Return the cells that are admitted of the ordinary rows."""
    return admitted(study_of(PRIVATE), "y", *COVARIATES)


@pytest.mark.covering(cases=6)
@pytest.mark.parametrize("corners", ALIKE, ids=", ".join)
def test_some_cells_do_not_change_how_the_others_are_read(corners):
    """Each alone where pandas infers the type of a column, which one cell may change."""
    before = ordinary_cells()
    inferring = (replaced(PRIVATE, ["y", *COVARIATES], CORNERS[each], row=RECORDS - 1) for each in corners)
    others = np.arange(RECORDS) < RECORDS - len(corners)
    for frame in (
        replaced_together(PRIVATE, ["y", *COVARIATES], corners),
        *(each.apply(inferred) for each in inferring),
    ):
        after = admitted(study_of(frame), "y", *COVARIATES)
        for name in ("y", *COVARIATES):
            assert np.array_equal(before[name][others], after[name][others]), name


def cells_of_arrays(endog, exog):
    """Return the cells that are admitted of rows in arrays."""
    model = hdp.Logit(endog, exog, exog_bounds=[(-3, 3)], budget=hdp.Budget(epsilon=1))
    return admitted(model._spec.study, "x1", "y")


@seeded.remembered
def cells_of_ordinary_arrays():
    """Return the cells that are admitted of the ordinary rows in arrays."""
    return cells_of_arrays(PRIVATE["y"].tolist(), PRIVATE["x"].tolist())


@pytest.mark.covering(cases=16)
@pytest.mark.parametrize("corner", [corner for corner in CORNERS if corner != "evil"])  # numpy itself asks evil cells
def test_one_cell_does_not_change_how_other_cells_of_arrays_are_read(corner):
    endog, exog = PRIVATE["y"].tolist(), PRIVATE["x"].tolist()
    before = cells_of_ordinary_arrays()
    hostile = [*exog[:-1], CORNERS[corner]], [*endog[:-1], CORNERS[corner]]
    for after in (cells_of_arrays(endog, hostile[0]), cells_of_arrays(hostile[1], exog)):
        for name in ("x1", "y"):
            assert np.array_equal(before[name][:-1], after[name][:-1]), name


def test_a_file_with_cells_that_python_cannot_hold_is_read(tmp_path):
    ordinary_days, far_day = pa.array([1] * RECORDS, pa.int32()), pa.array([1] * (RECORDS - 1) + [10**8], pa.int32())
    letters, undecodable = [b"a"] * RECORDS, [b"a"] * (RECORDS - 1) + [b"\xff\xfe"]
    seen = []
    for days, texts in ((ordinary_days, letters), (far_day, undecodable)):
        columns = {name: pa.array(PRIVATE[name]) for name in ("y", "x", "k", "w", "o")}
        columns |= {"day": days.cast(pa.date32()), "g": pa.array(texts).cast(pa.binary()).view(pa.string())}
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
        seen.append(observe(functools.partial(look, tmp_path / "rows.parquet")))
    assert seen[0].exception is None
    assert seen[0] == seen[1]


@dataclasses.dataclass
class NaiveResult:
    params: pd.Series
    nobs: int
    converged: bool


def naive(frame):
    """Fit as a thin wrapper around statsmodels does: levels, rows and flags come from the data."""
    cells = frame.assign(x=pd.to_numeric(frame["x"], errors="coerce"), y=pd.to_numeric(frame["y"], errors="coerce"))
    fit = smf.logit("y ~ x + C(g)", cells, missing="drop").fit_regularized(alpha=1.0, disp=0)
    noisy = fit.params + np.random.default_rng(bits(128)).laplace(size=len(fit.params))
    return NaiveResult(params=noisy, nobs=int(fit.nobs), converged=bool(fit.mle_retvals["converged"]))


@pytest.mark.parametrize(
    ("column", "corner"),
    [("x", "nan"), ("x", "None"), ("x", "number in text"), ("g", "unknown level"), ("g", "None"), ("y", "half")],
)
def test_a_naive_wrapper_is_caught(column, corner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = observe(lambda: naive(PRIVATE))
        after = observe(lambda: naive(replaced(PRIVATE, [column], CORNERS[corner])))
    if corner == "number in text":  # a number all the same: the naive wrapper reads it too
        assert before == after
    else:
        assert before != after


def test_skeletons_keep_counts_and_texts_and_drop_floats():
    table = pd.DataFrame({"term": ["a", "b"], "estimate": [0.5, 1.5], "count": [3, 4]})
    other = table.assign(estimate=[7.5, -2.0])
    assert skeleton(table) == skeleton(other)
    for change in ({"count": [3, 5]}, {"term": ["a", "c"]}, {"estimate": [0.5, np.nan]}, {"count": [3.0, 4.0]}):
        assert skeleton(table) != skeleton(table.assign(**change)), change


def test_looking_sees_a_count_that_depends_on_a_row():
    """The comparison of this file must be able to fail."""
    assert watch(PRIVATE.iloc[1:], "box") != ordinary("box")
    assert SCHEMA["g"].other == "c"
    assert repr(hdpf.logit(FORMULA, data=study_of(PRIVATE))) in str(ordinary("box").result)
