"""``%%R`` cells in Python notebooks: R beside Python, with the same studies, ledgers and results.

``%load_ext hdpstats.jupyter`` finds `load` by its entry point and calls it before the first such cell, not earlier. The
functions of the R package are attached as by ``library(hdpstats)``. ``%R line`` returns the value of a line.

The options are those of rpy2's own ``%%R``, whose code is not used. It keeps of an R error its text only, so that
an overspent ledger looks like a typing error; whether it stops a loop in R depends on timing; it prints the
last value only, writes R's output token by token, and warnings after everything else; and its conversion turns a
missing integer into -2147483648 and drops names. Only the parsing of options would be left of it.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import rpy2.rinterface as ri
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import SVG, Image, display
from rpy2.rinterface_lib import callbacks

from hdpstats.api import HdpError
from r_bridge.console import Streams
from r_bridge.from_r import from_r
from r_bridge.guard import RError, guarded, sourced
from r_bridge.package import attach_functions
from r_bridge.session import helper, r_function
from r_bridge.to_r import named_list, to_r

_OPTION = re.compile(r"\s*(--?[a-zA-Z]\S*)")
_VALUE = re.compile(r"\s*(\S+)")
_HELP: Final = Path(__file__).parent / "kernel" / "R" / "help.R"
"""R's functions that read help pages, also those of the package whose functions are attached from its source."""

_WIDTH: Final = 7.0
_HEIGHT: Final = 4.5
_RESOLUTION: Final = 192
"""Inches of a plot without a given size, and pixels per inch: twice those shown, for sharp screens."""


def load(shell: InteractiveShell) -> Callable[..., Any]:
    """Start R, attach the functions of the R package, and return the function of ``%R`` and ``%%R``."""
    attach_functions()
    r_function("prepare_cells")()
    return partial(run, shell)


def run(shell: InteractiveShell, line: str, cell: str | None, local_ns: Mapping[str, Any] | None) -> Any:
    """Run the code of a line, and return its value, or of a cell, which prints visible values.

    Raises
    ------
    UsageError
        If an option is wrong, or an object cannot be found or has no equivalent on the other side.
    RError, HdpError
        If R raises an error: an error of `hdpstats` where the condition is that of one.
    KeyboardInterrupt
        If R was interrupted.
    """
    asked, rest = _asked(line)
    if asked.help:
        print(_parser().format_help())  # noqa: T201
        return None
    for name, value in _inputs(asked, {**shell.user_ns, **(local_ns or {})}):
        ri.globalenv[name] = value
    returned = cell is None and not asked.noreturn
    try:
        result = _evaluate("\n".join(filter(None, (rest, cell))), asked, returned=returned)
    except (RError, HdpError, KeyboardInterrupt) as error:
        raise _brief(error) from None
    shell.push(dict(_outputs(asked)))
    return from_r(result) if returned else None


def _brief(error: BaseException) -> BaseException:
    """Return an error of R such that IPython shows its name and message, without the lines of Python on the way."""
    lines = [": ".join(filter(None, (type(error).__name__, str(error))))]
    vars(error)["_render_traceback_"] = lambda: lines
    return error.with_traceback(None)


def _evaluate(code: str, asked: Namespace, *, returned: bool) -> Any:
    with TemporaryDirectory(prefix="hdpstats-") as folder:
        device, arguments = _device(asked, folder)
        try:
            with _console():
                given = (to_r(code), to_r(returned), to_r(device), named_list(arguments), sourced(_HELP)["help_text"])
                return guarded(r_function("run_cell"), *given)
        finally:
            for page in sorted(Path(folder).iterdir()):
                _show(page, sharp=(asked.width, asked.height, asked.units, asked.res) == (None,) * 4)


@cache
def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser("%%R", usage="%%%%R [options], or %%R [options] code")
    add = parser.add_argument
    several: Any = {"action": "append", "default": [], "metavar": "NAMES"}
    add("-i", "--input", **several, help="Python objects to assign in R: a, or a,b, or name=object.attribute")
    add("-o", "--output", **several, help="R objects to assign in Python afterwards, or name=object")
    add("--help", action="store_true", help="print this")
    add("-n", "--noreturn", action="store_true", help="return nothing from a line")
    add("-w", "--width", type=float, help="width of plots")
    add("-h", "--height", type=float, help="height of plots")
    add("-u", "--units", choices=("px", "in", "cm", "mm"), help="units of width and height")
    add("-r", "--res", type=int, help="pixels per inch")
    add("-p", "--pointsize", type=int, help="size of text in plots")
    add("-b", "--bg", help="background of plots")
    add("--graphics-device", choices=("png", "svg"), default="png", help="the format of plots")
    return parser


def _asked(line: str) -> tuple[Namespace, str]:
    """Return the options at the beginning of a line, and the code after them as it was written."""
    words: list[str] = []
    place = 0
    while option := _OPTION.match(line, place):
        words.append(option[1])
        place = option.end()
        alone = option[1] in ("--help", "-n", "--noreturn") or "=" in option[1] or re.fullmatch(r"-[a-z].+", option[1])
        value = None if alone else _VALUE.match(line, place)
        if value:
            words.append(value[1])
            place = value.end()
    return _parser().parse_args(words), line[place:].strip()


def _pairs(option: str, given: list[str]) -> Iterator[tuple[str, str]]:
    """Return the target and the source of each name."""
    for names in given:
        for name in names.split(","):
            target, _, source = name.partition("=")
            if not target or ("=" in name and not source):
                raise UsageError(f"{option} takes names with commas and no blanks between, not {names!r}")
            yield target, source or target


def _inputs(asked: Namespace, names: Mapping[str, Any]) -> list[tuple[str, Any]]:
    files = []
    for target, source in _pairs("-i", asked.input):
        first, *path = source.split(".")
        if first not in names:
            raise UsageError(f"-i {source}: Python has no object {first!r}")
        value = names[first]
        for part in path:
            if not hasattr(value, part):
                raise UsageError(f"-i {source}: a {type(value).__name__} has no attribute {part!r}")
            value = getattr(value, part)
        try:
            files.append((target, to_r(value)))
        except HdpError as error:
            raise UsageError(f"-i {source}: {error}") from None
    return files


def _outputs(asked: Namespace) -> Iterator[tuple[str, Any]]:
    for target, source in _pairs("-o", asked.output):
        if not helper("function(name) exists(name, globalenv())")(to_r(source))[0]:
            raise UsageError(f"-o {source}: R has no object {source!r}")
        try:
            yield target, from_r(helper("function(name) get(name, globalenv())")(to_r(source)))
        except HdpError as error:
            raise UsageError(f"-o {source}: {error}") from None


def _device(asked: Namespace, folder: str) -> tuple[str, dict[str, Any]]:
    """Return the function of R that opens a file for plots, and its arguments."""
    sizes = {"width": asked.width, "height": asked.height}
    size = {"pointsize": asked.pointsize, "bg": asked.bg}
    if asked.graphics_device == "svg":
        size |= {"width": asked.width or _WIDTH, "height": asked.height or _HEIGHT, "onefile": False}
    elif asked.units is not None or asked.res is not None or asked.width or asked.height:
        size |= sizes | {"units": asked.units, "res": asked.res or (72 if asked.units not in (None, "px") else None)}
    else:
        size |= {"width": _WIDTH, "height": _HEIGHT, "units": "in", "res": _RESOLUTION}
    size["filename"] = f"{folder}/page%04d.{asked.graphics_device}"
    return asked.graphics_device, {key: to_r(value) for key, value in size.items() if value is not None}


def _show(page: Path, *, sharp: bool) -> None:
    """Show a page of plots."""
    if page.suffix == ".svg":
        display(SVG(filename=str(page)), metadata={"image/svg+xml": {"isolated": True}})
    else:
        display(Image(data=page.read_bytes(), format="png", retina=sharp))


@contextmanager
def _console() -> Iterator[None]:
    """While this lasts, R writes on Python's streams."""
    streams = Streams()
    before = callbacks.consolewrite_print, callbacks.consolewrite_warnerror
    try:
        callbacks.consolewrite_print = partial(streams.write, "stdout")
        callbacks.consolewrite_warnerror = partial(streams.write, "stderr")
        yield
    finally:
        callbacks.consolewrite_print, callbacks.consolewrite_warnerror = before
        streams.flush()
