"""Print which compiled loops were loaded while answers were computed: a process that loads them for answers only."""

from numba.core.dispatcher import Dispatcher

from hdpstats._base.compiled import SMALLEST_COMPILED
from hdpstats.sites.local import LocalSite
from tests.questions import questions

NAMES = (
    "description",
    "logit, objective",
    "logit, output",
    "logit with a Hessian",
    "huber",
    "multinomial",
    "importance weights",
    "hazard",
    "count",
    "rounds with a delta",
)


def main():
    """Answer a question of each kind in turn."""
    computing, late = [], []
    compute, load = LocalSite._compute, Dispatcher.compile

    def computed(*given):
        computing.append(True)
        try:
            return compute(*given)
        finally:
            computing.pop()

    def loaded(loop, *given):
        if computing:
            late.append(loop.py_func.__name__)
        return load(loop, *given)

    LocalSite._compute, Dispatcher.compile = computed, loaded
    for _, site, query in questions(2 * SMALLEST_COMPILED, NAMES):
        site.answer(query)
    print("\n".join(late))


if __name__ == "__main__":
    main()
