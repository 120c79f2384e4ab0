"""The processor time that refusing a hostile formula takes: 50 milliseconds is much."""

import pytest

from hdpstats._base.errors import FormulaError
from hdpstats.formulas.parser import parse
from tests.unit.formulas.test_parser import HOSTILE


def refuse_all():
    for text in HOSTILE:
        with pytest.raises(FormulaError):
            parse(text)


def test_hostile_texts_are_refused(benchmark):
    benchmark(refuse_all)
