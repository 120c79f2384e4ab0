"""The program around the kernel: sockets, streams and threads of `ipykernel`."""

import sys
from typing import Any, final

from ipykernel.kernelapp import IPKernelApp

from r_bridge.kernel.kernel import RKernel


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
    """Write the type of an exception that nobody can catch, without its contents; R reports interrupts by itself."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.stderr.write(f"{lost.exc_type.__name__} in the kernel; please report it\n")
