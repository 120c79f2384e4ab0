"""Nothing about one private person's cells changes what anybody sees of a fit but noisy numbers, whatever the loss."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.support import replaced_together, without_numbers

pytestmark = pytest.mark.usefixtures("no_noise", "any_errors")
# Releases are without noise: what is seen of them differs by the rows alone, and no comparison by chance.

SCHEMA = hdp.Schema(
    y=hdp.Continuous(-2, 7, complete=True),
    k=hdp.Continuous(0, 9, complete=True),
    c=hdp.Categorical(["a", "b", "c"], complete=True),
    time=hdp.Duration(100, complete=True),
    event=hdp.Binary(complete=True),
    x=hdp.Continuous(-1, 1, complete=True),
)
HUBER, TIMES = hdp.losses.Huber(1.0), hdp.losses.Exponential()
OWN = hdp.losses.Loss(
    value=lambda eta, y: np.logaddexp(eta - y, y - eta),
    score=lambda eta, y: np.tanh(eta - y),
    lipschitz=1.0,
    smoothness=1.0,
    residual=(-5.0, 5.0),
)
MODELS = {
    "linear": (lambda data: hdpf.linear("y ~ x", data), ["y"]),
    "huber": (lambda data: hdpf.linear("y ~ x", data, loss=HUBER), ["y", "x"]),
    "quantile": (lambda data: hdpf.quantile("y ~ x", data, q=0.3), ["y"]),
    "poisson": (lambda data: hdpf.mestimate("k ~ x", data, loss=hdp.losses.Poisson()), ["k"]),
    "exponential": (lambda data: hdpf.mestimate("Surv(time, event) ~ x", data, loss=TIMES), ["time", "event"]),
    "multinomial": (lambda data: hdpf.mestimate("c ~ x", data, loss=hdp.losses.Multinomial()), ["c"]),
    "own": (lambda data: hdpf.mestimate("y ~ x", data, loss=OWN), ["y"]),
}


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return pd.DataFrame(
        {
            "y": (2 + x + rng.normal(size=n)).clip(-2, 7),
            "k": rng.poisson(2.0, n).clip(0, 9).astype(float),
            "c": rng.choice(list("abc"), n),
            "time": rng.uniform(0, 100, n),
            "event": rng.integers(0, 2, n).astype(float),
            "x": x,
        }
    )


def seen(make: object, private: pd.DataFrame) -> dict[str, object]:
    study = hdp.Study(private=private, public=rows(60, 1), schema=SCHEMA, budget=hdp.Budget(epsilon=5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = make(study).fit(1.0)
    release = {key: value for key, value in result.release.to_dict().items() if key not in ("theta", "hessian")}
    facts = dataclasses.asdict(result.facts)
    facts["row_weights"] = facts["row_weights"] and sorted(facts["row_weights"])  # its numbers are of a release
    return {
        "facts": facts,
        "query": result.query.to_json(),
        "release": release,
        "finite": bool(np.isfinite(result.params).all() and np.isfinite(result.bse).all()),
        "summary": without_numbers(str(result.summary())).replace("# to # of", "# of").replace("# <#", "# #"),
    }


@pytest.mark.covering(cases=4)
@pytest.mark.parametrize("name", list(MODELS))
def test_hostile_cells_change_nothing_that_is_seen(name: str) -> None:
    make, columns = MODELS[name]
    private = rows(97, 0)
    usual = seen(make, private)
    assert usual["finite"]
    for cells in (
        ("nan", "inf", "minus inf", "1e308", "None"),
        ("beyond float", "complex", "lone surrogate", "list", "evil"),
    ):
        assert seen(make, replaced_together(private, columns, cells)) == usual, cells


def test_at_once_and_beyond_the_horizon_are_times_like_others() -> None:
    make, _ = MODELS["exponential"]
    private = rows(97, 0)
    usual = seen(make, private)
    for time, event in ((0.0, 1.0), (-0.0, 0.0), (100.0, 1.0), (1e9, 1.0), (5e-324, 1.0)):
        one = private.copy()
        one.loc[7, ["time", "event"]] = time, event
        assert seen(make, one) == usual
