"""docs/SPACES.md is what the targets say, and its examples run."""

import re

from docs.support import spaces
from mimw.target import TARGETS


def test_the_page_is_what_the_targets_say(capsys):
    """Else: python docs/support/spaces.py"""
    assert spaces.main(["--check"]) == 0
    assert spaces.main(["--print"]) == 0
    told = capsys.readouterr().out
    assert told.rstrip() in spaces.PAGE.read_text()
    assert all(f"`{chip}`" in told for chip in TARGETS)


def test_the_examples_run():
    (example, ) = re.findall(r"```python\n(.*?)```", spaces.PAGE.read_text(), re.DOTALL)
    scope = {}
    for line in example.splitlines():
        code, _, said = line.partition("#")
        if said:
            assert eval(code, scope) == eval(re.split(r":| \(", said)[0].strip()), line
        else:
            exec(code, scope)


def test_every_error_of_the_page_is_one():
    import mimw.errors

    named = re.findall(r"^\| `(\w+)` \|", spaces.PAGE.read_text().partition("## What is refused")[2], re.MULTILINE)
    assert len(named) == 5 and all(issubclass(getattr(mimw.errors, name), mimw.errors.MimwError) for name in named)
