"""Tests of privacy look at what is released and seen, not at how exact standard errors are: these are drawn seldom."""

import contextlib
from unittest import mock

import pytest

from hdpstats.inference import cohort, sandwich
from hdpstats.mechanisms.clipped_newton import estimate as clipped_newton
from hdpstats.mechanisms.clipped_newton import raked
from hdpstats.mechanisms.public_hessian import estimate as public_hessian

FEW = {
    sandwich: {"DRAWS": 500},
    cohort: {"AVERAGED": 12},
    clipped_newton: {"DRAWS": 500},
    raked: {"DRAWS": 40},
    public_hessian: {"DRAWS": 250},
}


@pytest.fixture(scope="package", autouse=True)
def few_draws():
    """Draw standard errors seldom."""
    with contextlib.ExitStack() as stack:
        for module, numbers in FEW.items():
            stack.enter_context(mock.patch.multiple(module, **numbers))
        yield
