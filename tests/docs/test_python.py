"""docs/PYTHON.md: its program runs and prints what the page says; its table has the eight tools."""

import inspect
import re
import runpy
from pathlib import Path

import mimw

PAGE = (Path(__file__).parents[2] / "docs" / "PYTHON.md").read_text()


def test_the_program(tmp_path, capsys):
    text = re.search(r"<!-- six tools -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    (tmp_path / "six.py").write_text(text)
    runpy.run_path(str(tmp_path / "six.py"))
    printed = capsys.readouterr().out
    said = re.search(r"print\(compiled\) +# (.*) \.\.\.", text)[1]
    assert printed.startswith(said) and "--full" in printed and "busy" in printed


def test_the_table():
    listed = re.findall(r"^\| `mimw\.(\w+)\(.*?\)` \| `(\w+)`", PAGE, re.MULTILINE)
    given = {name: str(inspect.signature(getattr(mimw, name)).return_annotation) for name, _ in listed}
    assert given == dict(listed) and len(listed) == 8
