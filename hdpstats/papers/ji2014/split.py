"""Records split into public people, sites and a test set, standardised and truncated as the paper does. NOT private."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from hdpstats._base.errors import ArgumentError
from hdpstats._base.typing import IntArray
from hdpstats._base.validation import choice, integer, real
from hdpstats.inference.draws import generator
from hdpstats.papers.trials import LARGEST_SEED
from hdpstats.papers.wang.hospitals import Hospital
from hdpstats.schema.datasets import SIZE_LEVELS, load_gbsg, load_rotterdam

MOST_SITES: Final = 1000


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Split:
    """Public people, the sites' people and people to test on, all in the columns of ``names``, a constant first.

    ``norm`` is ``M``: the largest norm that a row can have.
    """

    public: Hospital
    sites: tuple[Hospital, ...]
    test: Hospital
    names: tuple[str, ...]
    norm: float

    @property
    def private(self) -> Hospital:
        """The people of all sites."""
        return Hospital(
            X=np.concatenate([site.X for site in self.sites]), y=np.concatenate([site.y for site in self.sites])
        )

    @property
    def train(self) -> Hospital:
        """All people but the test set."""
        private = self.private
        return Hospital(X=np.concatenate([self.public.X, private.X]), y=np.concatenate([self.public.y, private.y]))


def random_split(
    frame: pd.DataFrame,
    outcome: str,
    *,
    seed: int,
    sites: int = 3,
    public: float = 0.02,
    train: float = 0.6,
    truncation: float = 2.0,
) -> Split:
    """Return a random split as in the paper's experiments.

    Columns are standardised by the means and standard deviations of the public rows, and cut to ``truncation``; those
    that do not vary among public rows are left out.

    Parameters
    ----------
    frame
        Numeric columns without missing values.
    outcome
        The column of 0 and 1.
    seed
        Of the split.
    sites
        Between how many sites the private rows are divided, evenly.
    public, train
        The public part of the training set, and the training part of all rows.
    truncation
        ``M`` is ``sqrt(1 + p truncation^2)``.

    Examples
    --------
    >>> split = random_split(breast_cancer(), "event3", seed=1, sites=4, public=0.1)
    >>> len(split.sites), split.public.records + split.private.records + split.test.records
    (4, 2950)
    """
    count = integer(sites, name="sites", lower=1, upper=MOST_SITES)
    share, whole = (real(value, name="public", lower=0.0, upper=1.0, open_lower=True) for value in (public, train))
    rng = generator(f"{integer(seed, name='seed', lower=0, upper=LARGEST_SEED):064x}")
    order = rng.permutation(len(frame))
    trained = round(whole * len(frame))
    shown = round(share * trained)
    if min(shown, trained - shown, len(frame) - trained) < count:
        raise ArgumentError("public rows, each site and the test set need rows of their own", argument="frame")
    names = [name for name in frame.columns if name != outcome]
    X, y = frame[names].to_numpy(dtype=np.float64), frame[outcome].to_numpy(dtype=np.float64)
    of_public = X[order[:shown]]
    scale = of_public.std(axis=0)
    varies = scale > 0
    z = (X[:, varies] - of_public[:, varies].mean(axis=0)) / scale[varies]
    rows = np.column_stack([np.ones(len(z)), np.clip(z, -truncation, truncation)])

    def hospital(which: IntArray) -> Hospital:
        return Hospital(X=rows[which], y=y[which])

    return Split(
        public=hospital(order[:shown]),
        sites=tuple(hospital(part) for part in np.array_split(order[shown:trained], count)),
        test=hospital(order[trained:]),
        names=tuple(name for name, kept in zip(names, varies, strict=True) if kept),
        norm=float(np.sqrt(1.0 + varies.sum() * truncation**2)),
    )


def breast_cancer(study: str = "rotterdam") -> pd.DataFrame:
    """Return numeric columns of patients of a study: the paper's first data set is German breast cancer, gbsg.

    The outcome is ``event3``, relapse or death within three years; those censored before are left out.
    """
    chosen = choice(study, name="study", options=("gbsg", "rotterdam"))
    frame = load_gbsg() if chosen == "gbsg" else load_rotterdam()
    kept = frame[frame["event3"].notna()]
    columns = {
        "age": kept["age"],
        "meno": kept["meno"],
        **{f"size {level}": (kept["size"] == level) * 1.0 for level in SIZE_LEVELS[1:]},
        "grade3": kept["grade3"],
        "nodes": np.log1p(kept["nodes"]),
        "pgr": np.log1p(kept["pgr"]),
        "er": np.log1p(kept["er"]),
        "hormon": kept["hormon"],
        "event3": kept["event3"],
    }
    return pd.DataFrame(columns).astype(np.float64).reset_index(drop=True)
