"""Tables: one width in text, escaped in HTML and LaTeX."""

from html.parser import HTMLParser

import pytest
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from hdpstats.display import details, element, key_values, pairs, summary, table

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
