"""Compiled code that private rows need from a number of rows on, loaded before anything is charged.

Below `SMALLEST_COMPILED` rows numpy does what compiled loops do (`hdpstats.solvers.kernels`). Where the number of rows
is private, code that cannot be loaded must not fail one number of rows and not another, nor may the first answer take
the seconds of compiling for one number only. So whoever answers loads it beforehand, whatever the number is: the loops
that a query of its kind may run (`hdpstats._base.compiled.Loops`), which public facts decide.
The same holds for numba's threads, which the host may lack. Rows in files go through compiled loops however few they
are, and code is loaded for them beforehand too, also on the workers of a cluster.
"""

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

from hdpstats._base.compiled import SMALLEST_COMPILED, Loops, several_threads
from hdpstats._base.errors import MechanismError
from hdpstats.families.regression.one_pass import without_covariates
from hdpstats.formulas.design import pieces, whiten_columns
from hdpstats.losses.logistic import logistic_residual
from hdpstats.mechanisms.description.one_pass import add_pairs, add_stored
from hdpstats.mechanisms.description.people import number_in_units, square_in_units
from hdpstats.mechanisms.score_sums import clipped
from hdpstats.schema.stored_columns import addresses_of, clip_numbers, mark_missing
from hdpstats.solvers.kernels import (
    add_caps,
    add_curvatures,
    add_scores,
    coefficient_parts,
    compensated,
    curvature_sum,
    grid_sum,
    logistic_sum,
    row_products,
    square_sums,
    to_ratios,
)


def load(kinds: Iterable[Loops] = Loops, *, in_files: bool = True) -> None:
    """Load loops over rows, or compile them, for arrays as private rows are kept in; each once per process.

    Parameters
    ----------
    kinds
        Which; all by default.
    in_files
        Also those for rows in files.

    Raises
    ------
    MechanismError
        They cannot be compiled, or what is kept of an earlier compilation is damaged.
    """
    wanted = set(kinds)
    loops = [_LOOPS[kind] for kind in Loops if kind in wanted]
    if in_files:
        loops += [_cells, *(_IN_FILES[kind] for kind in Loops if kind in wanted and kind in _IN_FILES)]
    for run in loops:
        _loaded(run)


@cache
def _loaded(run: Callable[[], None]) -> None:
    try:
        several_threads()
        run()
    except Exception as error:
        raise MechanismError(
            f"compiled code cannot be loaded ({type(error).__name__}), and nothing was charged; see that the disk is "
            "not full, delete the files *.nbi and *.nbc in folders __pycache__ of hdpstats (or in NUMBA_CACHE_DIR), "
            "and unset NUMBA_DISABLE_JIT and NUMBA_THREADING_LAYER"
        ) from error


def _regressions() -> None:
    """Run the loops over whitened rows and their predictors on zeros."""
    columns, numbers = np.zeros((1, SMALLEST_COMPILED)), np.zeros(SMALLEST_COMPILED)
    whiten_columns(columns, np.zeros(1), np.zeros((1, 1)), numbers, *pieces(1), columns)
    row_products(columns.T, np.zeros(1))
    compensated(columns.T, coefficient_parts(np.zeros(1)), numbers)
    grid_sum(columns.T, numbers, bits=0)
    curvature_sum(columns.T, numbers, bits=0)
    square_sums(columns.T, numbers[None], numbers[None])
    logistic_residual(numbers, numbers)
    logistic_sum(columns.T, numbers, numbers, numbers, coefficient_parts(np.zeros(1)), bits=0)


def _scores() -> None:
    """Run the loop over the scores of each person."""
    clipped(np.zeros((1, SMALLEST_COMPILED)).T, 1.0)


def _hazards() -> None:
    """Run the loops over spells on one spell in one interval; features and coefficients may be writable or not."""
    one, place = np.zeros(1), np.zeros(1, dtype=np.int64)
    add_caps(np.ones((1, 1)), np.ones((1, 1)), place, place + 1, one.copy(), 1.0, one.copy(), place.copy())
    spells = one, one, np.ones((1, 1)), one, one, place, place + 1
    add_scores(*spells, np.zeros((2, 1)))
    to_ratios(one.copy(), one.copy(), one, 0.0, one.copy())
    add_curvatures(*spells, np.zeros((2, 1)), place.copy())


def _descriptions() -> None:
    """Run the loops over the features of people."""
    numbers, absent = np.zeros(SMALLEST_COMPILED), np.zeros(SMALLEST_COMPILED, dtype=np.bool_)
    number_in_units(numbers, absent, numbers, bounds=(0.0, 1.0))
    square_in_units(numbers, absent, numbers, bounds=(0.0, 1.0), centre=0.0, far=1.0)


def _cells() -> None:
    """Run the loops over cells as files hold them, which cannot be written to."""
    cells, absent = np.zeros(1), np.zeros(1, dtype=np.bool_)
    cells.flags.writeable = False
    mark_missing(addresses_of([cells]), absent, absent.copy())
    clip_numbers(cells, 0.0, 1.0, 0.0, False, np.zeros(1))


def _regressions_in_files() -> None:
    cells = np.zeros(1)
    cells.flags.writeable = False
    without_covariates(cells).loss_gradient(np.zeros(1))


def _sums() -> None:
    """Run the loop that sums numbers of people in one pass, as they are in memory or in files."""
    cells = np.zeros(1)
    add_stored(
        addresses_of([cells]), np.zeros((1, 7)), np.zeros((1, 2), dtype=np.bool_), cells, np.zeros((1, 2), np.int64)
    )


def _pairs() -> None:
    """Run the loop that sums products of pairs of columns."""
    cells, place = np.zeros(1), np.zeros((1, 2), dtype=np.int64)
    sums = np.zeros(1, dtype=np.int64)
    add_pairs(addresses_of([cells]), np.ones((1, 2)), 1.0, place, 1.0, cells, np.zeros((1, 1)), sums)


_LOOPS = {
    Loops.REGRESSIONS: _regressions,
    Loops.SCORES: _scores,
    Loops.HAZARDS: _hazards,
    Loops.DESCRIPTIONS: _descriptions,
    Loops.SUMS: _sums,
    Loops.PAIRS: _pairs,
}
_IN_FILES = {Loops.REGRESSIONS: _regressions_in_files, Loops.DESCRIPTIONS: _sums}
