"""The exit status of `mimw check`, which scripts and CI go by: 0 nothing found, 1 something found, 2 not checked."""

import pytest

from mimw.cli import main
from tests.kernels import handed_over, rings

FILE = handed_over.__file__
RING = [f"{rings.__file__}:stored", "--args", "fp16[64,32]/16,32", "fp16[64,32]", "4"]
QUICK = ["--seeds", "1", "--mend-time", "0", "--no-rounds"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files as a hook may name them; `main` is called in their folder."""
    texts = {"right": "from tests.kernels import handed_over\n\ndef case():\n    return handed_over.case()\n",
             "without": "raise SystemExit('a hook runs no file without a case')\n",
             "raising": "def case():\n    raise KeyError('mine')\n",
             "refused": "import mimw\n\n@mimw.jit\ndef kernel(x):\n    print(undefined)\n\ndef case():\n    import numpy as np\n"
                        "    return kernel, (1, ), (np.zeros(1, np.float32), ), {}\n",
             "broken": "def case(:\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("status, words", [
    (0, [f"{FILE}:case"]), (0, [f"{FILE}:case", "--json"]),
    (1, [f"{FILE}:case_unordered"]), (1, [f"{FILE}:case_unordered", "--json"]),
    (1, [*RING[:2], "fp16[64,32]/32,32", *RING[3:], "ARRIVE=True"]),        # what the compiler refuses is a finding
    (0, ["--cases", "right.py", "without.py"]), (0, ["--cases", "without.py"]), (1, ["--cases", "right.py", FILE]),
    (1, ["--cases", f"{FILE}:case_unordered"]),
    (2, [f"{FILE}:gone"]), (2, ["gone.py:case"]), (2, ["right.py"]), (2, [f"{FILE}:case", "--args", "1"]), (2, ["raising.py:case"]),
    (2, [f"{FILE}:case", f"{FILE}:case_unordered"]), (2, ["refused.py:case"]), (2, ["broken.py:case"]),
    (2, ["--cases", "gone.py"]), (2, ["--cases", "broken.py"]), (2, ["--cases", "right.py", "--args", "1"]),
    (2, ["--cases", "raising.py", FILE])])       # something is found besides, and not everything was checked
def test_the_status(status, words, files, capsys):
    assert main(["check", *words, *QUICK]) == status
    shown = capsys.readouterr()
    assert (shown.err.startswith("mimw: ")) is (status == 2), shown.err
    checked = status < 2 and words != ["--cases", "without.py"] or words[-1] == FILE
    assert (" found in " in shown.out or '"ok"' in shown.out) is checked


@pytest.mark.parametrize("words", [[], [f"{FILE}:case", "--nonsense"], [f"{FILE}:case", "--search", "neither"]])
def test_a_command_line_that_is_none(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["check", *words])
    assert end.value.code == 2 and "usage: mimw check" in capsys.readouterr().err


def test_no_runs_are_not_nothing_found(capsys):
    assert main(["check", *RING, "ARRIVE=True", "--seeds", "0"]) == 2


def test_cases_that_cannot_be_checked_keep_no_other_from_it(files, capsys):
    assert main(["check", "--cases", "raising.py", "right.py", *QUICK]) == 2
    shown = capsys.readouterr()
    assert "mimw: raising.py:case: raising.py:case() raised KeyError: 'mine'" in shown.err
    assert "right.py:case\nok: nothing found in 1 run" in shown.out


def test_files_without_a_case_are_not_run(files, capsys):
    assert main(["check", "--cases", "without.py"]) == 0
    assert capsys.readouterr().out == "no cases in 1 file\n"
    assert main(["check", "--cases", "without.py", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_which_functions_are_cases(tmp_path):
    from mimw.cli.cases import cases_of
    file = tmp_path / "some.py"
    file.write_text("def case(n=1, *, m=2): pass\ndef case_of(n): pass\ndef case_long(): pass\ndef cases(): pass\n"
                    "def case_named(*, n): pass\nclass A:\n    def case(): pass\n")
    assert cases_of([str(file), "other.py:launch", str(file)]) == [f"{file}:case", f"{file}:case_long", "other.py:launch"]
