"""The example of docs/DISTRIBUTED.md runs as it is printed, and with the scope of a GPU it is refused as the page says."""

import contextlib
import io
import re
import runpy
import tempfile
from pathlib import Path

import pytest

from tests.ranks import at_ranks

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_of_processes():
    """The page's second program behind the first one's kernel, in a world of one rank."""
    pytest.importorskip("torch", reason="mimw.distributed stands on torch.distributed")
    page = (DOCS / "DISTRIBUTED.md").read_text()
    kernel, script = (re.search(rf"<!-- {name} example -->\n```python\n(.*?)```", page, re.DOTALL).group(1)
                      for name in ("distributed", "real"))

    def work(rank):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            Path(folder, "script.py").write_text(kernel.partition("world = ")[0] + script)
            runpy.run_path(str(Path(folder, "script.py")))
        return said.getvalue()

    assert at_ranks(1, work) == ["0 1 0.0\n"] and "world of one rank: 0 1 0.0" in page


def test_the_example(tmp_path, capsys):
    page = (DOCS / "DISTRIBUTED.md").read_text()
    text = re.search(r"<!-- distributed example -->\n```python\n(.*?)```", page, re.DOTALL).group(1)
    (tmp_path / "right.py").write_text(text)
    runpy.run_path(str(tmp_path / "right.py"))
    assert capsys.readouterr().out.splitlines() == ["True", "[3, 0, 1, 2]"]
    narrow = text.replace("+ tl.program_id(0))  ", '+ tl.program_id(0), scope="gpu")').replace("0), 1)", '0), 1, scope="gpu")')
    (tmp_path / "narrow.py").write_text(narrow.replace(".ok)", ")"))
    runpy.run_path(str(tmp_path / "narrow.py"))
    said = capsys.readouterr().out
    assert said.startswith("ScopeTooNarrow: argument 'flag' of rank 3, bytes 0 to 3") and 'scope="sys"' in said
    assert said.endswith("[3, 0, 1, 2]\n")
    assert "which ends at the GPU: to each other they are no atomics" in said
