"""Every kernel against plain person-period rows, to rounding; and which kernel is taken when."""

import numpy as np
import pytest

from hdpstats._base.compiled import compiled
from hdpstats.families.hazard import kernels, likelihood
from hdpstats.families.hazard.kernels import CellKernel, CumulativeHazards, TabulatedKernel
from hdpstats.families.hazard.likelihood import HazardData, Likelihood, fit_hazard
from hdpstats.losses import LINKS
from tests.unit.solvers.hazards import LogLog, expanded_derivatives, spells, use

ALL = LINKS | {LogLog.name: LogLog()}
KERNELS = [
    *((name, kernel) for name in ALL for kernel in (CellKernel, TabulatedKernel)),
    *((name, CumulativeHazards) for name, link in ALL.items() if link.cumulative),
]


@pytest.fixture(autouse=True)
def _with_another_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LINKS, LogLog.name, ALL[LogLog.name])


def with_kernel(monkeypatch: pytest.MonkeyPatch, data: HazardData, link: str, kernel: type) -> Likelihood:
    """Return the likelihood that uses a given kernel."""
    monkeypatch.setattr(Likelihood, "_kernel", lambda self, a, survived: kernel(LINKS[link], data.A, a, survived))
    return Likelihood(data, LINKS[link])


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", [{}, {"dummies": True}, {"p": 1}, {"p": 14}, {"q": 1, "p": 1}, {"q": 60, "m": 5000}])
@pytest.mark.parametrize(("link", "kernel"), KERNELS)
def test_derivatives(monkeypatch: pytest.MonkeyPatch, link: str, kernel: type, shape: dict[str, int]) -> None:
    data = spells(21, **shape)
    theta = np.random.default_rng(5).normal(0, 0.3, data.A.shape[1] + data.Z.shape[1]) - 0.3
    found = with_kernel(monkeypatch, data, link, kernel)
    here = found.at(theta)
    value, gradient, hessian = expanded_derivatives(data, link, theta)
    assert here.value == pytest.approx(value, rel=1e-13)
    assert largest_error(here.gradient, gradient) < 1e-12
    assert largest_error(here.hessian, hessian) < 1e-12


@pytest.mark.parametrize(("link", "kernel"), KERNELS)
def test_extreme_predictors(monkeypatch: pytest.MonkeyPatch, link: str, kernel: type) -> None:
    # Some spells are sure to survive, some to end at once: terms of e^-700 beside terms of size one.
    data = spells(22)
    names = ("A", "Z", "entry", "exit", "event", "weights")
    reach = {"logit": 700.0, "cloglog": 12.0, "probit": 30.0, "loglog": 12.0}[link]
    offset = np.where(np.arange(400) % 50 == 0, -reach, np.where(np.arange(400) % 50 == 1, reach, 0.0))
    data = HazardData(**{name: getattr(data, name) for name in names}, offset=offset)
    theta = np.array([-1.0, 0.4, -0.2, 0.3, -0.1])
    found = with_kernel(monkeypatch, data, link, kernel)
    here = found.at(theta)
    value, gradient, hessian = expanded_derivatives(data, link, theta)
    assert here.value == pytest.approx(value, rel=1e-12)
    assert largest_error(here.gradient, gradient) < 1e-11
    assert largest_error(here.hessian, hessian) < 1e-11


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", [{"m": 3000, "q": 30, "p": 4}, {"m": 2100, "q": 2000}, {"m": 24_000, "q": 5}])
def test_direct_and_tabulated_are_one_fit(monkeypatch: pytest.MonkeyPatch, link: str, kind: dict[str, int]) -> None:
    data = spells(23, **kind)
    use(monkeypatch, "direct")
    first = fit_hazard(data, link)
    use(monkeypatch, "tabulated")
    second = fit_hazard(data, link)
    assert np.max(np.abs(first.theta - second.theta)) < 1e-12 * max(1.0, np.max(np.abs(first.theta)))
    assert first.deviance == pytest.approx(second.deviance, rel=1e-13)
    assert largest_error(first.information, second.information) < 1e-11


@pytest.mark.parametrize("link", LINKS)
def test_a_sample_starts_the_fit_and_does_not_change_it(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, passes, counted = spells(24, m=24_000, q=8), [], Likelihood._derivatives
    monkeypatch.setattr(
        Likelihood, "_derivatives", lambda self, theta: passes.append(self.data.spells) or counted(self, theta)
    )
    sampled = fit_hazard(data, link)
    with_sample = passes.count(24_000)
    monkeypatch.setattr(likelihood, "SMALLEST_SAMPLE", 10**9)
    whole = fit_hazard(data, link)
    assert with_sample < passes.count(24_000) - with_sample
    assert np.max(np.abs(sampled.theta - whole.theta)) < 1e-12


@pytest.mark.parametrize("link", LINKS)
def test_intervals_without_people_do_not_matter(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody is at risk before interval 5, where this baseline is e^40 times as high as later.
    data = spells(25, plain=True)
    A = np.column_stack([np.ones(12), np.where(np.arange(12) < 4, 40.0, 0.0) + np.arange(12) / 12])
    late = HazardData(
        A=A, Z=data.Z, entry=np.full(400, 4), exit=np.maximum(data.exit, 5), event=data.event,
        weights=data.weights, offset=data.offset,
    )  # fmt: skip
    early = HazardData(
        A=A[4:], Z=data.Z, entry=np.zeros(400), exit=late.exit - 4, event=late.event,
        weights=data.weights, offset=data.offset,
    )  # fmt: skip
    expected = fit_hazard(early, link)
    for method in ("direct", "tabulated"):
        use(monkeypatch, method)
        assert np.max(np.abs(fit_hazard(late, link).theta - expected.theta)) < 1e-11


def kernel_for(data: HazardData, link: str) -> type:
    found, made, chosen = Likelihood(data, LINKS[link]), [], Likelihood._kernel
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Likelihood, "_kernel", lambda self, *args: made.append(chosen(self, *args)) or made[-1])
        found.at(np.concatenate([[-3.0, 0, 0], np.ones(data.Z.shape[1])]))
    return type(made[0])


def test_which_kernel_when() -> None:
    small, large = spells(26, q=20), spells(26, m=80_000, q=200, plain=True)
    assert kernel_for(small, "logit") is CellKernel
    assert kernel_for(large, "logit") is TabulatedKernel
    assert kernel_for(small, "probit") is CellKernel
    assert kernel_for(large, "probit") is TabulatedKernel
    assert kernel_for(large, "cloglog") is CumulativeHazards
    wide = HazardData(
        A=large.A, Z=large.Z * 1e5, entry=large.entry, exit=large.exit, event=large.event, weights=large.weights,
        offset=large.offset,
    )  # fmt: skip
    assert kernel_for(wide, "logit") is CellKernel


def test_code_that_cannot_be_kept_is_compiled_all_the_same() -> None:
    scope: dict[str, object] = {}
    exec("def twice(x):\n    return 2 * x", scope)  # no file, so numba has nowhere to keep it
    assert compiled(scope["twice"])(4) == 8


def test_the_table_would_show_fewer_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    # What makes the comparisons above able to fail: with wider cells the error is visible.
    data = spells(27)
    theta = np.array([-1.0, 0.4, -0.2, 0.3, -0.1])
    monkeypatch.setattr(kernels, "WIDTH", 6.0)
    found = with_kernel(monkeypatch, data, "logit", TabulatedKernel)
    here = found.at(theta)
    _, gradient, _ = expanded_derivatives(data, "logit", theta)
    assert largest_error(here.gradient, gradient) > 1e-9


def test_singularities_nearer_than_others_make_narrower_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    data = spells(28, q=1, p=1, m=5000)
    theta = np.array([0.3, 0.2, 0.1, 1.5])
    _, _, hessian = expanded_derivatives(data, "loglog", theta)

    def error() -> float:
        return largest_error(with_kernel(monkeypatch, data, "loglog", TabulatedKernel).at(theta).hessian, hessian)

    assert error() < 1e-12
    monkeypatch.setattr(LogLog, "analytic", 2.8)
    assert error() > 1e-11
