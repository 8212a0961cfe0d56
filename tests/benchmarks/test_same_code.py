"""The command that says whether kernels compile to the same code: names and source lines do not count, constants do."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from benchmarks import same_code
from benchmarks.ttgir_text import normalised, with_constants_inside, without_locations
from tests.compiling import stopping


@mimw.jit(noinline=True)
def twice(x):
    return x + x * 5


@mimw.jit
def staged(source, target):
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, 128)
    tlx.local_store(tile[0], tl.load(source + at) * twice(tl.load(source)))
    tl.store(target + at, tlx.local_load(tile[0]) * 3.0)


@mimw.jit(noinline=True)
def doubled(value):

    return value + value * 5


@mimw.jit
def with_other_names(given, written):
    room = tlx.local_alloc((128, ), tl.float32, 1)
    lanes = tl.arange(0, 128)
    tlx.local_store(room[0], tl.load(given + lanes) * doubled(tl.load(given)))
    tl.store(written + lanes, tlx.local_load(room[0]) * 3.0)


@mimw.jit
def with_another_constant(source, target):
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    at = tl.arange(0, 128)
    tlx.local_store(tile[0], tl.load(source + at) * twice(tl.load(source)))
    tl.store(target + at, tlx.local_load(tile[0]) * 4.0)


def code(kernel) -> str:
    with stopping(("ttgir", )):
        return mimw.compile(kernel, (1, ), *(np.zeros(128, np.float32) for _ in range(2))).ttgir


def test_names_do_not_count_and_constants_do():
    first, renamed, other = map(code, (staged, with_other_names, with_another_constant))
    assert without_locations(first) != without_locations(renamed)
    assert normalised(first) == normalised(renamed) != normalised(other)
    assert all(said not in normalised(first) for said in ("staged", "twice", "loc(", "test_same_code"))
    changed = [line for line in same_code.diff_of(normalised(first), normalised(other)) if line.startswith(("-", "+"))]
    assert [line.count("3.0") + line.count("4.0") for line in changed[2:]] == [1, 1]


def test_constants_may_stand_in_any_order():
    one = "%v0 = arith.constant 1 : i32\n%v1 = arith.constant 2 : i32\n%v2 = arith.addi %v0, %v1 : i32\n%v3 = arith.muli %v2, %v1"
    other = "%v0 = arith.constant 2 : i32\n%v1 = arith.constant 1 : i32\n%v2 = arith.addi %v1, %v0 : i32\n%v3 = arith.muli %v2, %v0"
    wrong = other.replace("addi %v1, %v0", "addi %v0, %v1")
    assert with_constants_inside(one) == with_constants_inside(other) != with_constants_inside(wrong)
    assert with_constants_inside(one).splitlines()[0] == "%v0 = arith.addi <1 : i32>, <2 : i32> : i32"


def test_names_of_layouts_say_nothing():
    one = "#blocked = #ttg.blocked<{order = [0]}>\n#blocked1 = #ttg.blocked<{order = [1]}>\nload #blocked1\nload #blocked"
    other = "#blocked = #ttg.blocked<{order = [1]}>\n#blocked1 = #ttg.blocked<{order = [0]}>\nload #blocked\nload #blocked1"
    wrong = other.replace("load #blocked\n", "load #blocked1\n")
    assert with_constants_inside(one) == with_constants_inside(other) != with_constants_inside(wrong)
    assert with_constants_inside("#s = #ttg.slice<{parent = #b}>\n#b = #ttg.blocked<{}>\nuse #s") == (
        "#0 = #ttg.slice<{parent = #1}>\n#1 = #ttg.blocked<{}>\nuse #0")


def test_locations_are_nested_and_strings_are_not_read():
    text = '%x: i32 loc(callsite("a)b"("f.py":1:2) at #loc)), %y: i32 loc("y"(#loc1))) {\n#loc1 = loc(unknown)'
    assert without_locations(text) == "%x: i32, %y: i32) {"
    assert normalised('%a = asm "%a loc(" %b') == '%v0 = asm "%a loc(" %b'


def regions(outer: str, inner: str, last: str) -> str:
    return textwrap.dedent(f"""\
        %{outer} = constant 1
        %{last}:2 = scf.for %i = %{outer} to %{outer} iter_args(%{inner} = %{outer}) {{
          yield %{inner}
        }}
        use %{outer}, %{last}#1""")


def test_a_name_in_a_region_hides_none_behind_it():
    """MLIR gives names anew in an isolated region: `a` of the loop is not the `a` behind it."""
    assert normalised(regions("a", "b", "c")) == normalised(regions("a", "a", "c"))
    assert normalised(regions("a", "b", "c")) != normalised(regions("a", "b", "c").replace("yield %b", "yield %a"))


BEFORE = [("test_a", "gemm", "x"), ("test_a", "gemm", "y"), ("test_b", "norm", "z")]


@pytest.mark.parametrize("after, found", [
    (BEFORE, []),
    ([("test_a", "product", "y"), ("test_a", "product", "x"), ("test_c", "norm", "z")], []),    # other names, another order
    ([("test_a", "gemm", "x"), ("test_a", "gemm", "u"), ("test_b", "norm", "z")], [("test_a", "gemm", "y", "u")]),
    (BEFORE[:2], [("test_b", "norm", "z", "")]),
])
def test_what_differs(after, found):
    assert list(same_code.differences(BEFORE, after)) == found


def test_kept_and_compared(tmp_path, capsys):
    before, after = tmp_path / "before.xz", tmp_path / "after.xz"
    same_code.write(before, BEFORE)
    same_code.write(after, [*BEFORE[:2], ("test_b", "norm", "w")])
    assert same_code.read(before) == (BEFORE, [])
    assert same_code.main(["compare", str(before), str(before)]) == 0
    assert same_code.main(["compare", str(before), str(after)]) == 1
    same_code.write(after, BEFORE[2:], ["test_b"])
    assert same_code.main(["compare", str(before), str(after)]) == 0
    assert "differs: norm of test_b" in (said := capsys.readouterr().out) and "    -z\n    +w" in said


def test_why_launches_have_no_code():
    said = same_code.reasons(["gemm for gfx942: no compiler", "rope for sm_90a: OSError: no room", "gemm for gfx942: no compiler"])
    assert said.splitlines() == ["2 simulated without code: gemm for gfx942: no compiler",
                                 "1 simulated without code: rope for sm_90a: OSError: no room"] and same_code.reasons([]) == ""


def test_noting(tmp_path):
    """In a fresh process, whose imports are the command's: what a module compiles, and what it simulates of the library."""
    out = tmp_path / "noted.xz"
    command = [sys.executable, "-m", "benchmarks.same_code", "note", str(out), "tests/kernels/test_rope.py"]
    done = subprocess.run(command, cwd=same_code.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows, files = same_code.read(out)
    assert files == ["tests/kernels/test_rope.py"]
    assert rows and "without code" not in done.stdout, done.stdout + done.stderr
    assert all("tt.func" in text and "loc(" not in text for _, _, text in rows)
    assert any(test.endswith("(simulated)") for test, _, _ in rows)
