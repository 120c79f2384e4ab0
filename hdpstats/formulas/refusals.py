"""How a formula is refused: the offending piece, the reason, the remedy.

Functions that formula users know from R, patsy or formulaic, and that cannot be offered, have their remedy
here.
"""

from hdpstats._base.errors import FormulaError

_LONGEST_PIECE = 60

_LEARNS = "its value for one row depends on the other rows, so it would have to be learned from private rows"
_KNOTS = "its knots and constraints would be learned from private rows"
_SCALE = "write scale(x, mean=50, sd=10) with numbers that you know or that come from public rows"
_SPLINES = "write ns(x, knots=[40, 60]) or ns(x, df=3), whose knots are declared"
_NUMBER = "write a number that you know or that comes from public rows"
_LEVELS = "declare the groups as a Categorical column of the schema"
_ORDER = "the order of the levels is the schema's"
_RENAMED = "it has another name here"
_SURVIVAL = "it belongs to another kind of model"

_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("center", "standardize", "std", "rescale", "zscore"), (_LEARNS, _SCALE)),
    **dict.fromkeys(("cr", "cc", "cs", "te", "rcs", "pspline", "s"), (_KNOTS, _SPLINES)),
    **dict.fromkeys(("cut", "qcut", "bin", "ntile"), (_LEARNS, _LEVELS)),
    **dict.fromkeys(("hashed", "interval", "ifelse", "where"), ("it makes new groups", _LEVELS)),
    **dict.fromkeys(("lag", "lead", "diff", "cumsum"), (_LEARNS, "prepare such a column and declare it")),
    **dict.fromkeys(("rank", "mean", "median", "sd", "var", "min", "max", "sum", "quantile"), (_LEARNS, _NUMBER)),
    **dict.fromkeys(("ordered", "relevel", "Treatment", "Sum", "Poly"), (_ORDER, "declare the reference first")),
    **dict.fromkeys(("as.factor", "Factor", "category"), (_RENAMED, "write factor(x) or C(x)")),
    **dict.fromkeys(("as.numeric", "float", "int"), ("a level is not a number", "declare it as Continuous")),
    **dict.fromkeys(("strata", "cluster", "frailty", "tt", "ridge"), (_SURVIVAL, "leave it out")),
    "Surv": (_SURVIVAL, "write it on the left of ~"),
    "interaction": (_RENAMED, "write a:b"),
    "pow": (_RENAMED, "write I(x^2)"),
    "ln": (_RENAMED, "write log(x)"),
    "offset": ("an offset is not a term", 'give the model offset="column"'),
    "weights": ("weights are not a term", 'give the model weights="column"'),
}

_OFFERED = "the functions are I, C, factor, scale, log, log2, log10, log1p, sqrt, exp, abs, bs, ns, poly"


def refusal(piece: str, reason: str, remedy: str) -> FormulaError:
    """Return the error ``piece: reason; remedy``, whose facts are ``term``, ``reason`` and ``remedy``."""
    shown = piece if len(piece) <= _LONGEST_PIECE else f"{piece[: _LONGEST_PIECE - 3]}..."
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    return FormulaError(f"{shown}: {reason}; {remedy}", term=shown, reason=reason, remedy=remedy)


def function_refusal(name: str) -> FormulaError:
    """Return the error for a function that a formula cannot call."""
    reason, remedy = _FUNCTIONS.get(name, ("a formula does not know this function", _OFFERED))
    return refusal(f"{name}()", reason, remedy)
