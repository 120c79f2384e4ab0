"""What losses say of public rows that were moved to a description of private people."""

import numpy as np
import pytest

from hdpstats.losses import BoundedSquares, PoissonLoss
from hdpstats.losses.located import HuberLoss, SmoothedQuantile

ETA = np.array([[0.1, 0.4, -0.2], [0.6, 0.0, 0.3]])
OWN, Y = np.array([0.0, 0.2, 0.1]), np.array([0.3, 0.1, -0.4])


@pytest.mark.parametrize(
    "loss",
    [
        BoundedSquares(lower=-1.0, upper=1.0),
        HuberLoss(lower=-1.0, upper=1.0, c=0.25),
        SmoothedQuantile(lower=-1.0, upper=1.0, q=0.5, h=0.2),
    ],
)
def test_rows_keep_their_residuals(loss):
    curvature, square = loss.over(ETA, own=OWN, y=Y)
    assert curvature.shape == square.shape == ETA.shape
    for row, again in zip(curvature, square, strict=True):
        assert row == pytest.approx(loss.curvature(OWN, Y))
        assert again == pytest.approx(loss.score(OWN, Y) ** 2)


def test_counts_have_the_variance_of_their_new_mean_times_the_public_dispersion():
    loss, means = PoissonLoss(upper=50.0, cap=50.0), np.array([4.0, 9.0])
    own, y = np.log(means), means + np.sqrt(3.0 * means)
    curvature, square = loss.over(np.log([[2.0, 5.0]]), own=own, y=y)
    assert curvature == pytest.approx(np.array([[2.0, 5.0]]))
    assert square == pytest.approx(3.0 * curvature)


@pytest.mark.parametrize("loss", [PoissonLoss(upper=9.0, cap=9.0), BoundedSquares(lower=-1.0, upper=1.0)])
def test_without_public_outcomes_a_model_says_it(loss):
    for found, typical in zip(loss.over(ETA[0], own=OWN, y=None), loss.typical(ETA[0]), strict=True):
        assert found == pytest.approx(typical)
