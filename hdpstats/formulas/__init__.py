"""What a model's columns are: a formula and a schema become a design, without a look at any row.

``lexer``, ``grammar``, ``wilkinson`` and ``parser`` read a formula, and ``refusals`` says why one cannot be read;
``operations``, ``intervals`` and ``expressions`` know what its transforms do to values and to bounds; ``coding`` turns
categories into columns; ``compiler`` makes the `Design`, which computes the matrix. ``survival`` adds the times and
the event of a survival formula, ``baseline`` the intervals of follow-up and their features. ``geometry`` whitens and
weights the rows of a matrix, ``box`` bounds their columns one by one; ``reference`` makes rows from the schema alone,
for plans without public rows.
"""

from hdpstats.formulas.compiler import compile_design, compile_one_sided
from hdpstats.formulas.design import Design
from hdpstats.formulas.parser import ParsedFormula, parse
from hdpstats.formulas.survival import SurvivalDesign, compile_survival

__all__ = [
    "Design",
    "ParsedFormula",
    "SurvivalDesign",
    "compile_design",
    "compile_one_sided",
    "compile_survival",
    "parse",
]
