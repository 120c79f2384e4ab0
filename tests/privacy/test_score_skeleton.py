"""Whatever a record holds, a fit with a public Hessian shows the same but for the noisy numbers."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest

import hdpstats.api as hdp
from hdpstats.audit import observe
from tests import seeded
from tests.support import RECORDS, TOGETHER, fitted, people, replaced_together, without_numbers

COLUMNS = ["y", "x", "k", "g"]
PRIVATE, PUBLIC = people(RECORDS), people(80, seed=1)


def look(private):
    """Fit and return all that can be seen; the coefficients that later rounds are asked at are released numbers."""
    mechanism = hdp.mechanisms.PublicHessian(rounds=2)
    study, _, result = fitted(private, PUBLIC, mechanism=mechanism, epsilon=3.0)
    return {
        "asked": [dataclasses.replace(each, theta=(0.0,) * 5).to_json() for each in result.query.rounds],
        "answered": [each.to_dict() for each in result.release.rounds],
        "facts": dataclasses.asdict(result.facts),
        "estimates": [
            (part.label, part.params, part.bse, part.conf_int(0.1)) for part in (result.private_only, result.pooled)
        ],
        "tables": [result.tidy(), result.glance(), result.sites],
        "guarantee": result.guarantee.statement(),
        "ledger": without_numbers(str(study.ledger)),
    }


@seeded.remembered
def ordinary():
    seen = observe(functools.partial(look, PRIVATE))
    assert seen.exception is None
    return seen


@pytest.mark.parametrize("corners", TOGETHER)
def test_rows_change_nothing_that_is_seen(corners):
    neighbour = replaced_together(PRIVATE, COLUMNS, corners)
    assert observe(functools.partial(look, neighbour)) == ordinary()


@pytest.mark.parametrize(
    "frame",
    [
        PRIVATE.assign(y=1.0),
        PRIVATE.assign(y=np.nan, x=np.inf),
        PRIVATE.assign(k=1e300, x=-1e300),
        pd.DataFrame({name: ["?"] * RECORDS for name in PRIVATE}),
    ],
    ids=["one outcome", "nothing", "far", "no numbers"],
)
def test_hostile_tables_change_nothing_that_is_seen(frame):
    assert observe(functools.partial(look, frame)) == ordinary()
