"""Pages for notebooks: every text escaped, every colour from the theme, the same thing twice."""

import re

import pytest

from hdpstats.display import STYLE, grid, key_values, meter, notes, page, section

NASTY = "<script>alert('x')</script> & \"y\""
COLOUR = re.compile(
    r"#[0-9a-fA-F]{3,8}\b|\b(?:rgba?|hsla?|hwb|lab|lch|oklab|oklch|color)\("
    r"|:\s*(?:white|black|gr[ae]y|red|blue)\b"
)


def outside_fallbacks(style):
    """Return a stylesheet without what stands between the parentheses of var(...)."""
    kept, depth, place = [], 0, 0
    while place < len(style):
        if depth == 0 and style.startswith("var(", place):
            depth, place = 1, place + 4
        elif depth:
            depth += {"(": 1, ")": -1}.get(style[place], 0)
            place += 1
        else:
            kept.append(style[place])
            place += 1
    return "".join(kept)


def test_every_colour_is_the_themes_or_a_fallback():
    assert COLOUR.findall(STYLE)  # the fallbacks
    assert COLOUR.findall(outside_fallbacks(STYLE)) == []


@pytest.mark.parametrize("wrong", ["p { color: #333; }", "p { background: white }", "p { color: rgb(0, 0, 0) }"])
def test_a_colour_of_ones_own_is_found(wrong):
    assert COLOUR.findall(outside_fallbacks(wrong))


def test_every_variable_of_a_theme_has_a_fallback():
    assert re.findall(r"var\(--jp-[a-z0-9-]+\)", STYLE) == []


def test_rules_touch_nothing_but_pages():
    selectors = re.findall(r"(?m)^([^{}\s][^{}]*)\{", STYLE)
    assert len(selectors) > 15
    for selector in ",".join(selectors).split(","):
        assert selector.strip().startswith(".hdp-page")


@pytest.mark.parametrize(
    "made",
    [
        page(NASTY, badges=[NASTY, NASTY]),
        section(NASTY, ""),
        notes([NASTY]),
        grid([NASTY], [[NASTY]]),
        meter(NASTY, NASTY, [("filled", 0.5)]),
        key_values([(NASTY, NASTY)], caption=NASTY),
    ],
)
def test_texts_are_escaped(made):
    assert "<script>" not in made
    assert made.count("&lt;script&gt;") >= 1
    assert 'y"' not in made.replace(STYLE, "")


def test_shares_stay_within_the_bar():
    made = meter("epsilon", "all", [("filled", 1.7), ("reserved", -0.2)])
    assert "width: 100%" in made
    assert "width: 0%" in made


def test_columns_are_aligned_by_letter_and_the_last_letter_goes_on():
    made = grid(["", "a", "b"], [["x", "1", "2"]], aligns="lr")
    assert re.findall(r"<t[hd] style=\"text-align: (\w+)\"", made) == ["left", "right", "right"] * 2


def test_the_first_badge_stands_out():
    made = page("t", badges=["one", "two"]).replace(STYLE, "")
    assert made.count("hdp-strong") == 1
    assert 'hdp-strong">one<' in made
