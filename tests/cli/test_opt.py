"""`mimw opt`: passes over IR text, from a file or from what `mimw compile` prints."""

import io

import pytest

from mimw.cli import main
from mimw.compiler.passes import OPTIONAL, PASSES
from mimw.ir import parse_program, print_program
from tests.kernels import two_tasks

TEXT = """\
kernel k(%x: *i32, %n: i32) on 4 warps {
  %0 = add %n, %n
  %1 = sub %n, %n
  store %x, %1
  fence scope='gpu'
}
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ir").write_text(TEXT)
    return tmp_path


def opt(capsys, *words: str, status: int = 0) -> str:
    assert main(["opt", *words]) == status
    shown = capsys.readouterr()
    assert not (shown.out if status else shown.err)
    return shown.err if status else shown.out


def test_passes_by_name(written, capsys):
    assert opt(capsys, "k.ir", "--no-sites", "--pass", "drop_unused") == """\
kernel k(%x: *i32, %n: i32) on 4 warps {
  %2 = sub %n, %n : i32
  store %x, %2
  fence scope='gpu'
}
"""
    assert "add" in opt(capsys, "k.ir", "--pass")       # none


def test_all_passes_and_their_order(written, capsys):
    shown = opt(capsys, "k.ir", "--no-sites", "--print-after")
    names = [line.split()[2].rstrip(":") for line in shown.splitlines() if line.startswith("// after")]
    assert names == [step.name for step in PASSES]
    assert shown.count("kernel k(") == 1 and "// after target: unchanged" in shown


def test_options(written, capsys):
    assert "on 8 warps {" in opt(capsys, "k.ir", "--num-warps", "8", "--pass")
    assert "time_base" in opt(capsys, "k.ir", "--pass", "stamp_time")
    assert opt(capsys, "k.ir", "--pass", "-o", "out.ir") == ""
    assert (written / "out.ir").read_text().splitlines()[1].endswith("# k.ir:2:2")


def test_the_list(capsys):
    lines = opt(capsys, "--list").splitlines()
    for step in (*PASSES, *OPTIONAL):
        assert [line for line in lines if line.startswith(f"{step.name} ")][0].endswith(step.doc)


@pytest.mark.parametrize("stage", ["recorded", "ir"])
def test_what_compile_prints_is_read(stage, capsys, monkeypatch):
    assert main(["compile", f"{two_tasks.__file__}:copy", "--signature", "*fp32, *fp32:16", "--emit", stage]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// source: addresses count as unaligned") and "{tt.divisibility=16}" in text
    assert (" registers=[" in text) == (stage == "ir")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    again = opt(capsys, "-")
    assert " registers=[" in again and f"# two_tasks.py = {two_tasks.__file__}" in again
    if stage == "ir":
        assert again == text.partition("\n")[2]      # the passes have nothing left to do
    assert print_program(parse_program(again)) == again


@pytest.mark.parametrize("words, says", [
    (["k.ir", "--pass", "drop_unuse"], "no pass is named 'drop_unuse'. Did you mean 'drop_unused'? `mimw opt --list` lists them."),
    (["k.ir", "--pass", "xyz"], "no pass is named 'xyz'. `mimw opt --list` lists them."),
    ([], "name a file with IR text, or - for standard input. Mend: "),
    (["none.ir"], "none.ir: No such file or directory"),
    (["k.ir", "--target", "sm_1"], "no target is named 'sm_1'"),
    (["wrong.ir"], "wrong.ir:2:3: no op is named 'fences', did you mean 'fence'?"),
    (["nested.ir"], "nested.ir is no valid program: InvalidProgram at nested.ir:4: task regions do not nest"),
    (["warps.ir"], "the pass tasks refuses the program at warps.ir:"),
    (["words.ir", "--target", "sm_80"], "the pass target refuses the program: TargetError at words.ir:2: sm_80 cannot do"),
])
def test_errors_are_one_line(written, capsys, words, says):
    (written / "wrong.ir").write_text("kernel k() on 4 warps {\n  fences scope='gpu'\n}")
    (written / "nested.ir").write_text("kernel k() on 4 warps {\nwarp_specialize\ntask 'a' on 4 warps {\nwarp_specialize\n"
                                       "task 'b' on 4 warps {\n}\n}\n}")
    (written / "warps.ir").write_text("kernel k() on 4 warps {\n  warp_specialize\n  task 'a' on 4 warps {\n  }\n"
                                      "  task 'b' on 64 warps {\n  }\n}")
    (written / "words.ir").write_text("kernel k() on 4 warps {\n  %0 = alloc_barriers count=1, arrive_count=1\n}")
    shown = opt(capsys, *words, status=1)
    assert shown.startswith(f"mimw: {says}") and len(shown.splitlines()) == 1
    if ".ir" in shown and "refuses" in shown:
        assert "Mend: " in shown


def test_remarks_go_to_stderr(written, capsys):
    (written / "greedy.ir").write_text("kernel k() on 4 warps {\n  warp_specialize\n  task 'a' on 4 warps {\n  }\n"
                                       "  task 'b' on 4 warps, 504 registers {\n  }\n}")
    assert main(["opt", "greedy.ir", "--pass", "registers"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("remark at greedy.ir:") and shown.out.startswith("kernel k()")
