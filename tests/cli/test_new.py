"""Files to start from run, are checked and compile; the script of a shell completes what there is."""

import json
import shutil
import subprocess

import pytest

from mimw.cli import COMMANDS, main
from mimw.cli.new import starts


@pytest.fixture
def here(tmp_path, monkeypatch):
    import sys
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    return tmp_path


@pytest.mark.parametrize("kind", starts())
def test_a_start_runs_and_is_right(kind, here, capsys):
    assert main(["new", kind, "-o", f"my_{kind}.py"]) == 0
    assert f"mimw check my_{kind}.py:case" in capsys.readouterr().out
    assert f"python my_{kind}.py " in (here / f"my_{kind}.py").read_text()
    assert main(["run", f"my_{kind}.py"]) == 0
    assert main(["check", f"my_{kind}.py:case", "--seeds", "1", "--no-rounds", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "nothing found" in told and "results compared: '" in told and "as expected in 1 run" in told and "note:" not in told


def test_nothing_is_written_over_or_hidden(here, capsys):
    assert main(["new", "gemm", "--json"]) == 0 and json.loads(capsys.readouterr().out)["path"] == "gemm.py"
    assert main(["new", "gemm"]) == 1 and "gemm.py is there already" in capsys.readouterr().err
    assert main(["new", "gemm", "--force"]) == 0
    assert main(["new", "gemm", "-o", "copy.py"]) == 1 and "would hide Python's own module 'copy'" in capsys.readouterr().err
    assert main(["new"]) == 0 and all(kind in capsys.readouterr().out for kind in [starts()[0]])


def completed(script: str, line: str) -> list[str]:
    """What bash offers at the end of `line`."""
    words = line.replace(":", " : ").split(" ")
    call = (f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; COMP_LINE={line!r}; "
            f"COMP_POINT={len(line)}; _mimw; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return subprocess.run(["bash", "-c", f"{script}\n{call}"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_functions(here, capsys):
    main(["new", "gemm"])
    capsys.readouterr()
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "mimw ex") == ["export", "explain"]
    assert completed(script, "mimw export --to") == ["--torch"]
    assert completed(script, "mimw check gemm.py:c") == ["case"] and "gemm" in completed(script, "mimw explain gemm.py:")
    assert completed(script, "mimw new ge") == ["gemm", "gemm.py"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS) and ("bashcompinit" in script) == (shell == "zsh")
