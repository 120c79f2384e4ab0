"""Numbers as statsmodels writes them."""


def number(value: float, decimals: int = 4) -> str:
    """Return a number with fixed decimals; in scientific form where that would hide it.

    >>> number(0.123456), number(-2.5, 3), number(0.0), number(123456.0), number(float("nan"))
    ('0.1235', '-2.500', '0.0000', '1.235e+05', 'nan')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals}g}"


def p_value(value: float) -> str:
    """Return a p-value with three decimals.

    >>> p_value(0.04321), p_value(1e-9)
    ('0.043', '0.000')
    """
    return f"{value:.3f}"


def percent(value: float) -> str:
    """Return a share as a whole percentage.

    >>> percent(0.1234)
    '12%'
    """
    return f"{100.0 * value:.0f}%"
