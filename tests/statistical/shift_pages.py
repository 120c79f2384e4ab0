"""Tables of the studies of shifted covariates, and what their coverage is held against."""

import fcntl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import hdpstats.api as hdp
from tests.statistical.monte_carlo import OF_THE_MODEL, mean_ratio, ratios, share_error
from tests.statistical.shift_studies import ESTIMATES, READINGS, Fits, Line

HEAD = [
    "# Private people who differ from the public ones, measured",
    "",
    "Written by `make validate`. [How it works](../explanation/raked-rows.md).",
    "",
    "Each data set is fitted twice by the public interface. *Declined*: `fit(describe=False)`. *Described*: the fit "
    "asks for averages of its covariates from its own epsilon. *Oracle*: the release of the described fit is read a "
    "second time, with the private rows themselves (no fit may know them) in place of the raked public ones: where "
    "intervals miss there too, the shift is not the reason. Coverage of 95 % intervals, mean over coefficients, the "
    "lowest, and each; *error*: the root mean squared error over that of the declined fits to the same data sets, mean "
    "over coefficients; *width*: the median length of intervals over that of the oracle's, median over coefficients. "
    "In brackets: Monte-Carlo standard errors.",
    "",
    OF_THE_MODEL,
    "",
]


def put(page: Path, sections: Sequence[str], title: str, lines: Sequence[str]) -> None:
    """Write one section of a page, in the order of the titles of all; other sections stay as they are.

    Several studies of a page may run at the same time.
    """
    with page.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        old = (each.split("\n", 1) for each in file.read().split("\n## ")[1:])
        kept = {each: text.strip("\n") for each, text in old} | {title: "\n".join(lines).strip("\n")}
        file.truncate(0)
        file.write("\n".join([*HEAD, *(f"## {each}\n\n{kept[each]}\n" for each in sections if each in kept)]))


def row(*cells: str) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(cells) + " |"


def lines_of(
    found: Mapping[Line, Fits],
    *,
    repeats: int,
    error_of: tuple[str, int] | None = None,
) -> list[str]:
    """Return the table of a study; ``error_of`` names a coefficient whose error is shown by itself."""
    own = () if error_of is None else (f"error of {error_of[0]}",)
    head = ("epsilon", "estimate", "fit", "mean", "lowest", "each coefficient", "error", *own, "width")
    one = share_error(0.95, repeats)
    lines = [
        f"hdpstats {hdp.__version__}, {datetime.now(UTC):%Y-%m-%d}: {repeats:,} data sets; a coverage of 0.95 has a "
        f"Monte-Carlo standard error of {one:.3f}.",
        "",
    ]
    lines += [row(*head), row(*["---"] * len(head))]
    for epsilon in dict.fromkeys(key[0] for key in found):
        for estimate in ESTIMATES:
            for reading in READINGS:
                fits, declined = found[epsilon, estimate, reading], found[epsilon, estimate, "declined"]
                covered = fits.coverage
                mean_error = fits.covered.mean(axis=1).std() / np.sqrt(repeats)
                ratio, error = ratios(fits.errors, declined.errors)
                whole, whole_error = mean_ratio(fits.errors, declined.errors)
                known = found[epsilon, estimate, "oracle"]
                width = np.median(np.median(fits.widths, axis=0) / np.median(known.widths, axis=0))
                cells = [f"{epsilon:g}", estimate, reading, f"{covered.mean():.3f} ({mean_error:.3f})"]
                cells += [f"{covered.min():.3f}", " ".join(f"{share:.3f}" for share in covered)]
                cells.append(f"{whole:.2f} ({whole_error:.2f})")
                if error_of is not None:
                    cells.append(f"{ratio[error_of[1]]:.2f} ({error[error_of[1]]:.2f})")
                lines.append(row(*cells, f"{width:.2f}"))
    return [*lines, ""]


def covers(
    fits: Fits,
    *,
    least_mean: float | None = None,
    least: float | None = None,
    most_mean: float | None = None,
    which: Sequence[int] | None = None,
) -> bool:
    """Return whether coverage is within three Monte-Carlo errors of limits, of all coefficients or some."""
    covered = fits.covered if which is None else fits.covered[:, which]
    repeats, shares = len(covered), covered.mean(axis=0)
    found, room = [True], 3 * covered.mean(axis=1).std() / np.sqrt(repeats)
    if least_mean is not None:
        found.append(shares.mean() >= least_mean - room)
    if most_mean is not None:
        found.append(shares.mean() <= most_mean + room)
    if least is not None:
        found.append(shares.min() >= least - 3 * share_error(least, repeats))
    return bool(all(found))
