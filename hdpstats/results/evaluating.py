"""From a noisy table to what an `Evaluation` shows."""

from functools import partial

import numpy as np
import pandas as pd

from hdpstats._base.typing import FloatArray
from hdpstats.mechanisms.evaluation.estimate import (
    NoisyTable,
    brier,
    concordance,
    incidence,
    measure,
    monotone,
    observed_over_expected,
)
from hdpstats.mechanisms.evaluation.query import EvaluationQuery, EvaluationRelease
from hdpstats.privacy.guarantee import Guarantee
from hdpstats.results.checking import SHOWN, spread_out
from hdpstats.results.evaluation import Evaluation
from hdpstats.results.facts import ModelFacts

KNOWN = 0.5
"""Scores of a time are shown where this share of the risk groups stands clear of its noise up to it."""


def read_table(
    query: EvaluationQuery,
    release: EvaluationRelease,
    *,
    facts: ModelFacts,
    causes: tuple[str, ...],
    cause: int,
    in_sample: bool,
    predicted: FloatArray,
    guarantee: Guarantee,
) -> Evaluation:
    """Return the statistics of a release: post-processing of released and public numbers.

    Parameters
    ----------
    query, release, guarantee
        What was asked, what the site answered, what it promises.
    facts, causes, cause
        The model, the names of its causes (or its outcome), and the place of the one that is evaluated.
    in_sample
        Whether the model was fitted to private records.
    predicted
        Mean predicted incidence in each group at the end of each bin (G, B).
    """
    noisy, times = NoisyTable.of(query, release), times_of(query)
    order = measure(noisy, partial(concordance, cause=cause))
    return Evaluation(
        facts=facts,
        cause=causes[cause],
        in_sample=in_sample,
        concordance=float(order.value),
        concordance_error=float(order.std_error),
        scores=_scores(noisy, predicted, times, cause),
        groups=_calibration(noisy, predicted, times, cause),
        table=_table(query, release, causes, times),
        query=query,
        release=release,
        guarantee=guarantee,
    )


def times_of(query: EvaluationQuery) -> FloatArray | None:
    """Return where bins of time end (B,), or None for a binary outcome."""
    return None if query.grid is None else np.array(query.grid.cuts)[np.array(query.ends) - 1]


def _scores(noisy: NoisyTable, predicted: FloatArray, times: FloatArray | None, k: int) -> pd.DataFrame:
    cells = noisy.cells
    known = noisy.tells.mean(axis=0) >= KNOWN
    score = measure(noisy, partial(brier, predicted=predicted, cause=k))
    one = np.broadcast_to(monotone(incidence(cells.pooled, k)), predicted.shape)
    ratio = measure(noisy, partial(observed_over_expected, predicted=predicted, cause=k))
    columns = {
        "brier": score.value,
        "std_error": score.std_error,
        "reference": brier(cells, one, k),
        "ratio": ratio.value,
        "ratio_error": ratio.std_error,
    }
    frame = pd.DataFrame({name: np.where(known, values, np.nan) for name, values in columns.items()})
    if times is not None:
        frame.insert(0, "time", times)
    return frame


def _calibration(noisy: NoisyTable, predicted: FloatArray, times: FloatArray | None, k: int) -> pd.DataFrame:
    found, tells, size = measure(noisy, partial(incidence, cause=k)), noisy.tells, noisy.cells.size
    observed = np.where(tells, monotone(found.value), np.nan)
    error = np.where(tells, found.std_error, np.nan)
    groups = np.arange(1, len(predicted) + 1)
    parts = []
    for place in spread_out(predicted.shape[1], SHOWN).tolist():
        part = pd.DataFrame(
            {
                "group": groups,
                "rows": np.rint(size).astype(np.int64),
                "predicted": predicted[:, place],
                "observed": observed[:, place],
                "std_error": error[:, place],
            }
        )
        if times is not None:
            part.insert(0, "time", times[place])
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _table(
    query: EvaluationQuery, release: EvaluationRelease, causes: tuple[str, ...], times: FloatArray | None
) -> pd.DataFrame:
    """Return the noisy counts with what they count."""
    if times is None:
        names: list[tuple[object, ...]] = [("0",), ("1",)]
        columns = ["outcome"]
    else:
        after, until = [0.0, *times.tolist()], [*times.tolist(), float(times[-1])]
        events = [(cause, a, b) for cause in causes for a, b in zip(after, times.tolist(), strict=False)]
        left = [("censored" if a < b else "horizon", a, b) for a, b in zip(after, until, strict=True)]
        names, columns = [*events, *left], ["outcome", "after", "until"]
    rows = [(group, *name) for group in range(1, query.groups + 1) for name in names]
    return pd.DataFrame(rows, columns=["group", *columns]).assign(count=list(release.counts))
