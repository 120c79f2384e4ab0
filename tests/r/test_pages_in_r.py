"""Code blocks of the pages in R run, in one R, a warning being an error, and print what is stated of them."""

import json

import pytest

from tests.vignettes import pages


@pytest.fixture
def run(evaluate):
    """A function that runs a block in R, whose objects go with the test, and returns what it prints."""
    evaluate(".before <- ls(); .options <- options(warn = 2); grDevices::pdf(NULL)")

    def block(code):
        text = json.dumps(code.replace("library(hdpstats)\n", ""))  # its functions are attached
        values = f"source(exprs = parse(text = {text}), local = globalenv(), print.eval = TRUE)"
        return evaluate(f"paste(utils::capture.output({values}), collapse = '\\n')")[0]

    yield block
    evaluate("options(.options); grDevices::graphics.off(); rm(list = setdiff(ls(), .before)); rm(.before, .options)")


@pytest.mark.covering(cases=4)
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("page", pages.with_blocks("r"), ids=pages.named)
def test_blocks_of_r_run(page, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in pages.built_on(page, "r"):
        run(block)
    whole = ""
    for block in pages.blocks(page, "r"):
        printed = run(block)
        pages.keep(page, block, printed, tmp_path)
        whole += f"{printed}\n"
    assert pages.not_printed(page, "r", whole) == []
