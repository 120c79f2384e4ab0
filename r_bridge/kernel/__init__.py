"""The Jupyter kernel "R (hdpstats)": R is its language, and the functions of the package are attached.

``python -m r_bridge.kernel -f CONNECTION_FILE`` is what Jupyter runs. The protocol is `ipykernel`'s, the R is that of
`r_bridge.session`, on the main thread; R's side is the code in ``R/``, in an environment off the search path.

It protects nothing: the analyst's code runs in the process that holds the tables it is given. Records that the analyst
must not see belong to a remote site.

* ``__main__``: ``python -m r_bridge.kernel -f CONNECTION_FILE``: the kernel, as Jupyter starts it.
* ``cell``: Run the code of a cell: expression by expression, values and plots shown as they come, warnings at the
  end.
* ``kernel``: The kernel: Jupyter's messages on one side, R on the other.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from hdpstats.api import HdpError

NAME = "hdpstats-r"
SPEC = Path(__file__).parent / "kernelspec"
"""The kernelspec that comes with the package; the wheel installs it into its environment as well."""


def install(*, user: bool = False, prefix: str | None = None) -> Path:
    """Register the kernel with Jupyter, by a kernelspec that names this Python, and return where.

    It is for the user, under a prefix, or in this Python's environment.

    Raises
    ------
    HdpError
        If Jupyter is not installed, or the directory cannot be written.
    """
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        raise HdpError("the kernel needs Jupyter: pip install '.[jupyter,r]' in a clone of hdpstats") from None
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / NAME
        shutil.copytree(SPEC, source)
        spec = json.loads((source / "kernel.json").read_text(encoding="utf-8"))
        spec["argv"][0] = sys.executable
        (source / "kernel.json").write_text(json.dumps(spec, indent=2), encoding="utf-8")
        where = prefix if prefix is not None or user else sys.prefix
        try:
            return Path(KernelSpecManager().install_kernel_spec(str(source), NAME, user=user, prefix=where))
        except OSError as error:
            raise HdpError(
                f"the kernelspec cannot be installed ({error}); --user and --prefix DIR say where else"
            ) from None
