"""One report is shown as text, LaTeX and a page; a block may be for one of them only."""

import pytest
from statsmodels.iolib.summary import Summary

from hdpstats.display import Block, Report, Reported, columns, named_values


class Example(Reported):
    def _report(self, alpha=0.05):
        return Report(
            title="An <example>",
            heading="Example",
            blocks=[
                named_values([("Model:", "Logit"), ("Formula:", "y ~ a<b")]),
                named_values([("Text:", "only in text")], only="text"),
                named_values([("Page:", "only on a page")], only="page", title="Shown"),
                columns(
                    ["coef", f"[{alpha / 2:g}"], ["age", "x_1"], [["0.5", "0.1"], ["2", "1"]], title="T", folded=True
                ),
                Block(html=lambda: "<p>bars</p>"),
            ],
            notes=["A note with 5 %."],
            badges=["one", "two"],
            ending=("More", "the <end>"),
        )


def test_text_has_its_own_blocks_and_no_titles_of_the_page():
    text = str(Example())
    assert isinstance(Example().summary(), Summary)
    assert text.splitlines()[0].strip() == "An <example>"
    assert "Model:" in text
    assert "only in text" in text
    assert "A note with 5 %." in text
    for other in ("only on a page", "Shown", "bars", "More", "two"):
        assert other not in text


def test_a_page_has_its_own_blocks_and_every_text_is_escaped():
    page = Example()._repr_html_()
    assert "<strong>Example</strong>" in page
    assert "only in text" not in page
    assert "Model:" not in page
    assert '<th style="text-align: left">Model</th>' in page
    assert "y ~ a&lt;b" in page
    assert '<div class="hdp-section">Shown</div>' in page
    assert "<details><summary>T</summary>" in page
    assert page.index("bars") < page.index("A note") < page.index("<summary>More</summary><p>the &lt;end&gt;</p>")


def test_the_level_reaches_text_and_a_page_keeps_95_percent():
    assert "[0.05" in Example().summary(0.1).as_text()
    assert "[0.025" in Example()._repr_html_()


def test_latex_is_escaped():
    latex = Example()._repr_latex_()
    assert latex == Example().summary().as_latex()
    assert r"x\_1" in latex
    assert r"5 \%" in latex
    assert "a$<$b" in latex


def test_rows_and_names_must_agree():
    with pytest.raises(ValueError, match="shorter"):
        columns(["coef"], ["age", "size"], [["1"]])
