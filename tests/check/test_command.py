"""`mimw check` and the pytest fixture: exit status, JSON, made-up arguments."""

import json
import sys

import pytest

import mimw
from mimw.cli import main
from mimw.cli.check import argument
from mimw.cli.errors import CommandError
from tests.kernels import rings
from tests.kernels.tma_pipeline import pipeline, pipeline_arguments

RING = rings.__file__
QUICK = "--mend-time", "0"      # no look for a change of the source: test_mends.py is about that


@pytest.mark.parametrize("arrive, status", [("True", 0), ("False", 1)])
def test_the_exit_status_says_what_was_found(capsys, arrive, status):
    words = [f"{RING}:stored", "--args", "fp16[64,32]/16,32", "fp16[64,32]", "4", f"ARRIVE={arrive}", "--search", "both", *QUICK]
    assert main(["check", *words]) == status
    shown = capsys.readouterr().out
    assert ("ok: nothing found" in shown) if status == 0 else ("Mend:" in shown and "tlx.barrier_expect_bytes" in shown)


def test_smaller_launches_are_named_and_can_be_left_out(capsys):
    words = ["check", f"{RING}:stored", "--args", "fp16[64,32]/16,32", "fp16[64,32]", "4", "ARRIVE=True"]
    assert main(words) == 0
    assert "tried besides: 0 rounds (steps=0); 1 round (steps=1); 2 rounds (steps=2)" in capsys.readouterr().out
    assert main([*words, "--no-rounds"]) == 0
    assert "besides" not in capsys.readouterr().out


def test_a_function_may_name_the_launch_and_the_report_may_be_json(capsys):
    assert main(["check", f"{RING}:never_released", "--json", *QUICK]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"] and report["runs"] == 8
    assert {finding["kind"] for finding in report["findings"]} <= {"TooManyArrivals", "SlotReusedEarly", "CopyReadEarly"}
    assert all(site["file"] == RING and site["line"] for finding in report["findings"] for site in finding["sites"])


def test_a_finding_is_replayed(capsys):
    """By its seed; by another one the interleaving, and what is found first, may differ."""
    main(["check", f"{RING}:never_released", "--seeds", "3", "--json", *QUICK])
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        assert main(["check", f"{RING}:never_released", "--replay", json.dumps(finding["seed"]), "--json"]) == 1
        (again, ) = json.loads(capsys.readouterr().out)["findings"]
        assert again["kind"] == finding["kind"] and again["seed"] == finding["seed"]


@pytest.mark.parametrize("words", [["--args", "float[4]"], ["--args"],
                                   ["--args", "fp16[64,32]", "fp16[64,32]", "4", "ARRIVE=True"]])
def test_what_cannot_be_checked_is_told_apart_from_what_is_wrong(capsys, words):
    """Status 2: no such type, too few arguments, an array in place of a descriptor."""
    assert main(["check", f"{RING}:stored", *words]) == 2
    assert capsys.readouterr().err.startswith("mimw: ")


def test_what_the_compiler_refuses_is_found(capsys):
    assert main(["check", f"{RING}:stored", "--args", "fp16[64,32]/32,32", "fp16[64,32]", "4", "ARRIVE=True", *QUICK]) == 1


def test_arguments_are_made_up():
    assert argument("7") == 7 and argument("i32[4]").sum() == 0
    assert argument("bf16[4,8]").shape == (4, 8) and argument("fp16[4,32]/2,16").block_shape == [2, 16]
    with pytest.raises(CommandError, match="no element type"):
        argument("float[4]")
    with pytest.raises(CommandError, match="is no array"):
        argument("four")


def test_the_fixture_passes_what_is_right(check_kernel):
    grid, args, meta = pipeline_arguments()
    assert check_kernel(pipeline, grid, *args, seeds=2, **meta).ok


def test_the_fixture_fails_with_the_report(check_kernel):
    grid, args, meta = pipeline_arguments(RELEASE_FIRST=True)
    with pytest.raises(pytest.fail.Exception, match="OperandOverwritten(.|\n)*Mend"):
        check_kernel(pipeline, grid, *args, seeds=1, **meta)


def test_progress_is_told():
    grid, args, meta = pipeline_arguments(RELEASE_FIRST=True)
    seen = []
    mimw.check(pipeline, grid, *args, seeds=3, progress=lambda *now: seen.append(now), **meta)
    assert seen == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]


@pytest.mark.parametrize("words, text", [
    (["--seeds", "0"], "no runs are asked for"), (["--seeds", "-1"], "no runs are asked for"),
    (["--search", "systematic", "--limit", "0"], "a limit of 1 or more"), (["--grid", "0"], "has no CTA"),
    (["--grid", "2,70000"], "70,000 CTAs along y")])
def test_nothing_run_is_not_ok(capsys, words, text):
    given = ["--args", "fp16[64,32]/16,32", "fp16[64,32]", "4", "ARRIVE=True"]
    assert main(["check", f"{RING}:stored", *words, *given]) == 2
    shown = capsys.readouterr()
    assert text in shown.err and shown.err.startswith("mimw: ") and "ok" not in shown.out


@pytest.mark.parametrize("source, text", [
    ("import no_such_package\n", "does not import: ModuleNotFoundError: No module named 'no_such_package' ({file}:1)"),
    ("x = 1\ny = 1 / 0\n", "does not import: ZeroDivisionError: division by zero ({file}:2)"),
    ("def broken(:\n", "does not import: SyntaxError:"), ("import sys\nsys.exit(0)\n", "ends Python (exit status 0)")])
@pytest.mark.parametrize("by_module", [False, True])
def test_a_file_that_does_not_import_is_not_checked(source, text, by_module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    name = f"case_{abs(hash((source, by_module)))}"
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    assert main(["check", f"{name if by_module else file}:case"]) == 2
    (line, ) = capsys.readouterr().err.splitlines()
    assert line.startswith("mimw: ") and text.format(file=file.name) in line


def test_an_error_of_the_users_own_code_is_no_finding(tmp_path, capsys, monkeypatch):
    """Status 1 would say that the kernel is wrong; the line that raised is the user's."""
    (tmp_path / "raising.py").write_text("def case():\n    raise KeyError('mine')\n")
    assert main(["check", f"{tmp_path}/raising.py:case"]) == 2
    said = capsys.readouterr().err
    assert "raised KeyError: 'mine'" in said and "raising.py:2)" in said and "Traceback" not in said
    monkeypatch.setenv("MIMW_TRACEBACK", "1")
    assert main(["check", f"{tmp_path}/nothing.py:case"]) == 2
    assert "Traceback" in capsys.readouterr().err
