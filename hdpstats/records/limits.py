"""How large a query may be: public limits, checked when a query is made or prepared, before anything is charged.

They bound memory, the size of a release, and the time that a site must set aside for an answer; no proof of a guarantee
needs them. Each is well above what an analysis asks for.

======================================  ===================================================================
`MOST_CELLS`                            cells of a histogram: numbers of noise, about 10 microseconds each
`MOST_COEFFICIENTS`                     coefficients of a model, whose Hessian has their square
`MOST_WITH_HESSIAN`                     coefficients where a noisy Hessian is released: D (D + 1) / 2 numbers
`MOST_FEATURES`                         numbers of a table of baseline features: intervals times features
`MOST_CAUSES`                           causes of an event
`MOST_PROPOSALS`, `MOST_EVALUATIONS`    proposals of a sampler, and proposals times people
`MOST_CANDIDATES`                       candidates of a choice or of a performance curve
`MOST_POINTS`                           public points of a histogram of neighbours, a distance or a choice
`MOST_COORDINATES`                      coordinates of a point, a categorical column having one for each level
`MOST_NUMBERS`                          points times coordinates
`MOST_BLOCKS`                           blocks of an estimate by blocks
======================================  ===================================================================

**Bytes.** A release holds at most `MOST_POINTS` noisy numbers, the counts of neighbours; all others hold fewer. Each is
an integer whose digits are those of the noise (its scale is at most 2^20 over epsilon) or a double, below 40
characters where epsilon is at least 1e-12: `MOST_BYTES` in all.
"""

from hdpstats._base.errors import MechanismError

MOST_CELLS = 2**18
MOST_COEFFICIENTS = 2000
MOST_WITH_HESSIAN = 150
MOST_FEATURES = 10**6
MOST_CAUSES = 50
MOST_PROPOSALS = 10**6
MOST_EVALUATIONS = 10**10
MOST_CANDIDATES = 100
MOST_POINTS = 2**20
MOST_COORDINATES = 2000
MOST_NUMBERS = 2**27
MOST_BLOCKS = 2**17
MOST_BYTES = 40 * MOST_POINTS


def check_size(what: str, size: int, most: int, *, remedy: str) -> None:
    """Refuse what is larger than its public limit, with the remedy.

    Parameters
    ----------
    what
        What is counted, in the plural.
    size, most
        How many there are, and how many there may be.
    remedy
        What to do instead.
    """
    if size > most:
        raise MechanismError(f"a query may have at most {most} {what}, not {size}; {remedy}", size=size, most=most)
