"""A plan: what standard errors each epsilon would buy, before anything is spent."""

import html
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from hdpstats.inference.prediction import PredictedErrors


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """Predicted standard errors per coefficient and epsilon. Nothing was spent and no private row was read.

    Attributes
    ----------
    frame : DataFrame
        Columns ``epsilon, term, std_error`` (of what a fit would report), ``sampling, privacy`` (the private
        rows' two parts: ``private_only**2 = sampling**2 + privacy**2``), ``private_only``, ``public_only`` (NaN
        without public outcomes), ``reported`` (whether a fit would report standard errors).
    records : int
        The number of private records planned for.
    assumption : str
        What the prediction rests on.
    """

    frame: pd.DataFrame
    records: int
    assumption: str

    @property
    def table(self) -> pd.DataFrame:
        """Predicted standard errors, a row per coefficient and a column per epsilon; public rows alone come first."""
        wide = self.frame.set_index(["term", "epsilon"])["std_error"].unstack()  # noqa: PD010
        wide = wide.loc[self.frame["term"].drop_duplicates()]
        wide.columns = pd.Index([f"epsilon={value:.3g}" for value in wide.columns])
        if self.frame["public_only"].notna().any():
            wide.insert(0, "public only", self.frame.drop_duplicates("term").set_index("term")["public_only"])
        wide.index.name = None
        return wide

    @property
    def verdicts(self) -> dict[float, str]:
        """What the private rows add at each epsilon, in words."""
        epsilons = self.frame["epsilon"]
        return {value: _verdict(self.frame[epsilons == value]) for value in sorted(set(epsilons.tolist()))}

    def __str__(self) -> str:
        lines = [f"Predicted standard errors, {self.records} private records (nothing is spent)", ""]
        lines += [self.table.to_string(float_format=lambda value: f"{value:.4f}"), ""]
        lines += [f"epsilon = {epsilon:.3g}: {verdict}" for epsilon, verdict in self.verdicts.items()]
        return "\n".join([*lines, self.assumption])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        verdicts = "".join(
            f"<li>epsilon = {epsilon:.3g}: {html.escape(verdict)}</li>" for epsilon, verdict in self.verdicts.items()
        )
        return (
            f"<p>Predicted standard errors, {self.records} private records (nothing is spent)</p>"
            f"{self.table.to_html(float_format=lambda value: f'{value:.4f}')}<ul>{verdicts}</ul>"
            f"<p>{html.escape(self.assumption)}</p>"
        )


def plan_rows(
    epsilon: float, terms: tuple[str, ...], errors: PredictedErrors, *, reported: bool
) -> pd.DataFrame:
    """Return the plan's rows for one epsilon."""
    public = errors.public if errors.public is not None else np.full(len(terms), np.nan)
    return pd.DataFrame(
        {
            "epsilon": epsilon,
            "term": terms,
            "std_error": errors.reported,
            "sampling": errors.sampling,
            "privacy": errors.privacy,
            "private_only": np.hypot(errors.sampling, errors.privacy),
            "public_only": public,
            "reported": reported,
        }
    )


def _verdict(part: pd.DataFrame) -> str:
    noise = float(np.median(part["privacy"] ** 2 / part["private_only"] ** 2))
    words = f"privacy noise is {noise:.0%} of the private estimate's variance"
    if not part["reported"].all():
        return f"{words}; a fit would report no standard errors: their price, a noisy Hessian, is not paid or drowns"
    if part["public_only"].isna().all():
        return words
    gain = 1.0 - float(np.median(part["std_error"] / part["public_only"]))
    if bool((part["private_only"] > part["public_only"]).all()):
        return f"the private records add next to nothing (standard errors {gain:.0%} smaller than public only); {words}"
    return f"standard errors about {gain:.0%} smaller than from the public rows alone; {words}"
