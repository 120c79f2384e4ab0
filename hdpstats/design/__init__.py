"""What a model's columns are: a formula and a schema become a design, without a look at any row.

``lexer``, ``grammar``, ``wilkinson`` and ``parser`` read a formula; ``operations``, ``intervals`` and
``expressions`` know what its transforms do to values and to bounds; ``coding`` turns categories into columns;
``compiler`` makes the `Design`, which computes the matrix.
"""

from hdpstats.design.compiler import compile_design
from hdpstats.design.design import Design, DesignColumn, Level
from hdpstats.design.parser import LeftSide, ParsedFormula, Term, parse

__all__ = ["Design", "DesignColumn", "LeftSide", "Level", "ParsedFormula", "Term", "compile_design", "parse"]
