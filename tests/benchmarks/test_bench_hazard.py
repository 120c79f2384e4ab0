"""Where the kernels of a hazard fit change places."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.spells import drawn
from benchmarks.workers.hdpstats_hazard import prepare
from hdpstats.families.hazard.likelihood import Likelihood, fit_hazard
from hdpstats.losses import LINKS
from tests.unit.solvers.hazards import use


@pytest.mark.parametrize("method", ["direct", "tabulated"])
@pytest.mark.parametrize(
    "shape", [(1_000, 20), (1_000, 200), (10_000, 50), (10_000, 200), (10_000, 2000), (100_000, 200)]
)
def test_a_pass(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], method: str
) -> None:
    use(monkeypatch, method)
    likelihood = Likelihood(prepare(drawn(*shape)), LINKS["logit"])
    first, second = (np.concatenate([[level, 0.0, 0.0], np.linspace(-2.5, 2.5, 10)]) for level in (-5.5, -5.4))

    def passes() -> None:
        likelihood.at(first)
        likelihood.at(second)

    passes()
    benchmark(passes)


@pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
@pytest.mark.parametrize("shape", [(1_000, 20), (10_000, 200), (100_000, 200)])
def test_a_fit(benchmark: BenchmarkFixture, shape: tuple[int, int], link: str) -> None:
    data = prepare(drawn(*shape))
    assert fit_hazard(data, link).converged
    benchmark(fit_hazard, data, link)
