"""What README shows runs, block after block in one empty folder, as a reader would paste it."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ELSEWHERE = "hdp.connect("
"""In blocks that need sites elsewhere: the vignette five-hospitals runs what they show."""


@pytest.mark.vignette
@pytest.mark.usefixtures("few_draws")
def test_blocks_of_python_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    assert sum(ELSEWHERE in block for block in BLOCKS) == 1
    names: dict[str, object] = {}
    for block in BLOCKS:
        if ELSEWHERE not in block:
            exec(compile(block, "README.md", "exec"), names)
    assert sorted(path.name for path in tmp_path.glob("*.d*")) == ["rotterdam.db", "table1.docx"]
