"""The path of one fit: the modules and functions of hdpstats from the formula to the printed summary.

``python tools/path_of_a_fit.py`` makes README's fit, with public rows and the description of its people, twice in one
process and follows the second: parsing, choice of what is asked, charge, noise, release, estimates and the text of the
summary. It prints the modules in the order in which the fit first enters them, each below the module that called it,
with the number of its functions; then a line for each package; then the totals: files, functions, calls from one
package of hdpstats to another, and the deepest stack of its frames. Frames of other packages are not counted, nor are
comprehensions. ``--check FILES FUNCTIONS CHANGES DEPTH`` exits with status 1 where a total is larger.
"""

import argparse
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, final

import hdpstats
import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

PACKAGE = Path(hdpstats.__file__).parent
COMPREHENSIONS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"})


@final
@dataclass(kw_only=True)
class Entries:
    """What was entered, in the order of first entry.

    Attributes
    ----------
    callers
        Each module, and the module whose frame was the nearest one of hdpstats below it; None for the first.
    functions
        The functions of each module.
    changes
        How many calls went from one package of hdpstats to another.
    depth
        The largest number of frames of hdpstats on a stack.
    """

    callers: dict[str, str | None] = field(default_factory=dict)
    functions: dict[str, set[CodeType]] = field(default_factory=dict)
    changes: int = 0
    depth: int = 0


def package_of(module: str) -> str:
    """Return the package of a module, or the module itself where it stands beside the packages."""
    return module.partition("/")[0]


def module_of(code: CodeType) -> str | None:
    """Return the path of a function's module within the package, None for functions of others."""
    if code.co_name in COMPREHENSIONS or not code.co_filename.startswith(f"{PACKAGE}/"):
        return None
    return code.co_filename.removeprefix(f"{PACKAGE}/")


def modules_below(frame: FrameType) -> Iterator[str]:
    """Return the modules of the package on the stack, from the top."""
    each: FrameType | None = frame
    while each is not None:
        if module := module_of(each.f_code):
            yield module
        each = each.f_back


@contextmanager
def followed(path: Entries) -> Iterator[None]:
    """While this lasts, record the calls of this thread and of new ones."""

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and (module := module_of(frame.f_code)):
            stack = list(modules_below(frame))
            path.callers.setdefault(module, next((each for each in stack if each != module), None))
            path.functions.setdefault(module, set()).add(frame.f_code)
            path.changes += len(stack) > 1 and package_of(stack[1]) != package_of(module)
            path.depth = max(path.depth, len(stack))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def fitted() -> Callable[[], str]:
    """Return a function that fits README's model of a new data set and returns the printed summary."""
    schema = hdp.Schema(
        age=hdp.Continuous(20, 90), nodes=hdp.Continuous(0, 40), hormon=hdp.Binary(), event3=hdp.Binary()
    )
    study = hdp.Study(
        private=hdp.datasets.load_rotterdam(),
        public=hdp.datasets.load_gbsg(),
        schema=schema,
        budget=hdp.Budget(epsilon=1),
    )
    return lambda: str(hdpf.logit("event3 ~ age + log1p(nodes) + hormon", data=study).fit(epsilon=1).summary())


def tree(path: Entries) -> Iterator[str]:
    """Return a line for each module: those that it called first are below it."""

    def lines(caller: str | None, indent: str) -> Iterator[str]:
        for module in [each for each, by in path.callers.items() if by == caller]:
            count = len(path.functions[module])
            yield f"{indent}{module}  {count} function{'s' if count > 1 else ''}"
            yield from lines(module, f"{indent}  ")

    yield from lines(None, "")


def by_package(path: Entries) -> Iterator[str]:
    """Return a line for each package, in the order of first entry."""
    modules = defaultdict(list)
    for module in path.callers:
        modules[package_of(module)].append(module)
    for package, entered in modules.items():
        yield f"{package}: {len(entered)} files, {sum(len(path.functions[each]) for each in entered)} functions"


def main(arguments: list[str] | None = None) -> int:
    """Print the path and the totals, and return the exit status."""
    parser = argparse.ArgumentParser(description="the path of one fit through hdpstats")
    parser.add_argument(
        "--check", nargs=4, type=int, metavar=("FILES", "FUNCTIONS", "CHANGES", "DEPTH"), help="largest totals"
    )
    most = parser.parse_args(arguments).check
    fitted()()
    again, path = fitted(), Entries()
    with followed(path):
        again()
    print("\n".join([*tree(path), "", *by_package(path)]))
    totals = len(path.callers), sum(map(len, path.functions.values())), path.changes, path.depth
    print("\n{} files, {} functions, {} changes of package, {} frames deep".format(*totals))
    exceeded = most is not None and any(found > limit for found, limit in zip(totals, most, strict=True))
    if exceeded:
        print("more than {} files, {} functions, {} changes of package, {} frames".format(*most), file=sys.stderr)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
