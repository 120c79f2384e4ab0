"""R and Python in one process: R users get `hdpstats` as an R package, Python users get R's reference fits.

    import r_bridge
    r_bridge.start()                      # R inside this Python (once)
    frame = r_bridge.from_r(r_bridge.call("head", frame, 3))

The bridge rests on `rpy2.rinterface` alone, with its own conversion: exact, NA-safe, and an error where R or pandas has
no equivalent. `hdpstats` never imports it. R keeps to one thread, the one that started it.

* ``__main__``: ``python -m r_bridge install | run | kernel install``: install the R package or the kernel, run an R
  script.
* ``arguments``: Arguments that R gives by name: checked before they are used, and made what Python's functions
  expect.
* ``cells``: ``%%R`` cells in Python notebooks: R beside Python, with the same studies, ledgers and results.
* ``console``: R's console in a notebook: what R writes goes to the streams of the front end, what R reads comes from
  its user.
* ``durations``: Durations of R (``difftime``), which carry their own unit, in the units that a schema declares.
* ``from_r``: R to Python: values, and calls of R functions.
* ``functions``: What R may call by name, and the one Python function that it calls: arguments in, a tagged list out.
* ``guard``: Calls into R whose errors, warnings and interrupts arrive in Python as what they are.
* ``handles``: `hdpstats` objects in R: S3 objects with plain contents, or with a handle where the object cannot leave
  Python.
* ``kernel``: The Jupyter kernel "R (hdpstats)": R is its language, and the functions of the package are attached.
* ``package``: The R package `hdpstats`: installed into a library, attached to the R inside Python, or connected to
  its own.
* ``reference``: R's own fits of public data, as tidy data frames: what a release or a public fit is checked against.
* ``results``: Results, aggregates, samples, designs, public rows and what figures draw, for R, which calls functions
  by name.
* ``session``: The one R of this process: started inside Python, or the one that started Python; and forks by it.
* ``studies``: Studies, fits and tests for R; every public function may be called from R by its name.
* ``to_r``: Python to R, exact and NA-safe; `from_r` has the table of types. What is missing in Python is NA in R.
* ``vectors``: Vectors between R and numpy: numbers, texts, times and attributes.
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
        "in a clone of hdpstats pip install '.[r]', or '.[r-cells]' for %%R cells in notebooks "
        f"({type(error).__name__}: {error})"
    ) from None

from r_bridge import reference
from r_bridge.from_r import call, from_r
from r_bridge.guard import RError, RWarning
from r_bridge.package import attach_functions
from r_bridge.session import start
from r_bridge.to_r import to_r

__all__ = ["RError", "RWarning", "attach_functions", "call", "from_r", "reference", "start", "to_r"]
