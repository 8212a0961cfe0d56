"""Scripts run as `python` runs them."""

import pytest

from mimw.cli.script import split_at_script
from tests.processes import mimw


@pytest.mark.parametrize("argv, own, rest", [
    (["run", "a.py"], ["run", "a.py"], []),
    (["run", "a.py", "-m", "4", "--help"], ["run", "a.py"], ["-m", "4", "--help"]),
    (["run", "-m", "pytest", "-q", "a.py"], ["run", "-m", "pytest"], ["-q", "a.py"]),
    (["simulate", "--seed", "7", "a.py", "--seed", "8"], ["simulate", "--seed", "7", "a.py"], ["--seed", "8"]),
    (["simulate", "--seed=7", "-m", "a", "b"], ["simulate", "--seed=7", "-m", "a"], ["b"]),
    (["run", "--help"], ["run", "--help"], []),
    (["compile", "a.py:k", "-o", "b"], ["compile", "a.py:k", "-o", "b"], []),
    ([], [], []),
])
def test_what_follows_the_script_is_the_scripts(argv, own, rest):
    assert split_at_script(argv) == (own, rest)


def _mimw(tmp_path, *argv, source=""):
    (tmp_path / "script.py").write_text(source)
    (tmp_path / "beside.py").write_text("WHERE = 'beside'\n")
    return mimw(*argv)


def test_a_script_sees_its_arguments_its_name_and_its_folder(tmp_path):
    source = "import sys, beside\nprint(__name__, sys.argv[1:], beside.WHERE)\n"
    run = _mimw(tmp_path, "run", str(tmp_path / "script.py"), "-x", "1", source=source)
    assert (run.stdout, run.stderr, run.returncode) == ("__main__ ['-x', '1'] beside\n", "", 0)


def test_a_module_runs_as_main(tmp_path):
    run = _mimw(tmp_path, "run", "-m", "json.tool", "--help")
    assert "json.tool" in run.stdout and run.returncode == 0


def test_the_scripts_exit_status_is_ours(tmp_path):
    assert _mimw(tmp_path, "run", str(tmp_path / "script.py"), source="raise SystemExit(3)").returncode == 3


def test_a_missing_script_is_said_without_a_traceback(tmp_path):
    run = _mimw(tmp_path, "run", "nowhere.py")
    assert run.returncode == 1
    assert run.stderr.startswith("mimw: no file 'nowhere.py' here")


_REFUSAL = "from mimw.errors import KernelError\nraise KernelError('two is not one', hint='make it one')\n"


def test_our_errors_come_without_a_traceback(tmp_path):
    run = _mimw(tmp_path, "run", str(tmp_path / "script.py"), source=_REFUSAL)
    assert (run.stderr, run.returncode) == ("mimw: KernelError: two is not one\nMend: make it one\n", 1)


def test_our_errors_with_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv("MIMW_TRACEBACK", "1")
    run = _mimw(tmp_path, "run", str(tmp_path / "script.py"), source=_REFUSAL)
    assert "Traceback" in run.stderr and run.returncode == 1


def test_other_errors_keep_their_traceback(tmp_path):
    source = "from mimw.errors import MimwError\ntry:\n    raise MimwError('handled')\nexcept MimwError:\n    1 / 0\n"
    run = _mimw(tmp_path, "run", str(tmp_path / "script.py"), source=source)
    assert "ZeroDivisionError" in run.stderr and not run.stderr.startswith("mimw:")


def test_simulate_sets_the_environment(tmp_path):
    source = "import os\nprint(os.environ['MIMW_SIMULATE'], os.environ['MIMW_SEED'])\n"
    run = _mimw(tmp_path, "simulate", "--seed", "7", str(tmp_path / "script.py"), source=source)
    assert (run.stdout, run.returncode) == ("1 7\n", 0)


def test_simulate_calls_a_function(tmp_path):
    source = "from mimw.cli.probes import copy_plain\nimport mimw, numpy\ndef check():\n    print('called as', __name__)\n" \
        "    mimw.simulate(copy_plain, (1, ), *numpy.zeros((2, 128), 'float32'))\n"
    run = _mimw(tmp_path, "simulate", f"{tmp_path}/script.py:check", source=source)
    assert (run.stdout, run.stderr) == ("called as script\n", "")


def test_simulate_refuses_arguments_for_a_function(tmp_path):
    run = _mimw(tmp_path, "simulate", f"{tmp_path}/script.py:check", "7", source="def check(): pass\n")
    assert "is called without arguments" in run.stderr and run.returncode == 1


@pytest.mark.parametrize("name, expected", [("t.png", "should end in .html, .svg or .json"), ("t.svg", "without a launch")])
def test_simulate_refuses_a_timeline_that_cannot_be(tmp_path, name, expected):
    run = _mimw(tmp_path, "simulate", "--timeline", str(tmp_path / name), str(tmp_path / "script.py"))
    assert expected in run.stderr and run.returncode == 1
