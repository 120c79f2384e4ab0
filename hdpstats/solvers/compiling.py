"""Compiling loops with numba, and keeping what was compiled where that is possible."""

from collections.abc import Callable
from typing import Any, cast

import numba


def compiled(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a loop, once per machine where there is a place to keep compiled code, else once per process.

    Without options nothing is reordered or fused: numbers are those of numpy to the last bit.
    """
    options = {"nogil": True, "error_model": "numpy"} | options
    try:
        return cast("Callable[..., Any]", numba.njit(cache=True, **options)(loop))
    except RuntimeError:
        return cast("Callable[..., Any]", numba.njit(**options)(loop))
