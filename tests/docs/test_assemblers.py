"""docs/ASSEMBLERS.md is what the table says."""

from docs.support import assemblers
from mimw.tools.assemblers import known


def test_the_page_is_what_the_table_says(capsys):
    """Else: python docs/support/assemblers.py"""
    assert assemblers.main(["--check"]) == 0
    assert assemblers.main(["--print"]) == 0
    told = capsys.readouterr().out
    assert told.rstrip() in assemblers.PAGE.read_text()
    assert [line.split("`")[1] for line in told.strip().splitlines()[2:]] == list(known())


def test_the_programs_on_the_page_are_those_of_the_table():
    _, _, part = assemblers.PAGE.read_text().partition("## What the programs gave")
    named = [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(name for name, defect in known().items() if defect.probe)
