"""A small study with hostile cells, and everything that a caller can see of a fit to it."""

import dataclasses
import datetime
import math
import re
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.inference import other_correlations, sandwich
from hdpstats.mechanisms.clipped_newton import expectations as raked
from hdpstats.raking import information as raked_information
from hdpstats.raking import posterior
from hdpstats.records import estimate
from hdpstats.results import disagreement

RECORDS = 397
"""Number of private records: a prime, so that nothing else has this length."""

PUBLIC_ROWS = 53
FORMULA = "y ~ x + log1p(k) + g"
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    k=hdp.Continuous(0, 40, missing=1),
    g=hdp.Categorical(["a", "b", "c"], other="c", complete=True),
    w=hdp.Weight(max=2, complete=True),
    o=hdp.Offset(-1, 1, complete=True),
)


def people(rows, seed=0):
    """Return a frame of ordinary rows that obey the schema."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).clip(-3, 3)
    return pd.DataFrame(
        {
            "y": (rng.random(rows) < 1 / (1 + np.exp(-x))).astype(float),
            "x": x,
            "k": rng.integers(0, 12, rows).astype(float),
            "g": rng.choice(["a", "b", "c"], rows),
            "w": rng.uniform(0, 2, rows),
            "o": rng.uniform(-1, 1, rows),
        }
    )


def study_of(private, public=None, *, schema=SCHEMA, epsilon=1000, **options):
    """Return a study with a ledger in memory."""
    return hdp.Study(private=private, public=public, schema=schema, budget=hdp.Budget(epsilon=epsilon), **options)


def fitted(private, public=None, *, formula=FORMULA, schema=SCHEMA, epsilon=1.0, **fit):
    """Return study, model and result of one fit."""
    study = study_of(private, public, schema=schema)
    columns = {name: fit.pop(name) for name in ("weights", "offset") if name in fit}
    model = hdpf.logit(formula, data=study, **columns)
    return study, model, model.fit(epsilon=epsilon, **{"se_share": 0} | fit)


def without_words_on_noise(monkeypatch):
    """Let no summary say what noise decides: what averages could not mend, what pooling takes, and who disagrees."""
    monkeypatch.setattr(disagreement, "LEVEL", 0.0)
    monkeypatch.setattr(estimate, "COUNTS", math.inf)
    monkeypatch.setattr(sandwich, "MOST", math.inf)
    monkeypatch.setattr(other_correlations, "MOST_COVARIATES", 0)
    for module in (raked_information, raked):
        monkeypatch.setattr(module, "notes_on", lambda *_, **__: (posterior.RAKED,))


class Evil:
    """A cell whose every method raises with a text that would give it away."""

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("a cell's method was called")

    __float__ = __int__ = __index__ = __complex__ = __str__ = __repr__ = __bool__ = __len__ = __iter__ = _refuse
    __eq__ = __ne__ = __lt__ = __gt__ = __hash__ = __array__ = __format__ = __getattr__ = _refuse


class EvilFloat(float):
    """A float whose conversions raise."""

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("a cell's method was called")

    __float__ = __int__ = __str__ = __repr__ = __eq__ = __lt__ = __gt__ = _refuse
    __hash__ = float.__hash__


CORNERS = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "1e308": 1e308,
    "minus 1e308": -1e308,
    "5e-324": 5e-324,
    "minus zero": -0.0,
    "zero": 0,
    "one": 1,
    "two": 2,
    "minus one": -1,
    "half": 0.5,
    "beyond int64": 2**64,
    "beyond float": 10**400,
    "below float": -(10**400),
    "True": True,
    "False": False,
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "float16": np.float16(1.5),
    "float32": np.float32(1.5),
    "longdouble": np.longdouble("1e4000"),
    "uint64": np.uint64(2**64 - 1),
    "complex": 1 + 2j,
    "complex without imaginary part": np.complex128(1),
    "Decimal": Decimal("1.5"),
    "signalling NaN": Decimal("sNaN"),
    "huge Decimal": Decimal("1e999999"),
    "Fraction": Fraction(10**400, 3),
    "empty text": "",
    "a level": "b",
    "unknown level": "ZZZ_unseen",
    "level with a blank": " a",
    "level with NUL": "a\0",
    "level from right to left": "\u202ea",
    "decomposed level": "a\u0301",
    "lone surrogate": "\ud800",
    "ten thousand letters": "x" * 10_000,
    "number in text": "3",
    "number with underscore": "1_0",
    "infinite text": "1e400",
    "nan in text": "nan",
    "NA in text": "NA",
    "injection": "'; DROP TABLE entries; --",
    "bytes": b"1",
    "undecodable bytes": b"\xff\xfe",
    "list": [1.0],
    "empty tuple": (),
    "mapping": {"a": 1},
    "array": np.array([1.0, 2.0]),
    "series": pd.Series([1.0]),
    "timestamp": pd.Timestamp("2020-01-01"),
    "far date": datetime.date(9999, 12, 31),
    "datetime64": np.datetime64("2020"),
    "timedelta": pd.Timedelta(days=1),
    "period": pd.Period("2020"),
    "interval": pd.Interval(0, 1),
    "type": float,
    "function": len,
    "evil": Evil(),
    "evil float": EvilFloat(1.0),
}
"""Cells that one person may turn out to have."""

ALIKE = [tuple(CORNERS)[start : start + 4] for start in range(0, len(CORNERS), 4)]
"""Names of such cells, four of nearly the same kind at a time: numbers, texts, collections, dates."""

TOGETHER = [tuple(CORNERS)[start::8] for start in range(8)]
"""Names of such cells, some at a time: where a fit takes long, as many people have one at once."""


def replaced_together(frame, columns, names):
    """Return a table whose last rows have the cells of these names in some columns, which become columns of objects."""
    return _replaced(frame, columns, {len(frame) - place: CORNERS[name] for place, name in enumerate(names, 1)})


def replaced(frame, columns, cell, *, row=7):
    """Return a neighbour: one row has ``cell`` in some columns, which become columns of objects."""
    return _replaced(frame, columns, {row: cell})


def _replaced(frame, columns, new):
    neighbour = frame.copy()
    for name in columns:
        cells = np.empty(len(frame), dtype=object)
        cells[:] = frame[name].tolist()
        for row, cell in new.items():
            cells[row] = cell
        neighbour[name] = pd.Series(cells, index=frame.index, dtype=object)
    return neighbour


_DIGITS = re.compile(r"head [0-9a-f]+|[-+]?\d[\d.]*(?:e[-+]?\d+)?%?")


def without_numbers(text):
    """Return a text without its numbers, whether p-values are at their floor, and the widths they give to columns."""
    text = re.sub("p (=|<|&lt;) #", "p #", re.sub("(&lt;|<)#", "#", _DIGITS.sub("#", text)))
    return re.sub(r"\s+|-{3,}|={3,}", " ", text)


HASHES = ("head", "account", "release_sha256")
"""Names of hashes: of releases, and of the opening of an account, which a random number is in."""


def _without_hashes(value):
    """Return plain data without the hashes of the release, which are as random as the release."""
    if isinstance(value, dict):
        return {key: _without_hashes(item) for key, item in value.items() if key not in HASHES}
    return [_without_hashes(item) for item in value] if isinstance(value, list) else value


def seen_of_result(result):
    """Return all that a result shows, as plain data whose floats are noisy and whose rest is public."""
    entry = result.ledger_entry
    public = result.public_only
    return {
        "facts": dataclasses.asdict(result.facts),
        "schema": repr(result.schema),
        "query": result.query.to_json(),
        "public only": None if public is None else repr(public.params.to_dict()) + repr(public.bse.to_dict()),
        "entry": (entry.dataset, entry.version, entry.number),
        "release": _without_hashes(result.release.to_dict()),
        "count": None if result.count is None else result.count.to_dict(),
        "guarantee": result.guarantee.statement(),
        "estimates": [
            (part.label, part.params, part.bse, part.tvalues, part.pvalues, part.conf_int(0.1), part.cov_params())
            for part in (result.estimate, result.private_only, result.pooled)
            if part is not None
        ],
        "tables": [result.tidy(), result.glance(), result.odds_ratios()],
        "disclosure": _without_hashes(result.disclosure()),
        "summary": without_numbers(str(result.summary())),
        "html": without_numbers(re.sub(r"<[^>]*>", " ", result._repr_html_())),
        "repr": repr(result),
    }


def seen_of_ledger(ledger):
    """Return all that a ledger shows but the minute and the head of the chain, which is the hash of releases."""
    history = ledger.history().drop(columns="at")
    return {
        "history": history.to_dict("list"),
        "account": str(ledger),
        "spent": (str(ledger.spent.epsilon), str(ledger.spent.delta)),
        "entries": ledger.verify().entries,
    }


@contextmanager
def coefficients_of_anybody():
    """Let what is weighted of private people have weights at coefficients of public rows, which is refused.

    What a site does at given coefficients does not depend on whose they are.
    """
    with ExitStack() as patches:
        modules = ("hdpstats.models.treatment_effect", "hdpstats.models.model", "hdpstats.describe.survival_curves")
        for module in modules:
            patches.enter_context(mock.patch(f"{module}.check_of_these_people"))
        yield
