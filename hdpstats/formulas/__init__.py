"""What a model's columns are: a formula and a schema become a design, and no row is read.

``lexer``, ``grammar`` and ``parser`` read a formula; ``levels`` reads what it says of categories. ``operations``,
``bases`` (of several columns), ``splines`` and ``expressions`` know what its transforms do to values and to bounds, and
why a formula is refused. ``coding`` says what its factors are, and how they are coded as columns. ``compiler`` makes
the ``design``, which computes the matrix, whitened or not, and for a survival formula the `SurvivalDesign`. ``outcome``
reads the outcome, and has the intervals of follow-up and their features. ``coefficients`` reads constraints on
coefficients and names them as R does. ``column_space`` tells whether two formulas have the same columns.
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
