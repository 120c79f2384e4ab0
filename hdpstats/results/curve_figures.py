"""The figures of survival curves, as methods."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from hdpstats.results import survival_plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdpstats.results.survival_curves import SurvivalCurves


class CurveFigures:
    """Survival curves that are drawn."""

    __slots__ = ()

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        join: str = "steps",
        ci: bool = True,
        at_risk: bool = True,
        median: bool = True,
        p: bool = True,
        public: bool = False,
        labels: Sequence[str] | None = None,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw the probability that nothing has happened, by group, with pointwise 95 % bands (sampling and noise).

        Parameters
        ----------
        ax
            Where to draw; by default a new figure.
        join
            ``"steps"``: private survival is held from one end of an interval to the next. ``"smooth"``: a monotone line
            through the ends, with limits at them. What is between the ends is no estimate in either.
        ci
            Whether limits are drawn.
        at_risk
            Whether numbers at risk stand below the axis; those of private people are noisy.
        median
            Whether medians that are reached are marked. Those of private people, as `median` has them, take the
            logarithm of survival as linear between ends: they lie before the step that crosses one half.
        p
            Whether the log-rank test's p-value is shown, where groups are compared.
        public
            Whether the curves of public rows stand beside private ones, dashed.
        labels
            Texts for the groups.
        time_unit
            "days", "weeks", "months" or "years"; by default the longest of which the axis has two.
        """
        curves = cast("SurvivalCurves", self)
        return survival_plots.plot_curves(
            curves, join=join, ci=ci, at_risk=at_risk, median=median, p=p, public=public, labels=labels,
            time_unit=time_unit, ax=ax,
        )  # fmt: skip

    def plot_incidence(
        self,
        ax: "Axes | None" = None,
        *,
        causes: str | Sequence[str] | None = None,
        ci: bool = True,
        at_risk: bool = True,
        labels: Sequence[str] | None = None,
        time_unit: str | None = None,
    ) -> "Axes":
        """Draw the cumulative incidence of causes, by default all of them; see `plot`.

        Groups have colours and causes kinds of lines; in one group causes have colours.
        """
        curves = cast("SurvivalCurves", self)
        return survival_plots.plot_incidence(
            curves, causes=causes, ci=ci, at_risk=at_risk, labels=labels, time_unit=time_unit, ax=ax
        )
