"""How a formula is refused: the offending piece, the reason, the remedy.

Functions that formula users know from R, patsy or formulaic, and that cannot be offered, have their remedy
here.
"""

from difflib import get_close_matches

from hdpstats._base.errors import FormulaError

_LONGEST_PIECE = 60

_LEARNS = "its value for one row depends on the other rows, so it would have to be learned from private rows"
_KNOTS = "its knots and constraints would be learned from private rows"
_SCALE = "write scale(x, mean=50, sd=10) with numbers that you know or that come from public rows"
_SPLINES = "write ns(x, knots=[40, 60]) or ns(x, df=3), whose knots are declared"
_NUMBER = "write a number that you know or that comes from public rows"
_CUT = "write cut(x, c(0, 50, 60, 100)) with the ends of the intervals"
_LEVELS = "declare the groups as a Categorical column of the schema"
_ORDER = "the order of the levels is the schema's"
_RENAMED = "it has another name here"
_SURVIVAL = "it belongs to another kind of model"

_FUNCTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("center", "standardize", "std", "rescale", "zscore"), (_LEARNS, _SCALE)),
    **dict.fromkeys(("cr", "cc", "cs", "te", "rcs", "pspline", "s"), (_KNOTS, _SPLINES)),
    **dict.fromkeys(("qcut", "bin", "ntile", "findInterval"), (_LEARNS, _CUT)),
    **dict.fromkeys(("hashed", "interval", "ifelse", "where"), ("it makes new groups", _LEVELS)),
    **dict.fromkeys(("lag", "lead", "diff", "cumsum"), (_LEARNS, "prepare such a column and declare it")),
    **dict.fromkeys(("rank", "mean", "median", "sd", "var", "min", "max", "sum", "quantile"), (_LEARNS, _NUMBER)),
    **dict.fromkeys(("ordered", "Treatment", "Sum", "Poly"), (_ORDER, 'write C(x, Treatment("level"))')),
    **dict.fromkeys(("Factor", "category"), (_RENAMED, "write factor(x) or C(x)")),
    **dict.fromkeys(("as.numeric", "float", "int"), ("a level is not a number", "declare it as Continuous")),
    "frailty": ("random effects of groups are not fitted", "factor(group) gives every group a fixed effect of its own"),
    "tt": (
        "an effect that changes in time is written in rows",
        "write Surv(start, stop, event) with a row for each spell",
    ),
    "ridge": ("penalties belong to the mechanism, which unshrinks them", "write the columns one by one"),
    "id": (_RENAMED, 'write cluster(id), and give the study unit="id"'),
    "Surv": (_SURVIVAL, "write it on the left of ~"),
    "interaction": (_RENAMED, "write a:b"),
    "pow": (_RENAMED, "write I(x^2)"),
    "ln": (_RENAMED, "write log(x)"),
    "weights": ("weights are not a term", 'give the model weights="column"'),
}

_NAMES = (
    *("I", "C", "factor", "relevel", "cut", "scale", "log", "log2", "log10", "log1p", "sqrt", "exp", "abs", "bs", "ns"),
    *("poly", "offset", "strata", "cluster"),
)
_OFFERED = f"the functions are {', '.join(_NAMES)}"


def refusal(piece: str, reason: str, remedy: str) -> FormulaError:
    """Return the error ``piece: reason; remedy``, whose facts are ``term``, ``reason`` and ``remedy``."""
    shown = piece if len(piece) <= _LONGEST_PIECE else f"{piece[: _LONGEST_PIECE - 3]}..."
    shown = shown if shown.isprintable() else ascii(shown)[1:-1]
    return FormulaError(f"{shown}: {reason}; {remedy}", term=shown, reason=reason, remedy=remedy)


def function_refusal(name: str) -> FormulaError:
    """Return the error for a function that a formula cannot call."""
    close = get_close_matches(name, _NAMES, n=1) or get_close_matches(name.lower(), _NAMES, n=1)
    remedy = f"did you mean {close[0]}()?" if close else _OFFERED
    reason, remedy = _FUNCTIONS.get(name, ("a formula does not know this function", remedy))
    return refusal(f"{name}()", reason, remedy)
