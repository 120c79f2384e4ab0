"""The adapter's checks, and the behaviours of OpenDP that it relies on or guards against."""

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.domains
import opendp.measurements
import opendp.metrics
import opendp.mod
import pytest
from scipy.stats import kstest, laplace, norm

from hdpstats._base.errors import ArgumentError, MechanismError
from hdpstats._base.typing import FloatArray
from hdpstats.noise import opendp_adapter

ALPHA = 1e-9
DRAWS = 8000

IMPORTS = """
import sys
from fractions import Fraction
from hdpstats.noise import opendp_adapter
assert not any(name.startswith("opendp") for name in sys.modules)
opendp_adapter.laplace([1.0], scale=Fraction(1), sensitivity=Fraction(1), epsilon=Fraction(1))
import opendp.mod
print(sorted(opendp.mod.GLOBAL_FEATURES), "opendp.prelude" in sys.modules, "sklearn" in sys.modules)
"""


def constructors() -> tuple[Callable[[float], object], Callable[[float], object]]:
    opendp.mod.enable_features("contrib")
    domain = opendp.domains.vector_domain(opendp.domains.atom_domain(T=float, nan=False))
    return (
        lambda scale: opendp.measurements.make_laplace(domain, opendp.metrics.l1_distance(T=float), scale=scale),
        lambda scale: opendp.measurements.make_gaussian(domain, opendp.metrics.l2_distance(T=float), scale=scale),
    )


def draw_laplace(values: list[float], scale: Fraction = Fraction(1)) -> FloatArray:
    return opendp_adapter.laplace(values, scale=scale, sensitivity=Fraction(1), epsilon=Fraction(1))


def draw_gaussian(values: list[float], scale: Fraction = Fraction(1)) -> FloatArray:
    return opendp_adapter.gaussian(values, scale=scale, sensitivity=Fraction(1), rho=Fraction(1, 2))


def test_import_is_lazy_and_admits_contributed_constructors_only() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['contrib'] False False"


def test_distributions_of_the_noise() -> None:
    for draw, distribution in ((draw_laplace, laplace), (draw_gaussian, norm)):
        noisy = draw([3.0] * DRAWS, Fraction(2))
        assert kstest(noisy, distribution(3.0, 2.0).cdf).pvalue > ALPHA
        assert kstest(noisy, distribution(3.0, 3.0).cdf).pvalue < ALPHA


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(7, 10), Fraction(1), Fraction(3), Fraction(10, 3)])
def test_the_textbook_scale_is_enough(epsilon: Fraction) -> None:
    sensitivity = Fraction(2, 3)
    noisy = opendp_adapter.laplace([0.0], scale=sensitivity / epsilon, sensitivity=sensitivity, epsilon=epsilon)
    assert np.isfinite(noisy).all()
    noisy = opendp_adapter.gaussian([0.0], scale=sensitivity / epsilon, sensitivity=sensitivity, rho=epsilon**2 / 2)
    assert np.isfinite(noisy).all()


def test_a_scale_too_small_is_refused_with_the_facts() -> None:
    with pytest.raises(MechanismError, match=r"the noise costs epsilon = 1\.0") as refusal:
        opendp_adapter.laplace([0.0], scale=Fraction(999_999, 10**6), sensitivity=Fraction(1), epsilon=Fraction(1))
    assert refusal.value.allowed == 1
    assert 1 < refusal.value.certified < 1.01
    with pytest.raises(MechanismError, match="raise the scale or rho"):
        opendp_adapter.gaussian([0.0], scale=Fraction(1, 2), sensitivity=Fraction(1), rho=Fraction(1))


@pytest.mark.parametrize("name", ["scale", "sensitivity", "epsilon"])
@pytest.mark.parametrize("value", [0, -1, 1.0, math.nan, "1", Fraction(1, 2**300)])
def test_arguments_that_are_none_are_refused_by_name(name: str, value: object) -> None:
    arguments = {"scale": Fraction(1), "sensitivity": Fraction(1), "epsilon": Fraction(1), name: value}
    with pytest.raises(ArgumentError, match=f"^{name} must be"):
        opendp_adapter.laplace([0.0], **arguments)


@pytest.mark.parametrize("draw", [draw_laplace, draw_gaussian])
def test_values_that_are_not_finite_read_zero(draw: Callable[[list[float]], FloatArray]) -> None:
    noisy = draw([math.nan, math.inf, -math.inf, 100.0])
    assert np.isfinite(noisy).all()
    assert np.abs(noisy - [0.0, 0.0, 0.0, 100.0]).max() < 60.0


@pytest.mark.parametrize("draw", [draw_laplace, draw_gaussian])
def test_shapes_and_extremes(draw: Callable[[list[float]], FloatArray]) -> None:
    assert draw([]).shape == (0,)
    largest = sys.float_info.max
    assert draw([largest, -largest, 5e-324]).dtype == np.float64
    assert np.isfinite(draw([largest, -largest] * 20)).all()


def test_opendp_does_not_check_its_domain() -> None:
    for construct in constructors():
        released = construct(1.0)([math.nan, math.inf])
        assert math.isfinite(released[0])
        assert released[1] > 1e300


def test_opendp_releases_the_exact_value_at_scale_zero_and_says_so_in_its_map() -> None:
    for construct in constructors():
        measurement = construct(0.0)
        assert measurement.map(1.0) == math.inf
        assert measurement([1.5]) == [1.5]


def test_opendp_rounds_losses_upwards() -> None:
    make_laplace, make_gaussian = constructors()
    for scale in (0.3, 1.0, 1 / 0.7, 3.0, 1e-3):
        loss = 1 / Fraction(scale)
        assert loss <= Fraction(make_laplace(scale).map(1.0)) <= loss * (1 + Fraction(1, 2**50))
        loss = loss**2 / 2
        assert loss <= Fraction(make_gaussian(scale).map(1.0)) <= loss * (1 + Fraction(1, 2**50))
    assert make_laplace(1.0).map(0.0) == 0.0


def test_opendp_has_no_coarse_grid_by_default() -> None:
    for construct in constructors():
        released = construct(1.0)([0.0] * 200)
        assert max(Fraction(value).denominator.bit_length() for value in released) > 50
