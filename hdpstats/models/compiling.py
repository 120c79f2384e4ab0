"""Loops over rows, compiled before anybody waits for them."""

from fractions import Fraction

from hdpstats.mechanisms.loading import load
from hdpstats.models.hazard import DiscreteHazard
from hdpstats.models.regression import Logit
from hdpstats.privacy.budget import Budget
from hdpstats.schema.columns import Binary, Continuous, Duration
from hdpstats.schema.datasets import load_gbsg, load_rotterdam
from hdpstats.schema.schema import Schema
from hdpstats.sites.study import Study


def warm_up() -> None:
    """Compile the loops over rows of fits, descriptions and plans now, so that no later call waits for it.

    Loops are compiled when they are first needed, which takes 3 to 20 seconds, and kept on this machine: beside the
    package, or in the folder that ``NUMBA_CACHE_DIR`` names. Call this once after an installation, or in the
    recipe of a container's image; on the command line it is ``hdpstats warm-up``. Where the code is kept already it
    takes a second. It reads the example data, opens no account on disk, and costs no privacy of anybody.

    Raises
    ------
    MechanismError
        A loop cannot be compiled.

    Examples
    --------
    >>> import hdpstats.api as hdp
    >>> hdp.warm_up()
    """
    load()
    schema = Schema(age=Continuous(20, 90), event=Binary(), time=Duration(2557))
    study = Study(private=load_rotterdam(), public=load_gbsg(), schema=schema, budget=Budget(epsilon=Fraction(2)))
    Logit.from_formula("event ~ age", data=study).fit(epsilon=1).summary()
    DiscreteHazard("Surv(time, event) ~ age", data=study, intervals=12).fit(epsilon=1).summary()
