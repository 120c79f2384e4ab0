"""Kernels as notebooks have them, spoken to through `jupyter_client`."""

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field

from jupyter_client.manager import KernelManager
from traitlets.config import Config

from tests import forked
from tests.waiting import GENEROUS


@dataclass
class Reply:
    """What a cell showed, in order, and how it ended."""

    messages: list = field(default_factory=list)

    def add(self, message):
        self.messages.append((message["msg_type"], message["content"]))

    @property
    def streams(self):
        """Return the messages of streams as pairs of name and text."""
        return [(content["name"], content["text"]) for kind, content in self.messages if kind == "stream"]

    def text(self, name="stdout"):
        return "".join(text for stream, text in self.streams if stream == name)

    @property
    def shown(self):
        """Return the data of displays and values, by MIME type."""
        kinds = ("display_data", "execute_result")
        return [content["data"] for kind, content in self.messages if kind in kinds]

    @property
    def error(self):
        """Return the error's name, message and traceback, or None."""
        errors = [content for kind, content in self.messages if kind == "error"]
        return (errors[0]["ename"], errors[0]["evalue"], "\n".join(errors[0]["traceback"])) if errors else None

    @property
    def everything(self):
        return repr(self.messages)


class Session:
    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def run(self, code, *, after=None, timeout=GENEROUS):
        """Run a cell; ``after(reply)`` is called after each message while it returns True."""
        reply = Reply()
        sent = self.client.execute(code, stop_on_error=False)  # a cell after an error must not be dropped with it
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            if message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                reply.add(message)
                if after is not None:
                    after(reply)
        self.client.get_shell_msg(timeout=timeout)
        return reply

    def value(self, code):
        """Return the text of a cell's value."""
        reply = self.run(code)
        assert reply.error is None, reply.error[2]
        return reply.shown[-1]["text/plain"]


@contextmanager
def own_sockets():
    """Yield the configuration by which one kernel is reached at Unix sockets in a folder of its own.

    TCP ports are found free, let go, and bound by the kernel a second later, when another process may have them. The
    folder has a short name, as the path of a Unix socket has 107 bytes at most.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        yield Config(KernelManager={"transport": "ipc", "connection_file": f"{folder}/kernel.json"})


@contextmanager
def kernel(name, *, start=forked.kernels, **options):
    """A kernel's manager and a client of it that is ready, for as long as the context lasts."""
    with own_sockets() as config:
        manager = KernelManager(kernel_name=name, config=config)
        with start():
            manager.start_kernel(**options)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=GENEROUS)
            yield manager, client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


@contextmanager
def session(**environment):
    """A Python kernel, for as long as the context lasts."""
    with kernel("python3", **environment) as made:
        yield Session(*made)
