"""The kernel: Jupyter's messages on one side, R on the other."""

import fnmatch
import os
import re
import signal
import sys
from collections.abc import Mapping
from typing import Any, final

import rpy2.rinterface as ri
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

from r_bridge.console import Console
from r_bridge.guard import guarded
from r_bridge.kernel import cell
from r_bridge.kernel.cell import Bundle, tool
from r_bridge.package import attach_functions
from r_bridge.session import helper
from r_bridge.vectors import fields, from_r_strings, text, to_r_strings

_NAME = r"[\w.:$@]"
_SESSION = 1

Reply = dict[str, Any]


@final
class RKernel(Kernel):
    """R in this process for Jupyter. The methods ``do_*`` answer the protocol's requests of those names."""

    implementation = "hdpstats-r"
    implementation_version = "0.1.0"

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)  # type: ignore[no-untyped-call]
        self._console = Console(self.raw_input, self._clear)
        self._cells: list[tuple[int, str, str | None]] = []  # in memory: nothing is written to a disk
        self._pages: list[Reply] = []
        attach_functions()
        self._console.connect()
        self._ask, self._page = ri.rternalize(self._console.answer_for_r), ri.rternalize(self._show_page)
        guarded(tool("prepare"), self._ask, self._page)
        version = text(helper("function() paste(R.version$major, R.version$minor, sep = '.')")())
        self.language_info = {
            "name": "R",
            "version": version,
            "mimetype": "text/x-r-source",
            "file_extension": ".r",
            "codemirror_mode": "r",
            "pygments_lexer": "r",
        }
        self.banner = f"R {version} with hdpstats: differentially private statistics with the help of public records"
        self.help_links = [{"text": "R", "url": "https://cran.r-project.org/manuals.html"}]

    @property
    def kernel_info(self) -> Reply:
        """What `ipykernel` says of itself, but without its debugger, which is for Python."""
        return {**super().kernel_info, "supported_features": []}

    def set_parent(self, ident: Any, parent: Any, channel: str = "shell") -> None:
        """Let streams belong to the request that is answered."""
        super().set_parent(ident, parent, channel)  # type: ignore[no-untyped-call]
        if channel == "shell":
            for stream in (sys.stdout, sys.stderr):
                if hasattr(stream, "set_parent"):
                    stream.set_parent(parent)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
        allow_stdin: bool = False,
        **_about_the_cell: object,
    ) -> Reply:
        """Run a cell."""
        self._allow_stdin, self._console.silent, self._pages = allow_stdin, silent, []
        count, values = self.execution_count, []

        def show(bundle: Bundle, last: bool) -> None:
            if bundle.page:
                self._pages.append({"source": "page", "data": bundle.data, "start": 0})
            elif not silent:
                values.extend([bundle.data.get("text/plain")] if last else [])
                self._publish(bundle, count if last else None)

        outcome = cell.run(code, show)
        reply = self._outcome(outcome, silent) | {"execution_count": count}
        if reply["status"] == "ok":
            reply["user_expressions"] = {
                name: _evaluated(expression) for name, expression in (user_expressions or {}).items()
            }
        if silent:
            self._console.silent = False
        elif store_history:
            self._cells.append((count, code, values[-1] if values else None))
        else:
            self.execution_count -= 1
        return reply

    def _outcome(self, outcome: cell.Outcome, silent: bool) -> Reply:
        if outcome.failure is not None:
            content = _error(outcome.failure)
            if not silent:
                self._console.flush()
                self.send_response(self.iopub_socket, "error", content)  # type: ignore[no-untyped-call]
            return {"status": "error", **content}
        if outcome.quits:
            self._pages.append({"source": "ask_exit", "keepkernel": False})
            self.io_loop.call_later(0.1, self.io_loop.stop)
        return {"status": "ok", "payload": self._pages}

    def _publish(self, bundle: Bundle, count: int | None) -> None:
        """Show a bundle; as the cell's result where it has a number."""
        content: Reply = {"data": bundle.data, "metadata": bundle.metadata}
        kind = "display_data" if count is None else "execute_result"
        if count is not None:
            content["execution_count"] = count
        self._console.flush()
        self.send_response(self.iopub_socket, kind, content)  # type: ignore[no-untyped-call]

    def _clear(self) -> None:
        self.send_response(self.iopub_socket, "clear_output", {"wait": False})  # type: ignore[no-untyped-call]

    def _show_page(self, page: Any) -> object:
        self._pages.append({"source": "page", "data": {"text/plain": text(page)}, "start": 0})
        return ri.NULL

    async def do_complete(self, code: str, cursor_pos: int) -> Reply:
        """Complete the name before the cursor as R's own console does."""
        line = code[:cursor_pos].rpartition("\n")[2]
        completions = fields(guarded(tool("complete"), to_r_strings([line])))
        token, matches = text(completions["token"]), from_r_strings(completions["matches"])
        return {
            "status": "ok",
            "matches": matches,
            "cursor_start": cursor_pos - len(token),
            "cursor_end": cursor_pos,
            "metadata": {},
        }

    async def do_inspect(
        self,
        code: str,
        cursor_pos: int,
        detail_level: int = 0,  # noqa: ARG002
        omit_sections: object = (),  # noqa: ARG002
    ) -> Reply:
        """Describe what has a name: arguments and help of a function, the shape of anything else, never values.

        Where nothing of that name is known, the function is described whose arguments are being written.
        """
        before, after = re.search(rf"{_NAME}*$", code[:cursor_pos]), re.match(rf"{_NAME}*", code[cursor_pos:])
        name = f"{before and before[0]}{after and after[0]}"
        about = text(guarded(tool("inspect"), to_r_strings([name]))) if name else ""
        about = about or text(guarded(tool("inspect_call"), to_r_strings([code[:cursor_pos]])))
        return {"status": "ok", "found": bool(about), "data": {"text/plain": about} if about else {}, "metadata": {}}

    async def do_is_complete(self, code: str) -> Reply:
        """Return whether code is a complete expression, the beginning of one, or neither."""
        status = text(guarded(tool("completeness"), to_r_strings([code])))
        return {"status": status} | ({"indent": "  "} if status == "incomplete" else {})

    async def do_history(
        self,
        hist_access_type: str,
        output: bool,
        raw: bool,  # noqa: ARG002
        session: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> Reply:
        """Return cells of this session, whose own number is 1: number, code, and the text of the value."""
        entries = self._cells
        if hist_access_type == "range":
            first, ours = start or 0, (session or 0) in (0, _SESSION)
            entries = [entry for entry in entries if ours and first <= entry[0] and (stop is None or entry[0] < stop)]
        elif hist_access_type == "search":
            entries = [entry for entry in entries if fnmatch.fnmatchcase(entry[1], pattern or "*")]
            entries = sorted({entry[1]: entry for entry in entries}.values()) if unique else entries
        most = None if hist_access_type == "range" or (hist_access_type == "search" and n is None) else n or 0
        entries = entries if most is None else entries[-most:] if most > 0 else []
        cells = [(_SESSION, line, (code, value) if output else code) for line, code, value in entries]
        return {"status": "ok", "history": cells}

    async def do_shutdown(self, restart: bool) -> Reply:
        """Stop what runs, so that R can end in order."""
        os.kill(os.getpid(), signal.SIGINT)
        return {"status": "ok", "restart": restart}


def _evaluated(code: str) -> Reply:
    result = cell.evaluate(code)
    if isinstance(result, cell.Failure):
        return {"status": "error", **_error(result)}
    return {"status": "ok", "data": result.data, "metadata": result.metadata}


def _error(failure: cell.Failure) -> Reply:
    return {"ename": failure.name, "evalue": failure.message, "traceback": failure.traceback}


@final
class RKernelApp(IPKernelApp):
    """`ipykernel`'s program with an R kernel, and without subshells: they are threads, and R keeps to one."""

    name = "hdpstats-r"
    kernel_class = RKernel

    def init_control(self, context: Any) -> None:
        """Make the control channel; with no thread for the shell channel, its messages arrive on the main thread."""
        super().init_control(context)  # type: ignore[no-untyped-call]
        self.shell_channel_thread = None

    def initialize(self, argv: Any = None) -> None:
        """Set everything up."""
        super().initialize(argv)
        # Again: R has put Python's handler back, and an interrupt between two cells would end the kernel.
        self.init_signal()  # type: ignore[no-untyped-call]
        sys.unraisablehook = _lost


def _lost(lost: "sys.UnraisableHookArgs") -> None:
    """Write the type of an exception that cannot be caught, without its contents; R reports interrupts by itself."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.stderr.write(f"{lost.exc_type.__name__} in the kernel; please report it\n")
