"""What pages get besides their text: links of the glossary's words, and what code printed, where tests have run."""

import importlib
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import new_document
from sphinx import addnodes

from tests.vignettes.pages import DOCS, content

SCRIPT = "# %% [markdown]\n# # A title\n\n# %%\nprint(1)\n"


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The extension of Sphinx, with an empty place for what code printed."""
    monkeypatch.syspath_prepend(str(DOCS))
    for name in ("content", "measured", "extension"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    loaded = importlib.import_module("extension")
    printed = importlib.import_module("content")
    monkeypatch.setattr(printed, "PRINTED", tmp_path)
    return loaded


def page(*parts: nodes.Element) -> nodes.document:
    made = new_document("page.md", get_default_settings(Parser))
    made += parts
    return made


def linked(extension: ModuleType, made: nodes.document, name: str = "docs/how-to/plan") -> list[str]:
    """Return the words of the glossary that become links on a page."""
    extension.link_words(SimpleNamespace(env=SimpleNamespace(current_document=SimpleNamespace(docname=name))), made)
    return [link["reftarget"] for link in made.findall(addnodes.pending_xref)]


def test_the_first_use_of_a_word_is_a_link(extension: ModuleType) -> None:
    text = "Epsilons add up in the ledger. The ledger keeps releases; a head is none of its words here."
    assert linked(extension, page(nodes.paragraph("", text))) == ["epsilon", "ledger", "release"]
    assert linked(extension, page(nodes.paragraph("", text)), "vignettes/decisions/0001") == []


def test_a_word_that_is_used_and_not_linked_is_reported(
    extension: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """`make docs` makes the warning an error."""
    with caplog.at_level(logging.WARNING):
        assert linked(extension, page(nodes.caption("", "A ledger"), nodes.paragraph("", "One epsilon."))) == [
            "epsilon"
        ]
    assert [record.getMessage() for record in caplog.records] == [
        "the word 'ledger' of the glossary is used and not linked"
    ]


def test_words_of_titles_and_code_stay_as_they_are(extension: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert linked(extension, page(nodes.title("", "A ledger"), nodes.literal_block("", "epsilon"))) == []
    assert caplog.records == []


def test_a_vignette_has_the_outputs_of_its_test_or_says_where_they_are(extension: ModuleType) -> None:
    empty = extension.read_python_vignette(SCRIPT)
    assert "`make test test-wide`" in empty.cells[1].source
    assert [cell.outputs for cell in empty.cells if cell.cell_type == "code"] == [[]]
    ran = nbformat.v4.new_code_cell("print(1)", outputs=[nbformat.v4.new_output("stream", text="1\n")])
    kept = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A title"), ran])
    extension.printed_place(SCRIPT).write_text(nbformat.writes(kept), encoding="utf-8")
    full = extension.read_python_vignette(SCRIPT)
    assert "those of a test run" in full.cells[1].source
    assert [cell.outputs[0].text for cell in full.cells if cell.cell_type == "code"] == ["1\n"]
    assert (
        "`make test test-wide`"
        in extension.read_python_vignette(SCRIPT.replace("print(1)", "print(2)")).cells[1].source
    )


def test_a_block_shows_what_it_printed_folded_and_nothing_where_no_test_has_run(extension: ModuleType) -> None:
    app = SimpleNamespace(env=SimpleNamespace(current_document=SimpleNamespace(docname="docs/how-to/plan")))

    def shown() -> list[str]:
        made = page(nodes.literal_block("print(1)", "print(1)", language="python"))
        extension.show_printed(app, made)
        return [node.astext() for node in made.children]

    assert shown() == ["print(1)"]
    place = sys.modules["content"].block_place("docs/how-to/plan", "print(1)")
    place.write_text("1\n", encoding="utf-8")
    assert place.name == content.block_place("docs/how-to/plan", "print(1)").name
    assert shown()[2] == "1\n"
    assert "<details" in shown()[1]
