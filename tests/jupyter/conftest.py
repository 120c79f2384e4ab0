"""The R kernel for tests: its kernelspec under a temporary path, and a notebook on it."""

import asyncio
import os
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import jupyter_core.utils
import pytest
from jupyter_client.manager import KernelManager

from r_bridge.kernel import install
from tests.jupyter.session import kernel
from tests.waiting import GENEROUS, until

# Clients make an event loop for each context, that is for each fixture and test, and close none. Here they share one.
LOOP = asyncio.new_event_loop()
jupyter_core.utils.ensure_event_loop = lambda prefer_selector_loop=False: LOOP


def pytest_unconfigure():
    LOOP.close()


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came back for a cell: the reply's content, and the messages beside it but states and the input."""

    reply: dict
    messages: list[tuple[str, dict]]

    def contents(self, kind):
        return [content for each, content in self.messages if each == kind]

    def stream(self, name):
        return "".join(content["text"] for content in self.contents("stream") if content["name"] == name)

    @property
    def kinds(self):
        """What came, in order: the name of each stream, and the kind of each other message.

        Adjacent texts of one stream count once: in how many messages `ipykernel` sends them depends on the clock.
        """
        groups = groupby(self.messages, lambda message: message[1]["name"] if message[0] == "stream" else id(message))
        return [name if isinstance(name, str) else kind for name, ((kind, _), *_) in groups]

    @property
    def shown(self):
        """The data of results and displays, in order."""
        return [c["data"] for kind, c in self.messages if kind in ("execute_result", "display_data")]

    @property
    def text(self):
        """Everything that somebody could read, as one text."""
        return repr(self.reply) + repr(self.messages)


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """A kernel and a client of it."""

    manager: KernelManager
    client: object
    folder: object
    answers: list[str] = field(default_factory=list)

    def run(self, code, *, at=None, act=None, **options):
        """Run a cell; act once, as soon as it has written some words: interrupt it, if nothing else is named."""
        messages, acted = [], []

        def note(message):
            if message["msg_type"] not in ("status", "execute_input"):
                messages.append((message["msg_type"], message["content"]))
            if at and not acted and at in "".join(content.get("text", "") for _, content in messages):
                acted.append(at)
                (act or self.interrupt)()

        options = {"allow_stdin": False, "timeout": GENEROUS} | options
        reply = self.client.execute_interactive(
            code, output_hook=note, stdin_hook=self._answer, stop_on_error=False, **options
        )
        return Run(reply=reply["content"], messages=messages)

    def ask(self, name, *arguments, **named):
        return getattr(self.client, name)(*arguments, **named, reply=True, timeout=GENEROUS)["content"]

    def interrupt(self):
        """Interrupt the kernel as its manager does, from any thread."""
        os.killpg(self.manager.provisioner.pgid, signal.SIGINT)

    def wait_for_the_end(self):
        """Wait until the kernel has ended by itself."""
        until(lambda: not self.manager.is_alive(), "the end of the kernel", pause=0.1)

    def _answer(self, message):
        self.client.input(self.answers.pop(0))


@pytest.fixture(scope="session")
def kernelspec(tmp_path_factory):
    """The kernelspec where Jupyter looks."""
    prefix = tmp_path_factory.mktemp("jupyter")
    place = install(prefix=str(prefix))
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(prefix / "share" / "jupyter")
    yield place
    if before is None:
        del os.environ["JUPYTER_PATH"]
    else:
        os.environ["JUPYTER_PATH"] = before


@contextmanager
def notebook_in(folder, **options):
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    options |= {"cwd": str(folder), "env": environment | {"OMP_NUM_THREADS": "1"}}
    with kernel("hdpstats-r", **options) as (manager, client):
        yield Notebook(manager=manager, client=client, folder=folder)


@pytest.fixture(scope="module")
def notebook(kernelspec, tmp_path_factory):
    """A notebook for the tests of a module."""
    with notebook_in(tmp_path_factory.mktemp("notebook")) as made:
        yield made


@pytest.fixture
def opened(kernelspec):
    """A function that opens a notebook in a folder for one test."""
    with ExitStack() as stack:
        yield lambda folder, **options: stack.enter_context(notebook_in(folder, **options))


@pytest.fixture
def fresh(opened, tmp_path):
    """A notebook for one test."""
    return opened(tmp_path)
