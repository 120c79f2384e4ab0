"""What the pages need of Sphinx: mathematics as MathML, what code prints, words of the glossary, and references."""

import argparse
import base64
import hashlib
import html
import inspect
import io
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import measured
import nbformat
from content import (
    AS_USUAL,
    DOCS,
    FROM_CODE,
    GLOSSARY,
    PRINTED,
    ROOT,
    block_place,
    glossary,
    introductions,
    printed_place,
    purposes,
    resolved,
    twins,
)
from docutils import nodes
from docutils.utils.math import latex2mathml
from PIL import Image
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator
from sphinx_design.shared import PassthroughTextElement

import hdpstats.api as hdp
from hdpstats.cli import parser
from hdpstats.custodian.settings import SiteSettings

# Mathematics


def _plain_tex(formula: str) -> str:
    """Return a formula without what docutils does not read: sizes of brackets, some names of dots, short fractions."""
    formula = re.sub(r"\\[Bb]igg?(?![a-z])", "", formula).replace(r"\dots", r"\ldots")
    return re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", formula)


def _mathml(self: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    """Write a formula as MathML, which browsers show by themselves."""
    try:
        written = latex2mathml.tex2mathml(_plain_tex(node.astext()), as_block=block)
    except Exception as error:
        getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        written = f"<code>{self.encode(node.astext())}</code>"
    written = re.sub(r">\s+<", "><", written)
    written = re.sub(r"<mo[^>]*>([|‖∥])</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', written)
    self.body.append(f'<div class="math">{written}</div>' if block else written)
    raise nodes.SkipNode


def _inline(self: HTML5Translator, node: nodes.Element) -> None:
    _mathml(self, node, block=False)


def _block(self: HTML5Translator, node: nodes.Element) -> None:
    _mathml(self, node, block=True)


# Vignettes


def _read(script: str, language: str) -> nbformat.NotebookNode:
    """Return a vignette as a notebook, with the outputs that a test run kept, where there are any."""
    notebook = jupytext.reads(script, fmt=f"{language}:percent")
    place = printed_place(script)
    words = "The outputs of this page are not here: they are kept when the tests have run (`make test test-wide`)."
    if place.exists():
        kept = nbformat.read(place, as_version=4)
        outputs = [cell.outputs for cell in kept.cells if cell.cell_type == "code"]
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell, own in zip(cells, outputs, strict=True):
            cell.outputs = own
        words = (
            "The outputs are those of a test run: with seeded noise in Python, and fewer draws and repetitions than "
            "the code asks for. Yours will differ."
        )
    note = nbformat.v4.new_markdown_cell(f":::{{note}}\n{words}\n:::")
    notebook.cells.insert(1, note)
    section = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            section = (re.findall(r"^#+ (.*)$", cell.source, flags=re.M) or [section])[-1]
        else:
            cell.metadata["mystnb"] = {"image": {"alt": f"Figure of the section {section}"}}
    return notebook


def read_python_vignette(script: str) -> nbformat.NotebookNode:
    """Read a vignette in Python."""
    return _read(script, "py")


def read_r_vignette(script: str) -> nbformat.NotebookNode:
    """Read a vignette in R."""
    return _read(script, "R")


def _lighter(picture: Image.Image) -> bytes:
    """Return a picture as PNG with a palette: figures have few colours."""
    with io.BytesIO() as file:
        picture.convert("RGB").quantize(128).save(file, format="PNG", optimize=True)
        return file.getvalue()


def thumbnail(script: str) -> bytes | None:
    """Return the first figure that a vignette drew, where it is kept."""
    place = printed_place(script)
    if not place.exists():
        return None
    for cell in nbformat.read(place, as_version=4).cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                with io.BytesIO(base64.b64decode(output["data"]["image/png"])) as file, Image.open(file) as drawn:
                    small = drawn.convert("RGB")
                small.thumbnail((480, 480))
                return _lighter(small)
    return None


# Words of the glossary

LINKED = ("docs/index", "docs/start/", "docs/how-to/", "docs/understand/", "docs/about/", "vignettes/")
"""Pages on which words are linked; pages of decisions and measurements are not among them."""
NOT_LINKED = (GLOSSARY, "vignettes/decisions/", "vignettes/validation/")


def without_links_to_code(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Leave the text of links that lead to a file of code in the repository, which is no page."""
    code = r"\[([^\]]+)\]\((?:\.\./)*(?:hdpstats|r_bridge|tests|tools|benchmarks)/[^)\s]*\.(?:py|R)\)"
    source[0] = re.sub(code, r"\1", source[0])


def with_what_was_measured(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put figures above long tables of pages that studies write, and below their titles how to repeat them."""
    if page.startswith((measured.STUDIES, measured.BENCHMARKS)):
        source[0] = measured.shown(page, source[0])


def _spelling(word: str) -> str:
    """Return a pattern of a word: singular or plural, with a capital or without."""
    first, others = word[0], re.escape(word[1:]).replace("\\ ", r"\s+")
    return rf"(?<![\w.-])[{first}{first.upper()}]{others}s?(?![\w-])"


def link_words(app: Sphinx, doctree: nodes.document) -> None:
    """Make the first use of each word of the glossary on a page a link to it."""
    page = app.env.current_document.docname
    if not page.startswith(LINKED) or page.startswith(NOT_LINKED):
        return
    waiting = {word: re.compile(_spelling(word)) for word in sorted(set(glossary()) - AS_USUAL, key=len, reverse=True)}
    inside = nodes.title | nodes.reference | nodes.literal | nodes.FixedTextElement | nodes.math | addnodes.pending_xref
    inside |= nodes.raw | PassthroughTextElement  # titles of cards
    linked_in = nodes.paragraph | nodes.emphasis | nodes.strong
    for text in list(doctree.findall(nodes.Text)):
        above = text.parent
        if _within(above, inside):
            continue
        if not isinstance(above, linked_in):
            for word in [word for word, pattern in waiting.items() if pattern.search(text.astext())]:
                getLogger(__name__).warning("the word %r of the glossary is used and not linked", word, location=text)
            continue
        pieces: list[nodes.Node] = [text]
        for word in list(waiting):
            for place, piece in enumerate(pieces):
                found = waiting[word].search(piece.astext()) if isinstance(piece, nodes.Text) else None
                if found is not None:
                    before, own, after = piece[: found.start()], found[0], piece[found.end() :]
                    link = addnodes.pending_xref(
                        "",
                        nodes.inline("", own, classes=["glossary-word"]),
                        refdomain="std",
                        reftype="term",
                        reftarget=word,
                        refdoc=page,
                        refexplicit=True,
                        refwarn=True,
                    )
                    pieces[place : place + 1] = [nodes.Text(before), link, nodes.Text(after)]
                    del waiting[word]
                    break
        if len(pieces) > 1:
            above.replace(text, [piece for piece in pieces if piece.astext()])


def _within(node: nodes.Node | None, kinds: Any) -> bool:
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False


def show_printed(app: Sphinx, doctree: nodes.document) -> None:
    """Put below each block of code what it printed when tests last ran it, folded."""
    page = app.env.current_document.docname
    if not page.startswith("docs/"):
        return
    for block in list(doctree.findall(nodes.literal_block)):
        place = block_place(page, block.astext())
        if block.get("language") in ("python", "r") and place.exists():
            text = place.read_text(encoding="utf-8")
            shown = nodes.literal_block(text, text, language="none")
            begin = "<details class='printed'><summary>What it prints (with the noise of a test run)</summary>"
            folded = [nodes.raw("", begin, format="html"), shown, nodes.raw("", "</details>", format="html")]
            block.parent[block.parent.index(block) + 1 : block.parent.index(block) + 1] = folded


def with_new_outputs(
    _app: Sphinx, env: BuildEnvironment, _added: set[str], _changed: set[str], _removed: set[str]
) -> list[str]:
    """Return the pages that were read before what their code printed was kept."""
    kept = max((place.stat().st_mtime for place in PRINTED.glob("*")), default=0.0)
    places = ("vignettes/", "docs/index", "docs/start/", "docs/how-to/")
    shown = [page for page in env.all_docs if page.startswith(places) and not page.startswith(NOT_LINKED)]
    return [page for page in shown if kept > env.all_docs[page] / 1e6]


# References that are made from code


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    """Return the reST of a docstring as Markdown: references and literals become code."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"`~?(?:hdpstats\.)?([^`]+)`", r"`\1`", text)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def first_line(value: object) -> str:
    """Return the first paragraph of a docstring."""
    return _code((inspect.getdoc(value) or "").partition("\n\n")[0])


def _attribute_line(owner: type, name: str) -> str:
    """Return what the docstring of a class says of a field, else that of the method or property itself."""
    value = inspect.getattr_static(owner, name, None)
    own = inspect.getdoc(value) or ""
    if value is not None and (isinstance(value, property) or (own and not inspect.isdatadescriptor(value))):
        return _code(own.partition("\n\n")[0])
    lines = (inspect.getdoc(owner) or "").splitlines()
    for place, line in enumerate(lines):
        if re.match(rf"[\w, ]*\b{re.escape(name)}\b[\w, ]*(:|$)", line) and lines[place + 1 : place + 2]:
            said = []
            for each in lines[place + 1 :]:
                if not each.startswith("    "):
                    break
                said.append(each.strip())
            if said:
                return _code(" ".join(said))
    return ""


def _methods() -> str:
    parts = []
    for purpose, classes in purposes().items():
        rows = []
        for owner, names in classes.items():
            for name in names:
                attribute = inspect.getattr_static(getattr(hdp, owner), name)
                call = (
                    "" if isinstance(attribute, property) or not callable(getattr(getattr(hdp, owner), name)) else "()"
                )
                rows.append([f"`{owner}.{name}{call}`", _attribute_line(getattr(hdp, owner), name)])
        parts.append(f"## {purpose}\n\n{_table(['name', 'what it is'], rows)}")
    return "\n".join(parts)


def _help_pages() -> dict[str, str]:
    """Return the help page of each name of the R package."""
    found = {}
    for page in sorted((ROOT / "r_bridge" / "R" / "hdpstats" / "man").glob("*.Rd")):
        for alias in re.findall(r"\\(?:alias|name)\{([^}]*)\}", page.read_text(encoding="utf-8")):
            found[alias] = page.stem
    return found


def _twins() -> str:
    pages = _help_pages()
    parts = []
    for subject, functions in twins().items():
        rows = []
        for name, twin in functions.items():
            page = (
                pages.get(name)
                or pages.get(f"{name.rpartition(':')[2]}.dp_result")
                or pages.get(name.rpartition(":")[2])
            )
            shown = f"[`{name}`](../r/{page}.md)" if page else f"`{name}`"
            rows.append([shown, f"`{twin}`" if twin else "", first_line(resolved(twin)) if twin.count(".") else ""])
        parts.append(f"## {subject}\n\n{_table(['R', 'Python', 'what it is'], rows)}")
    return "\n".join(parts)


def _commands(top: argparse.ArgumentParser, words: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    deeper = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    if not deeper:
        yield words, top
    for action in deeper:
        for name, sub in action.choices.items():
            yield from _commands(sub, f"{words} {name}")


def _command_line() -> str:
    parts = []
    for words, command in _commands(parser(), "hdpstats"):
        said = {each.dest: each.help for action in _group_of(words) for each in action._choices_actions}
        rows = [
            [f"`{', '.join(action.option_strings) or action.metavar}`", action.help or ""]
            for action in command._actions
            if not isinstance(action, argparse._HelpAction)
        ]
        meaning = (said.get(words.split()[-1]) or "").capitalize()
        parts.append(f"## `{words}`\n\n{meaning}.\n\n{_table(['argument', 'what it is'], rows)}")
    return "\n".join(parts)


def _group_of(words: str) -> Iterator["argparse._SubParsersAction[Any]"]:
    """Yield the action that holds the help of a command."""
    top = parser()
    for word in words.split()[1:]:
        action = next(each for each in top._actions if isinstance(each, argparse._SubParsersAction))
        if word == words.split()[-1]:
            yield action
        top = action.choices[word]


def _sections(section: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every section of the settings, by where it stands in the file."""
    yield path, section
    for name, field in section.model_fields.items():
        for inner in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if inspect.isclass(inner) and hasattr(inner, "model_fields"):
                yield from _sections(inner, f"{path}{field.alias or name}: ")


def _settings() -> str:
    parts = []
    for path, section in _sections(SiteSettings):
        rows = []
        for name, field in section.model_fields.items():
            needed = "needed" if field.is_required() else _default(field)
            rows.append([f"`{field.alias or name}`", needed, _attribute_line(section, name)])
        heading = f"`{path.rstrip(': ')}:`" if path else "The file"
        parts.append(f"## {heading}\n\n{first_line(section)}\n\n{_table(['entry', 'default', 'what it is'], rows)}")
    return "\n".join(parts)


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_fields"):
        return "see below"
    return "none" if value is None else f"`{value}`"


def _files() -> str:
    saved = {name: getattr(hdp, name) for name in hdp.__all__}
    rows = [
        [f"`hdp.{name}`", each._what, f"{each._format}", f"`hdp.{name}.from_json(path)`"]
        for name, each in saved.items()
        if inspect.isclass(each) and hasattr(each, "_what")
    ]
    return _table(["class", "the file holds", "format", "read by"], rows)


def _errors() -> str:
    rows = []
    for name in sorted(hdp.__all__):
        value = getattr(hdp, name)
        if inspect.isclass(value) and issubclass(value, hdp.HdpError):
            parents = [
                each.__name__ for each in value.__mro__[1:] if issubclass(each, Exception) and each is not Exception
            ]
            condition = "dp_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
            said = _code(inspect.getdoc(value) or "").replace("\n\n", " ")
            shown = "dp_error" if name == "HdpError" else condition
            rows.append([f"`hdp.{name}`", f"`{shown}`", ", ".join(f"`{each}`" for each in parents), said])
    return _table(["Python", "R", "is also a", "when"], rows)


_MADE = (_methods, _twins, _command_line, _settings, _files, _errors)


def write_if_changed(path: Path, text: str) -> None:
    """Write a page, unless it is there already: an unchanged page is not read again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_reference(_app: Sphinx) -> None:
    """Write the reference pages that are made from code."""
    above = introductions()
    for name, tables in zip(FROM_CODE, _MADE, strict=True):
        write_if_changed(DOCS / "reference" / "from_code" / f"{name}.md", f"{above[name].lstrip()}\n{tables()}")


_BOX = '<div class="pst-scrollable-table-container">'


def _in_markdown(page: str, name: str, known: dict[str, str]) -> str:
    """Return R's HTML of a help page with headings and code in Markdown, and links to other help pages."""

    def linked(found: re.Match[str]) -> str:
        other = known.get(found[1], name)
        return found[0] if other == name else f'<a href="{other}.html">{found[0]}</a>'

    page = re.sub(r"<code>(dp_\w+)(?:\(\))?</code>", linked, page).replace(
        "<table>", f'{_BOX}<table class="table arguments">'
    )
    page = page.replace("</table>", "</table></div>")
    parts = []
    for piece in re.split(r"(<h3>.*?</h3>|<pre><code[^>]*>.*?</code></pre>)", page, flags=re.S):
        if piece.startswith("<h3>"):
            parts.append(f"## {re.sub('<.*?>', '', piece)}")
        elif piece.startswith("<pre>"):
            parts.append(f"```r\n{html.unescape(re.sub('<.*?>', '', piece)).strip()}\n```")
        elif piece.strip():
            parts.append(f"```{{raw}} html\n{piece.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def remove_old_pages(_app: Sphinx) -> None:
    """Remove pages that were made for names and help pages that are no longer there."""
    listed = {page.stem for page in (ROOT / "r_bridge" / "R" / "hdpstats" / "man").glob("*.Rd")}
    for page in (DOCS / "reference").glob("*.rst"):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            module = (
                line.removeprefix(".. currentmodule::").strip() if line.startswith(".. currentmodule::") else module
            )
            listed.add(f"{module}.{line.strip()}")
    for folder in ("generated", "r"):
        for made in (DOCS / "reference" / folder).glob("*"):
            if made.stem not in listed:
                made.unlink()


def _without_own_link(page: str) -> str:
    """Return a help page without its link to the site, where it stands."""
    return re.sub(r"\\seealso\{\s*\}\n", "", re.sub(r"\s*\\pages\{[^}]*\}", "", page))


def _used_on() -> dict[str, list[str]]:
    """Return, by function of R, links to the pages whose blocks call it."""
    found: dict[str, list[str]] = {}
    for page in sorted([*DOCS.glob("start/*.md"), *DOCS.glob("how-to/*.md")]):
        text = page.read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"^```r\n(.*?)^```$", text, flags=re.M | re.S))
        link = f"[{text.partition(chr(10))[0].lstrip('# ')}](/{page.relative_to(ROOT).as_posix()})"
        for name in sorted(set(re.findall(r"\bdp_\w+(?=\()", blocks))):
            found.setdefault(name, []).append(link)
    return found


def write_r_pages(_app: Sphinx) -> None:
    """Write a page for each help page of the R package, and their index."""
    folder = DOCS / "reference" / "r"
    help_pages = sorted((ROOT / "r_bridge" / "R" / "hdpstats" / "man").glob("*.Rd"))
    known = _help_pages()
    used = _used_on()
    code = "for (path in commandArgs(TRUE)) tools::Rd2HTML(path, out = paste0(path, '.html'))"
    with tempfile.TemporaryDirectory() as scratch:
        copies = [Path(scratch) / page.name for page in help_pages]
        for page, copy in zip(help_pages, copies, strict=True):
            copy.write_text(_without_own_link(page.read_text(encoding="utf-8")), encoding="utf-8")
        subprocess.run(["Rscript", "-e", code, *copies], check=True, stdout=subprocess.DEVNULL)
        for page, copy in zip(help_pages, copies, strict=True):
            body = Path(f"{copy}.html").read_text(encoding="utf-8").partition("</h2>")[2]
            body = _in_markdown(
                body.partition("<hr")[0].partition("</body>")[0].strip().removesuffix("</div>"), page.stem, known
            )
            title = re.search(r"\\title\{(.*?)\}", page.read_text(encoding="utf-8"), flags=re.S)
            head = f"{page.stem}: {' '.join(title[1].split())}" if title else page.stem
            links = {place: None for name, stem in known.items() if stem == page.stem for place in used.get(name, ())}
            seen = f"## Pages that use it\n\n{' · '.join(links)}\n" if links else ""
            write_if_changed(folder / f"{page.stem}.md", f"# {head}\n\n{body}\n{seen}")
    names = "\n".join(f"r/{page.stem}" for page in help_pages)
    write_if_changed(
        folder.parent / "r.md",
        "# Help pages of the R package\n\n`library(hdpstats)` in R; `?dp_logit` shows the same text. "
        "[Which function is which in Python](from_code/twins.md).\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n",
    )


def write_gallery(_app: Sphinx) -> None:
    """Write the cards of the gallery, with the first figure of each vignette where it is kept."""
    shelves = tomllib.loads((DOCS / "gallery.toml").read_text(encoding="utf-8"))
    parts = ["# Gallery\n\nWhole analyses, from the first line to the last. Tests run every one of them.\n"]
    pages = []
    for shelf, entries in shelves.items():
        cards = []
        for name, words in entries.items():
            source = next(path for end in ("py", "R") if (path := ROOT / "vignettes" / f"{name}.{end}").exists())
            script = source.read_text(encoding="utf-8")
            title = re.search(r"^# # (.*)$", script, flags=re.M)
            picture = thumbnail(script)
            image = ""
            if picture is not None:
                place = DOCS / "_thumbnails" / f"{name}.png"
                place.parent.mkdir(exist_ok=True)
                if not place.exists() or place.read_bytes() != picture:
                    place.write_bytes(picture)
                image = f":img-top: _thumbnails/{name}.png\n:img-alt: First figure of {name}\n"
            language = "R" if source.suffix == ".R" else "Python"
            cards.append(
                f":::{{grid-item-card}} {title[1] if title else name}\n:link: /vignettes/{name}\n:link-type: doc\n"
                f"{image}\n{words} *{language}.*\n:::"
            )
            pages.append(f"/vignettes/{name}")
        parts.append(f"## {shelf}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n\n" + "\n\n".join(cards) + "\n::::\n")
    parts.append("```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n")
    write_if_changed(DOCS / "gallery.md", "\n".join(parts))


def without_empty_heads(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Make head cells of tables that say nothing ordinary cells: nobody should hear of a column without a name."""
    if "body" in context:
        context["body"] = re.sub(r"<th([^>]*)>\s*(?:<p>\s*</p>)?\s*</th>", r"<td\1></td>", context["body"])


def make_lighter(app: Sphinx, failure: Exception | None) -> None:
    """Make pages load less: icons are a font, the search's index is for its page alone, pictures have a palette."""
    if failure is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    theme = out / "_static" / "scripts" / "pydata-sphinx-theme.js"
    used = set(re.findall(r"fa-[a-z0-9-]+", theme.read_text(encoding="utf-8")))
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        used |= set(re.findall(r"fa-[a-z0-9-]+", text))
        others = r"mystnb|sphinx-design|copybutton|clipboard|design-tabs"
        left_out = others if page == out / "search.html" else r"searchtools|language_data|searchindex"
        script = rf'<script[^>]*src="[^"]*(?:scripts/fontawesome|{left_out})[^"/]*"></script>\s*'
        light = re.sub(rf'{script}|<link[^>]*href="[^"]*(?:{left_out})[^"/]*\.css[^"/]*"[^>]*>\s*', "", text)
        if light != text:
            page.write_text(light, encoding="utf-8")
    _without_icons(out / "_static" / "styles" / "pydata-sphinx-theme.css", used)
    for path in (out / "_images").glob("*.png"):
        with Image.open(path) as picture:
            light = None if picture.mode == "P" else _lighter(picture)
        if light is not None and len(light) < path.stat().st_size:
            path.write_bytes(light)


def _without_icons(style: Path, used: set[str]) -> None:
    """Take rules of icons that no page has out of the style of the theme: it has two thousand."""

    def kept(rule: re.Match[str]) -> str:
        return rule[0] if used & set(re.findall(r"fa-[a-z0-9-]+", rule[0])) else ""

    text = style.read_text(encoding="utf-8")
    style.write_text(re.sub(r'(?:\.fa-[a-z0-9-]+,?)+\{--fa:"[^"]*"\}', kept, text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool | int]:
    """Connect what is written before pages are read."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    for made in (remove_old_pages, write_reference, write_r_pages, write_gallery):
        app.connect("builder-inited", made, priority=100)  # before autosummary looks for pages
    app.connect("source-read", with_what_was_measured)
    app.connect("source-read", without_links_to_code)
    app.connect("env-get-outdated", with_new_outputs)
    app.connect("doctree-read", link_words)
    app.connect("doctree-read", show_printed)
    app.connect("html-page-context", without_empty_heads)
    app.connect("build-finished", make_lighter)
    read = [*sorted(DOCS.glob("*.py")), DOCS / "measured.toml", ROOT / f"{GLOSSARY}.md"]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()[:12]  # pages are read anew
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": int(version, 16)}
