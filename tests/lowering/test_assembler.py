"""An operand of a dot that is needed after the dot, which ptxas before 13.3 may overwrite: found in PTX, refused, computed."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw import tle
from mimw.compiler.pipeline import refusals
from mimw.compiler.triton_port import assembler
from mimw.compiler.triton_port.assembler import FIXED, kept_operands, ptxas_release
from mimw.errors import AssemblerError, KernelWarning
from mimw.runtime.compile_kernel import compile_kernel

SIGNATURE = {"b": "*i32", "x": "*fp16", "c": "*fp16", "y": "*fp32", "n": "i32"}
ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(4)}


@mimw.jit
def kept_for_all_trips(b, x, c, y, n, KEPT: tl.constexpr):
    """Two products a trip: of a tile that is the same in every trip, or is made anew, and of one out of a buffer."""
    tile = tle.gpu.alloc([128, 32], tl.float16)
    words = tle.gpu.alloc([64], tl.int32)
    at = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
    half = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    rows = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    few = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    acc = tl.zeros([128, 64], tl.float32)
    for i in range(n):
        left = ((at if KEPT else at + i) & 7).to(tl.float16)
        acc = tl.dot(left, tl.load(b + i * 4096 + rows).to(tl.float16), acc)
        tl.store(tle.gpu.local_ptr(tile), tl.load(x + i * 4096 + half))
        loaded = tl.load(tle.gpu.local_ptr(tile))
        right = tl.load(c + i * 2048 + few)
        tl.store(tle.gpu.local_ptr(words), tl.full([64], 2, tl.int32))
        tl.atomic_xor(tle.gpu.local_ptr(words, (tl.arange(0, 64) ^ 61, )), tl.arange(0, 64) & 3)
        acc = tl.dot(loaded, right, acc)
    tl.store(y + at, acc)


def compiled(kept: bool, warps: int = 8):
    return compile_kernel(kept_for_all_trips, SIGNATURE, {"KEPT": kept}, "sm_90a", {"num_warps": warps}, attrs=ALIGNED)


@pytest.fixture
def old(monkeypatch):
    monkeypatch.setattr(refusals, "ptxas_release", lambda arch: (13, 0))


@pytest.mark.long(but=["8"], everywhere=True)
@pytest.mark.parametrize("warps", [4, 8])
def test_an_operand_that_is_kept_is_refused_with_an_old_assembler(old, warps):
    with pytest.raises(AssemblerError, match=r"ptxas 13\.0 may overwrite .* Fixed in 13\.3") as caught:
        compiled(True, warps)
    assert "left, tl.load(b" in str(caught.value) and "loaded, right" not in str(caught.value)
    assert "TRITON_PTXAS_BLACKWELL_PATH" in str(caught.value)


@pytest.mark.parametrize("used, named, text", [
    (None, None, "name in TRITON_PTXAS_BLACKWELL_PATH one of CUDA 13.3"),
    (None, "TRITON_PTXAS_BLACKWELL_PATH", "unset TRITON_PTXAS_BLACKWELL_PATH for the one that comes with Triton, or name one of"),
    ("/old/ptxas", None, "Triton takes /old/ptxas: name in TRITON_PTXAS_PATH {new}, which comes with Triton, or one of CUDA 13.3"),
    ("/old/ptxas", "TRITON_PTXAS_PATH", "unset TRITON_PTXAS_PATH for the one that comes with Triton"),
])
def test_the_mend_names_the_variable_by_which_this_triton_takes_another_one(monkeypatch, used, named, text):
    """Triton 3.8 has an old ptxas for Hopper, and a new one beside it."""
    new = assembler.knobs.nvidia.ptxas_blackwell.path
    monkeypatch.setattr(assembler, "ptxas_path", lambda arch: used or new)
    for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.delenv(variable, raising=False)
    if named:
        monkeypatch.setenv(named, new)
    assert text.format(new=new) in assembler.another_ptxas(90)


def test_one_that_is_made_in_every_trip_is_not(old):
    assert len(compiled(False).stage("cubin")) > 1000


def test_a_fixed_assembler_gets_both(monkeypatch):
    monkeypatch.setattr(refusals, "ptxas_release", lambda arch: FIXED)
    ptx = compiled(True).stage("ptx")
    assert [one.line for one in kept_operands(ptx)] == [kept_for_all_trips.fn.__code__.co_firstlineno + 12]
    assert kept_operands(compiled(False).stage("ptx")) == []


def test_the_assembler_says_its_release():
    assert ptxas_release(90) >= (12, 0)


DOT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1,%r2,%r3,%r4}, {%r8,%r8,%r8,%r8}, %rd1, %p1, 1, 1, 1;"
HEAD = '.file 1 "k.py"\nmov.u32 %r9, 0x1;\n'
MOVED = f".loc 1 7 5\nmov.b32 %r8, %r9;\n{DOT}\n"
FOUND = {
    "used once": (HEAD + MOVED + "ret;\n", False),
    "used in the same block": (HEAD + MOVED + "st.shared.b32 [%r5], %r9;\nret;\n", False),
    "used behind": (HEAD + MOVED + "@%p3 red.shared.add.u32 [%r5], %r6;\nst.shared.b32 [%r5], %r9;\nret;\n", True),
    "in the next trip": (HEAD + "$L1:\n" + MOVED + "@%p2 bra $L1;\nret;\n", True),
    "made in every trip": ('.file 1 "k.py"\n$L1:\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r5];\n' + MOVED
                           + "@%p2 bra $L1;\nret;\n", False),
    "another value in the next trip": (HEAD + "$L1:\n" + MOVED + "mov.b32 %r9, %r7;\n@%p2 bra $L1;\nret;\n", False),
    "on the other way": (HEAD + "@%p3 bra $L2;\n" + MOVED + "ret;\n$L2:\nst.shared.b32 [%r5], %r9;\nret;\n", False),
    "behind a table of jumps": (HEAD + "T:\n\t.branchtargets\n\t\t$L1,\n\t\t$L2;\n" + MOVED
                                + "brx.idx %r6, T;\n$L1:\nret;\n$L2:\nst.shared.b32 [%r5], %r9;\nret;\n", True),
    "not in registers": (HEAD + DOT.replace("{%r8,%r8,%r8,%r8}", "%rd2") + "\nst.shared.b32 [%r5], %r9;\nret;\n", False),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_needed_after_the_dot(name):
    ptx, kept = FOUND[name]
    assert [(one.file, one.line, one.column) for one in kept_operands(ptx)] == [("k.py", 7, 5)] * kept


def test_of_a_plain_kernel_it_is_said(old, monkeypatch):
    """A kernel without our words is Triton's, and is not refused."""
    @triton.jit
    def plain(x):
        tl.store(x, 1.0)

    monkeypatch.setattr(refusals, "kept_operands", lambda ptx: kept_operands(FOUND["used behind"][0]))
    with pytest.warns(KernelWarning, match="may overwrite"):
        compile_kernel(plain, {"x": "*fp32"})


@pytest.mark.parametrize("kept", [True, False])
def test_the_products_are_right(machine, kept):
    """With an assembler that would get them wrong, the first one is refused on a GPU."""
    draw, n = np.random.default_rng(5), 4
    b = draw.integers(-4, 5, (n, 64, 64)).astype(np.int32)
    x, c = draw.integers(-4, 5, (n, 128, 32)).astype(np.float16), draw.integers(-4, 5, (n, 32, 64)).astype(np.float16)
    y, at = np.zeros((128, 64), np.float32), np.arange(128 * 64).reshape(128, 64)
    wanted = sum(((at + (0 if kept else i)) & 7) @ b[i] + x[i].astype(int) @ c[i].astype(int) for i in range(n))
    try:
        machine.launch(kept_for_all_trips, (1, ), b, x, c, y, n, kept, num_warps=8)
    except AssemblerError:
        assert kept and ptxas_release(90) < FIXED
        return
    assert (y == wanted).all()
