"""Where the kernels of a hazard fit change places."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.spells import drawn
from benchmarks.workers.hdpstats_hazard import prepare
from hdpstats.losses import LINKS
from hdpstats.solvers.hazard import fit_hazard
from hdpstats.solvers.hazard.likelihood import Likelihood


@pytest.mark.parametrize("kernel", ["numpy", "direct", "tabulated"])
@pytest.mark.parametrize(
    "shape", [(1_000, 20), (1_000, 200), (10_000, 50), (10_000, 200), (10_000, 2000), (100_000, 200)]
)
def test_a_pass(
    benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], kernel: str
) -> None:
    cells = 10**12 if kernel == "numpy" else 0
    monkeypatch.setattr("hdpstats.solvers.hazard.likelihood.COMPILED_CELLS", cells)
    method = "tabulated" if kernel == "tabulated" else "direct"
    likelihood = Likelihood(prepare(drawn(*shape)), LINKS["logit"], method=method)
    a, eta = likelihood.predictors(np.concatenate([[-5.5, 0.0, 0.0], np.linspace(-2.5, 2.5, 10)]))
    likelihood.derivatives(a, eta)
    benchmark(likelihood.derivatives, a, eta)


@pytest.mark.parametrize("link", ["logit", "cloglog", "probit"])
@pytest.mark.parametrize("shape", [(1_000, 20), (10_000, 200), (100_000, 200)])
def test_a_fit(benchmark: BenchmarkFixture, shape: tuple[int, int], link: str) -> None:
    data = prepare(drawn(*shape))
    assert fit_hazard(data, link).converged
    benchmark(fit_hazard, data, link)
