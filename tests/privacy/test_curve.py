"""Performance curves: what a person changes, and the neighbours against whom noise for a change by 1 is nothing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats._base.errors import MechanismError, SiteError
from hdpstats.mechanisms.hybrid_weights import CurveQuery, CurveRelease
from hdpstats.mechanisms.hybrid_weights import curve_site as curve
from hdpstats.mechanisms.registry import query_from_json, release_from_json
from hdpstats.privacy.sensitivity import Relation
from hdpstats.schema.site_facts import SiteFacts
from hdpstats.schema.table import PrivateTable
from tests.support import CORNERS

SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True), u=hdp.Continuous(-1, 1, complete=True), v=hdp.Continuous(-3, 3, complete=True)
)
QUERY = CurveQuery(
    formula="y ~ u",
    candidates=((0.0, 0.0), (0.3, -2.0), (5.0, 5.0)),
    scale=(1.0, 1.0),
    radius=Fraction(7, 5),
    ridge=Fraction(1, 50),
    epsilon=Fraction(1, 2),
    schema_sha256=SCHEMA.sha256,
)


def site_facts(records, relation=Relation.REPLACE_ONE, **fields):
    return SiteFacts(schema=SCHEMA, relation=relation, records=records, **fields)


def units(frame, query=QUERY):
    prepared = curve.prepare(query, site_facts(len(frame)))
    return np.array(
        curve.curve_units(
            query, prepared.design, PrivateTable.from_frame(frame, SCHEMA).admit(["y", "u"]), work=prepared.work_of_fit
        )
    )


def nearly_separated(n, last):
    """Return rows at u = 1/n with y = 1 and at -1/n with y = 0, and one more: the neighbours of the explanation."""
    half = (n - 1) // 2
    u = [1 / n] * half + [-1 / n] * half + [last[0]]
    y = [1.0] * half + [0.0] * half + [last[1]]
    return pd.DataFrame({"y": y, "u": u, "v": 0.0})


@pytest.mark.parametrize("n", [49, 99])
def test_with_next_to_no_penalty_one_person_changes_an_error_by_half_the_root_of_n(n):
    """So the claimed sensitivity 1 is wrong by a factor of sqrt(n) / 2, and the package's own covers what happens."""
    loose = replace(QUERY, ridge=Fraction(1, 10**5), candidates=((0.0, 0.0),))
    agreeing, contradicting = nearly_separated(n, (1.0, 1.0)), nearly_separated(n, (-1.0, 1.0))
    change = abs(units(agreeing, loose) - units(contradicting, loose))[0] / curve.UNITS
    assert change > 0.2 * np.sqrt(n)
    assert change <= curve.sensitivity(loose, n) / curve.UNITS


@pytest.mark.covering(cases=2)
@pytest.mark.parametrize("ridge", [Fraction(1, 1000), Fraction(1, 50), Fraction(1)])
def test_no_neighbours_exceed_the_sensitivity(ridge):
    query, worst = replace(QUERY, ridge=ridge), 0
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = 200
        frame = nearly_separated(n, (1.0, 1.0)) if trial % 2 else pd.DataFrame({"u": rng.uniform(-1, 1, n), "v": 0.0})
        if not trial % 2:
            frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-20 * frame.u))).astype(float)
        other = frame.copy()
        other.loc[len(frame) - 1, ["u", "y"]] = (rng.choice([-1.0, 1.0, 0.0]), float(rng.integers(2)))
        worst = max(worst, int(np.abs(units(frame, query) - units(other, query)).max()))
    assert 0 < worst <= curve.sensitivity(query, n)


def test_one_person_alone_changes_an_error_by_nearly_one():
    """A person whose own probability goes from agreement to the opposite: the 1 under the root is needed."""
    query = replace(QUERY, candidates=((100.0, 0.0),), ridge=Fraction(10**4))
    near, far = (pd.DataFrame({"y": [1.0], "u": [0.0], "v": 0.0}) for _ in range(2))
    assert units(near, query)[0] == pytest.approx(curve.UNITS / 2, rel=1e-3)
    query = replace(query, candidates=((0.0, 100.0),), scale=(1e12, 1.0))
    near, far = (pd.DataFrame({"y": [1.0], "u": [u], "v": 0.0}) for u in (0.0, 1.0))
    change = abs(units(near, query) - units(far, query))[0]
    assert change == pytest.approx(curve.UNITS / 2, rel=1e-3)
    assert change <= curve.sensitivity(query, 1)


def test_the_sensitivity_is_the_formula():
    n, R, ridge = 10_000, float(QUERY.radius), float(QUERY.ridge)
    claimed = curve.sensitivity(QUERY, n) / curve.UNITS
    assert claimed >= np.sqrt(1 + (n - 1) * R**4 / (4 * n**2 * ridge**2))
    assert claimed <= np.sqrt(1 + (n - 1) * R**4 / (4 * n**2 * ridge**2)) * 1.01


def test_the_noise_covers_every_candidate():
    prepared = curve.prepare(QUERY, site_facts(400))
    assert prepared.noise.rate * curve.sensitivity(QUERY, 400) * len(QUERY.candidates) == QUERY.epsilon
    single = curve.prepare(replace(QUERY, candidates=QUERY.candidates[:1]), site_facts(400))
    assert single.noise.rate == 3 * prepared.noise.rate


def test_the_curve_is_that_of_a_plain_ridge_fit():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"u": rng.uniform(-1, 1, 500), "v": 0.0})
    frame["y"] = (rng.random(500) < 1 / (1 + np.exp(-2 * frame.u))).astype(float)
    fit = LogisticRegression(C=1 / (500 * float(QUERY.ridge)), fit_intercept=False, tol=1e-10)
    X = np.column_stack([np.ones(500), frame.u])
    own = fit.fit(X, frame.y).predict_proba(X)[:, 1]
    expected = [np.linalg.norm(1 / (1 + np.exp(-X @ np.array(theta))) - own) for theta in QUERY.candidates]
    np.testing.assert_allclose(units(frame, replace(QUERY, radius=Fraction(10))) / curve.UNITS, expected, rtol=1e-4)


def test_rows_are_cut_to_the_radius_each_by_itself():
    rng = np.random.default_rng(1)
    X = rng.normal(0, 3, (200, 4))
    cut = curve.cut_rows(X, 2.5)
    lengths = np.linalg.norm(cut, axis=1)
    assert lengths.max() <= 2.5 * (1 + 2**-45)
    inside = np.linalg.norm(X, axis=1) < 2.5
    np.testing.assert_array_equal(cut[inside], X[inside])
    np.testing.assert_array_equal(curve.cut_rows(X[7:8], 2.5), cut[7:8])


@pytest.mark.parametrize("corner", CORNERS)
def test_any_row_is_compared_silently(corner):
    row = pd.DataFrame({name: pd.Series([CORNERS[corner]], dtype=object) for name in SCHEMA})
    frame = pd.concat([row, nearly_separated(9, (0.0, 1.0)).astype(object)], ignore_index=True)
    assert len(units(frame)) == 3


def test_where_the_number_of_people_is_protected_there_is_no_curve():
    with pytest.raises(MechanismError, match="number of people"):
        curve.prepare(QUERY, site_facts(400, Relation.ADD_OR_REMOVE_ONE))


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"formula": "v ~ u"}, MechanismError), ({"formula": "y ~ u + v"}, SiteError)],
)
def test_what_does_not_fit_the_site_is_refused(changes, error):
    with pytest.raises(error):
        curve.prepare(replace(QUERY, **changes), site_facts(400))
    with pytest.raises(SiteError):
        curve.prepare(QUERY, site_facts(400, unit="id", most_rows=2))


@pytest.mark.parametrize(
    "changes",
    [
        {"candidates": ()},
        {"candidates": ((1.0,),)},
        {"candidates": ((float("nan"), 0.0),)},
        {"scale": (0.0, 1.0)},
        {"radius": Fraction(0)},
        {"ridge": Fraction(0)},
        {"delta": Fraction(1, 2)},
    ],
)
def test_contradictions_are_refused(changes):
    with pytest.raises(MechanismError):
        replace(QUERY, **changes)


def test_queries_and_releases_survive_json():
    assert query_from_json(QUERY.to_json()) == QUERY
    release = CurveRelease(errors=(1.5, -0.25), noise_sd=2.0, events=())
    assert release_from_json(release.to_json()) == release
