"""What a model's columns are: a formula and a schema become a design, and no row is read.

* ``bases``: How ``bs``, ``ns``, ``rcs`` and ``poly`` become columns, with declared knots and constants.
* ``coding``: What the factors of a formula are, given a schema: numbers, bases of several columns, levels, categories;
  and how these are coded as columns.
* ``coefficients``: Coefficients by their names: as R has them, and in linear constraints.
* ``column_space``: The canonical basis of a model's column space: what a query asks about, however the formula was
  written.
* ``compiler``: From a formula and a schema to a design, before any row is read.
* ``design``: The design: which columns a model has, within which bounds, and their values in the rows of a table,
  also whitened.
* ``expressions``: Expressions of a formula, and their two readings: the values they take and the bounds of those
  values.
* ``grammar``: From the words of one factor, such as ``log(x + 1)`` or ``C(size)``, to an expression.
* ``knots``: Knots that a formula leaves out: quantiles of public rows, written into the formula before anything else
  reads it.
* ``levels``: Factors that are categories, or have a part beside the terms: ``C(x, …)``, ``relevel(…)``, ``cut(…)``,
  ``offset(x)``.
* ``lexer``: The words of a formula: text to tokens, with every limit on size checked before anything reads them.
* ``operations``: What a formula may do with columns: how each operation maps values and bounds, and how anything else
  is refused.
* ``outcome``: The outcome of a model: which columns it is read from, on which scale its loss works; intervals of
  follow-up.
* ``parser``: From the text of a formula to its terms.
* ``splines``: Splines with given knots, B-splines, natural and restricted cubic ones, as piecewise polynomials in
  Bernstein form.
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
