"""What a model's columns are: a formula and a schema become a design, and no row is read.

``lexer``, ``grammar`` and ``parser`` read a formula, and ``refusals`` says why one cannot be read; ``operations``,
``splines`` and ``expressions`` know what its transforms do to values and to bounds; ``readings`` says what its factors
are, and how they are coded; ``compiler`` makes the `Design`, which computes the matrix, and for a survival formula the
`SurvivalDesign`. ``response`` reads the outcome, ``baseline`` has the intervals of follow-up and their features.
``column_space`` and ``same_space`` tell whether two formulas have the same columns, with ``monomials``. ``whitened``
whitens and weights rows; ``points`` maps rows into the unit cube, where distances are measured.
"""

from hdpstats.formulas.compiler import SurvivalDesign, compile_design, compile_one_sided, compile_survival
from hdpstats.formulas.design import Design
from hdpstats.formulas.parser import ParsedFormula, parse

__all__ = [
    "Design",
    "ParsedFormula",
    "SurvivalDesign",
    "compile_design",
    "compile_one_sided",
    "compile_survival",
    "parse",
]
