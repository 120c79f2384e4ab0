r"""Public people with every outcome that each of them might have.

A noisy sum of clipped scores estimates ``n E{g(X, Y)}`` over private people. What that is at coefficients ``theta`` can
be computed from public covariates without public outcomes: for each public person all outcomes are listed, with their
probabilities under the model. Clipped scores have no mean of zero, and need none: the expectation is taken of the same
clipped scores, so that solving "sum = expectation" for ``theta`` is consistent whatever the clip.

Which outcomes there are: `hdpstats.public.regression_outcomes` and `hdpstats.public.survival_outcomes`; of raked people
`hdpstats.mechanisms.clipped_newton.expectations`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from hdpstats._base.typing import FloatArray

NUMBERS = 2_000_000
"""Numbers that an array over people, outcomes and coefficients may hold at a time."""


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomeDistribution:
    """Outcomes (b, K) of a block of people: ``probability``, and the ``score`` (b, K, D) of its logarithm."""

    probability: FloatArray
    score: FloatArray


class Outcomes(ABC):
    """Public people with all their outcomes.

    Attributes
    ----------
    people, size, dimension : int
        How many people, outcomes of each, and coefficients there are.
    whole : int
        How many people there are with those who contribute nothing, whatever happens to them.
    share : (people,) float64 or None
        The weights of the people, where they are raked; None where everybody counts alike.
    """

    share: FloatArray | None

    @property
    @abstractmethod
    def people(self) -> int:
        """The number of people."""

    @property
    @abstractmethod
    def whole(self) -> int:
        """The number of people with those who contribute nothing."""

    @property
    @abstractmethod
    def size(self) -> int:
        """``K``: outcomes of each person."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @abstractmethod
    def gradients(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the gradient of a person's weighted loss at ``theta`` under each outcome (b, K, D).

        What `hdpstats.mechanisms.person_loss.base.People.scores` returns for a private person with that record.
        """

    @abstractmethod
    def distribution(self, theta: FloatArray, people: slice) -> OutcomeDistribution:
        """Return the probabilities of the outcomes under ``theta``."""

    def chances_of(self, theta: FloatArray, people: slice) -> FloatArray:
        """Return the probabilities (b, K) of the outcomes under ``theta``, without their scores."""
        return self.distribution(theta, people).probability

    def shortened(self, theta: FloatArray, chances: FloatArray, people: slice, *, clip: float) -> FloatArray:
        """Return the mean (b, D), by probabilities (b, K), of gradients at ``theta`` none longer than ``clip``."""
        gradients = self.gradients(theta, people)
        length = np.linalg.norm(gradients, axis=2)
        return np.asarray(np.einsum("bk,bkd->bd", chances * (clip / np.maximum(length, clip)), gradients))

    def at(self, theta: FloatArray) -> "Outcomes":  # noqa: ARG002
        """Return the outcomes that people might have under coefficients: the same ones, but for those on a line."""
        return self

    def coarse(self) -> "Outcomes":
        """Return the people with fewer outcomes each, where these are numbers: enough to tell sets of people apart."""
        return self

    @property
    def counted(self) -> FloatArray:
        """The share of each person in expectations (people,)."""
        return np.full(self.people, 1.0 / self.whole) if self.share is None else self.share

    def blocks(self) -> Iterator[slice]:
        """Yield slices of people."""
        step = max(1, NUMBERS // (self.size * self.dimension))
        for start in range(0, self.people, step):
            yield slice(start, min(start + step, self.people))
