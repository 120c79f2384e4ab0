"""Tables: one width in text, escaped in HTML and LaTeX."""

from html.parser import HTMLParser

import pytest
from docx import Document
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from hdpstats.display import columns, details, element, key_values, pairs, summary, table

EVIL = '<script>alert(1)</script> & size[T.<=20] "quoted"'


class Reader(HTMLParser):
    """Collects tags and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data.strip())


def read(markup):
    reader = Reader()
    reader.feed(markup)
    return reader


@pytest.mark.parametrize(
    "markup",
    [
        table([[EVIL]], headers=["value"], stubs=["name"]).as_html(),
        table([["1"]], headers=[EVIL], stubs=["name"]).as_html(),
        table([["1"]], headers=["value"], stubs=[EVIL]).as_html(),
        pairs([("name", EVIL)], width=1000).as_html(),
        pairs([(EVIL, "value")]).as_html(),
        summary("title", [table([["1"]])], [EVIL]).as_html(),
        element("p", EVIL),
        key_values([("name", EVIL)], caption=EVIL),
        details(EVIL, ""),
    ],
)
def test_no_text_breaks_html(markup):
    page = read(markup)
    assert "script" not in page.tags
    assert EVIL in page.texts


def test_the_check_for_broken_html_rejects_statsmodels_own_tables():
    assert "script" in read(SimpleTable([[EVIL]]).as_html()).tags


def test_latex_is_escaped():
    text = summary("title", [table([["50% & more"]], stubs=["a_b"])], ["x <= 1"]).as_latex()
    assert r"50\% \& more" in text
    assert r"\textbf{a\_b}" in text
    assert "x $<$= 1" in text


def test_long_values_go_on_below_in_text_and_stay_whole_in_html():
    words = " ".join(f"word{number}" for number in range(40))
    part = pairs([("Formula:", words), ("Model:", "Logit")])
    assert max(map(len, str(part).splitlines())) <= 78
    assert words in read(part.as_html()).texts
    assert read(part.as_html()).texts.count("Logit") == 1


def test_a_word_longer_than_the_room_is_broken_and_none_is_lost():
    part = pairs([("Formula:", "x" * 200)], width=40)
    assert max(map(len, str(part).splitlines())) <= 40
    assert str(part).count("x") == 200


def test_all_tables_of_a_summary_have_one_width():
    parts = [
        table([["event3", "No.", "2982"]], stubs=["Dep. Variable:"], aligns="rlr"),
        pairs([("Method:", "a method"), ("Formula:", "y ~ x")]),
        table([["1", "2", "3"]], headers=["a", "b", "c"], stubs=["a rather long name of a coefficient"]),
    ]
    lines = summary("title", parts).as_text().splitlines()
    rules = [line for line in lines if set(line) == {"="}]
    assert len(rules) == 4
    assert {len(rule) for rule in rules} == {78}


def test_a_wide_table_widens_the_others():
    parts = [table([["1"]], stubs=["short"]), table([["2"]], stubs=["long" * 40])]
    lines = summary("title", parts).as_text().splitlines()
    assert {len(line) for line in lines if set(line) == {"="}} == {162}


def test_a_summary_is_statsmodels_summary_in_every_form():
    made = summary("A title", [table([["1"]], headers=["coef"], stubs=["age"])], ["A note."])
    assert isinstance(made, Summary)
    for text in (made.as_text(), made.as_html(), made.as_csv(), str(made), made._repr_html_(), made._repr_latex_()):
        assert "A note." in text
        assert "age" in text
    assert made.as_text() == made.as_text()
    assert not any(line.endswith(" ") for line in made.as_text().splitlines())


LONG = "tumour_size_at_the_first_operation_of_the_patient[T.between 20 and 50 mm]"


def test_long_names_go_on_below_and_numbers_stay_in_line():
    rows = [["0.5000", "0.100", "0.300", "0.700"], ["-1.2500", "0.200", "-1.650", "-0.850"]]
    block = columns(["coef", "std err", "[0.025", "0.975]"], ["age", LONG], rows)
    lines = summary("A title", [block.text()]).as_text().splitlines()
    assert max(map(len, lines)) == 78
    numbered = [line for line in lines if line.rstrip().endswith(("0.700", "-0.850", "0.975]"))]
    assert len(numbered) == 3
    assert {len(line) for line in numbered} == {78}
    start = lines.index(numbered[2])
    words = "".join([lines[start].split("-1.2500")[0].strip(), *(line.strip() for line in lines[start + 1 : -1])])
    assert words.replace(" ", "") == LONG.replace(" ", "")


def test_long_names_are_whole_in_every_other_form(tmp_path):
    block = columns(["coef"], ["age", LONG * 2], [["1"], ["2"]])
    made = summary("A title", [block.text()])
    assert LONG * 2 in made.as_html()
    assert LONG * 2 in made.tables[0].as_csv()
    assert (LONG * 2).replace("_", r"\_") in made.as_latex()
    made.to_docx(tmp_path / "long.docx")
    cells = [cell.text for row in Document(str(tmp_path / "long.docx")).tables[0].rows for cell in row.cells]
    assert cells == ["", "coef", "age", "1", LONG * 2, "2"]


def test_a_name_without_any_place_to_break_is_cut():
    lines = str(summary("t", [columns(["coef"], ["x" * 200], [["1"]]).text()])).splitlines()
    assert max(map(len, lines)) == 78
    assert sum(line.count("x") for line in lines) == 200


def test_latex_has_one_table_with_its_headers():
    assert summary("t", [columns(["a", "b"], ["x"], [["1", "2"]]).text()]).as_latex().count(r"\begin{tabular}") == 1
