"""Standard errors that are drawn seldom, for tests that look at what is released and not at how exact they are."""

import contextlib
from unittest import mock

from hdpstats.inference import information, sandwich
from hdpstats.mechanisms.clipped_newton import estimate as clipped_newton
from hdpstats.mechanisms.clipped_newton import expectations as raked
from hdpstats.mechanisms.public_hessian import estimate as public_hessian
from hdpstats.raking import information as raked_information

FEW = {
    sandwich: {"DRAWS": 500},
    information: {"REPEATED": (20,)},
    raked_information: {"AVERAGED": 12},
    clipped_newton: {"DRAWS": 500},
    raked: {"DRAWS": 40},
    public_hessian: {"DRAWS": 250},
}


_UNDOING = contextlib.ExitStack()


def begin():
    """Let standard errors of this process be made of few draws."""
    _UNDOING.enter_context(drawn())


def end():
    """Let standard errors of this process be made of all draws again."""
    _UNDOING.close()


@contextlib.contextmanager
def drawn():
    """Let standard errors be made of few draws."""
    with contextlib.ExitStack() as stack:
        for module, numbers in FEW.items():
            stack.enter_context(mock.patch.multiple(module, **numbers))
        yield
