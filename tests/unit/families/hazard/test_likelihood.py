"""The hazard fit against plain person-period rows: every link, late entry, weights, offsets, ridge."""

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.families.hazard.likelihood import HazardData, HazardFit, fit_hazard
from hdpstats.losses import LINKS
from tests.unit.solvers.hazards import LogLog, expanded_derivatives, expanded_fit, spells, use

METHODS = ("direct", "tabulated")
ALL = (*LINKS, LogLog.name)


@pytest.fixture(autouse=True)
def _with_another_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LINKS, LogLog.name, LogLog())


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test term by term, and with tables."""
    use(monkeypatch, request.param)
    return str(request.param)


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return bool(np.max(np.abs(a - b)) <= tolerance * max(1.0, float(np.max(np.abs(b)))))


@pytest.mark.covering
@pytest.mark.parametrize("link", ALL)
@pytest.mark.parametrize("dummies", [False, True])
def test_the_fit_is_that_of_the_expanded_rows(link: str, dummies: bool, method: str) -> None:
    data = spells(1, m=600, q=6 if dummies else 12, dummies=dummies)
    D = data.A.shape[1] + data.Z.shape[1]
    zero = np.zeros(D)
    found = fit_hazard(data, link)
    theta = expanded_fit(data, link, ridge=zero, centre=zero)
    value, _, hessian = expanded_derivatives(data, link, theta)
    assert found.converged
    assert close(found.theta, theta, 1e-11)
    assert found.log_likelihood == pytest.approx(-value, rel=1e-12)
    assert found.deviance == pytest.approx(2 * value, rel=1e-12)
    assert close(found.information, hessian, 1e-7)


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", ALL)
def test_a_ridge_pulls_to_its_centre(link: str, method: str) -> None:
    data = spells(2)
    ridge, centre = np.array([0.0, 3.0, 0.5, 20.0, 1.0]), np.array([9.0, -1.0, 2.0, 0.3, 0.0])
    found = fit_hazard(data, link, ridge=ridge, centre=centre)
    theta = expanded_fit(data, link, ridge=ridge, centre=centre)
    assert close(found.theta, theta, 1e-11)
    value, _, hessian = expanded_derivatives(data, link, theta)
    assert found.deviance == pytest.approx(2 * value, rel=1e-9)
    assert close(found.information, hessian, 1e-6)


@pytest.mark.parametrize("link", ALL)
def test_the_start_does_not_matter(link: str) -> None:
    data = spells(3)
    first, second = fit_hazard(data, link), fit_hazard(data, link, start=np.array([3.0, -4.0, 2.0, 1.0, -1.0]))
    assert close(first.theta, second.theta, 1e-11)


def changed(data: HazardData, **arrays: np.ndarray) -> HazardData:
    names = ("A", "Z", "entry", "exit", "event", "weights", "offset")
    return HazardData(**{name: arrays.get(name, getattr(data, name)) for name in names})


def same(first: HazardFit, second: HazardFit) -> bool:
    return close(first.theta, second.theta, 1e-11) and first.deviance == pytest.approx(second.deviance, rel=1e-11)


@pytest.mark.parametrize("link", ALL)
def test_a_spell_cut_in_two_is_the_same_spell(link: str, method: str) -> None:
    data = spells(4)
    middle = (data.entry + data.exit) // 2
    twice = {name: np.concatenate([getattr(data, name)] * 2) for name in ("Z", "weights", "offset")}
    cut = changed(
        data,
        **twice,
        entry=np.concatenate([data.entry, middle]),
        exit=np.concatenate([middle, data.exit]),
        event=np.concatenate([np.zeros_like(data.event), data.event * (middle < data.exit)]),
    )
    assert same(fit_hazard(cut, link), fit_hazard(data, link))


@pytest.mark.parametrize("link", ALL)
def test_empty_spells_contribute_nothing(link: str, method: str) -> None:
    data = spells(5)
    empty = changed(data, exit=np.where(np.arange(400) % 3 == 0, data.entry, data.exit), event=np.ones_like(data.event))
    full = np.flatnonzero(empty.exit > empty.entry)
    assert full.size < 400
    only = changed(
        empty, **{name: getattr(empty, name)[full] for name in ("Z", "entry", "exit", "event", "weights", "offset")}
    )
    assert same(fit_hazard(empty, link), fit_hazard(only, link))
    assert len(only.Z) < len(empty.Z)


@pytest.mark.parametrize("link", ALL)
def test_a_weight_of_two_is_two_people(link: str, method: str) -> None:
    data = spells(6)
    double = {
        name: np.concatenate([getattr(data, name)] * 2) for name in ("Z", "entry", "exit", "event", "weights", "offset")
    }
    heavier = changed(data, weights=2 * data.weights)
    assert same(fit_hazard(changed(data, **double), link), fit_hazard(heavier, link))


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", ALL)
def test_separation_returns_the_last_iterate(link: str, method: str) -> None:
    data = spells(7, plain=True)
    event = (data.Z[:, 0] > 0).astype(int)
    separated = changed(data, exit=np.full(400, 1), event=event, A=data.A[:1], entry=np.zeros(400, int))
    found = fit_hazard(separated, link)
    assert not found.converged
    assert np.all(np.isfinite(found.theta))
    assert 0 <= found.deviance < 20 < fit_hazard(data, link).deviance


@pytest.mark.parametrize("link", ALL)
@pytest.mark.parametrize("happened", [0, 1])
def test_an_outcome_that_everybody_has_is_told_by_tails_of_any_weight(link: str, happened: int) -> None:
    # Log-log terms of surviving, and complementary log-log terms of events, fall as exp(-e^t): steps there are short.
    data = spells(11, plain=True)
    same = {"entry": np.zeros(400, int), "exit": np.ones(400, int), "event": np.full(400, happened)}
    found = fit_hazard(changed(data, A=data.A[:1, :1], **same), link)
    assert not found.converged
    assert found.deviance < 1e-6
    mixed = fit_hazard(changed(data, A=data.A[:1, :1], **same | {"event": np.arange(400) % 2}), link)
    assert mixed.converged


@pytest.mark.parametrize("link", ALL)
def test_no_events_and_no_spells(link: str, method: str) -> None:
    data = spells(8)
    quiet = fit_hazard(changed(data, event=np.zeros_like(data.event)), link)
    assert np.all(np.isfinite(quiet.theta))
    assert not quiet.converged
    assert quiet.deviance < 1e-6
    nobody = changed(
        data, **{name: getattr(data, name)[:0] for name in ("Z", "entry", "exit", "event", "weights", "offset")}
    )
    nothing = fit_hazard(nobody, link, ridge=np.ones(5), centre=np.arange(5.0))
    assert close(nothing.theta, np.arange(5.0), 1e-12)
    assert nothing.deviance == 0.0
    assert np.all(np.isfinite(fit_hazard(nobody, link).theta))


@pytest.mark.parametrize("link", ALL)
def test_a_repeated_covariate_does_not_raise(link: str) -> None:
    data = spells(9)
    twice = fit_hazard(changed(data, Z=np.hstack([data.Z, data.Z[:, :1]])), link)
    once = fit_hazard(data, link)
    assert twice.deviance == pytest.approx(once.deviance, rel=1e-10)
    assert twice.theta[3] + twice.theta[5] == pytest.approx(once.theta[3], rel=1e-6)


def test_no_covariates(method: str) -> None:
    data = spells(10, plain=True, dummies=True)
    alone = fit_hazard(changed(data, Z=data.Z[:, :0]), "logit")
    at_risk = np.array([np.sum(data.exit >= s) for s in range(1, 13)])
    events = np.bincount(data.exit[data.event == 1] - 1, minlength=12)
    assert close(1 / (1 + np.exp(-alone.theta)), events / at_risk, 1e-12)


def test_many_intervals_without_overflowing_products(method: str) -> None:
    # Spells of 3000 intervals with hazards near 1/2 and near 1: their products exceed the largest float.
    q = 3000
    data = HazardData(
        A=np.ones((q, 1)), Z=np.array([[0.0], [30.0], [700.0], [-700.0]]), entry=np.zeros(4), exit=np.full(4, q),
        event=np.zeros(4), weights=np.ones(4), offset=np.zeros(4),
    )  # fmt: skip
    held = np.array([0.5, 1.0])
    stopped = fit_hazard(data, "logit", ridge=np.full(2, 1e18), centre=held, start=held)
    expected = q * sum(np.logaddexp(0.0, 0.5 + z) for z in (0.0, 30.0, 700.0, -700.0))
    assert -stopped.log_likelihood == pytest.approx(expected, rel=1e-10)


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("link", ALL)
def test_far_starts_come_back(link: str, method: str) -> None:
    data = spells(11)
    start = np.array([-20.0, 3.0, 0.0, 90.0 if link == "logit" else 5.0, -5.0])
    assert np.all(np.isfinite(fit_hazard(data, link, start=start).theta))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("entry", np.full(400, -1)),
        ("exit", np.full(400, 13)),
        ("entry", np.full(400, 12)),
        ("event", np.full(400, 2)),
        ("weights", np.ones(3)),
        ("A", np.ones(12)),
    ],
)
def test_what_cannot_be_indexed_is_refused(name: str, array: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match=name):
        changed(spells(12), **{name: array})


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ArgumentError, match="link"):
        fit_hazard(spells(1), "log")
