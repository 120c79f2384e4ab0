"""R and Python in one process: R users get `hdpstats` as an R package, Python users get R's reference fits.

    import r_bridge
    r_bridge.start()                      # R inside this Python (once)
    frame = r_bridge.from_r(r_bridge.call("head", frame, 3))

The bridge rests on `rpy2.rinterface` alone, with its own conversion: exact, NA-safe, and an error where R or pandas has
no equivalent. `hdpstats` never imports it. R keeps to one thread, the one that started it.
"""

import os

os.environ.setdefault("RPY2_CFFI_MODE", "ABI")  # as fast as the compiled mode here, and needs no compiler

try:
    import rpy2.situation

    rpy2.situation.r_ld_library_path_from_subprocess = lambda _: ""  # starts R to learn what only rpy2's report shows
    import rpy2.rinterface
except Exception as error:  # no rpy2: ImportError; no R: ValueError; an R that is too old for rpy2: ffi.error
    raise ImportError(
        "r_bridge needs R and rpy2: on Debian and Ubuntu, apt-get install r-base-core r-cran-survival make, and then "
        "pip install 'hdpstats[r]', or 'hdpstats[r-cells]' for %%R cells in notebooks "
        f"({type(error).__name__}: {error})"
    ) from None

from r_bridge import reference
from r_bridge.from_r import call, from_r
from r_bridge.guard import RError, RWarning
from r_bridge.package import attach_functions
from r_bridge.session import start
from r_bridge.to_r import to_r

__all__ = ["RError", "RWarning", "attach_functions", "call", "from_r", "reference", "start", "to_r"]
