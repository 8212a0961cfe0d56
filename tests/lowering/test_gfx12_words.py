"""Words that gfx1250 has by assembly of ours and gfx9 has not: ballots of 32 lanes, prefetches. None has run on a chip."""

import re

import numpy as np
import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly

SETTLED = "s_wait_alu depctr_va_vdst(0) depctr_vm_vsrc(0)"
VOTES = {"y": "*i32", "z": "*i32", "limit": "i32"}


@mimw.jit
def votes(y, z, limit, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tlx.vote_ballot_sync(0xFFFF00FF, at < limit))
    tl.store(z, tlx.vote_ballot_sync(0xFFFFFFFF, limit))


@mimw.jit
def hints(x, y, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tlx.prefetch(x + at, "L1")
    tlx.prefetch(y + at, mask=at < n)
    tlx.prefetch(y, mask=n > 2)
    tl.store(y + at, tl.load(x + at))


def pieces(compiled):
    """The lines of each piece of assembly of ours."""
    found = re.findall(r";;#ASMSTART\n(.*?)\s*;;#ASMEND", compiled.stage("amdgcn"), re.S)
    return [[line.strip() for line in piece.splitlines()] for piece in found]


def test_a_ballot_is_a_comparison():
    """A thread that holds two elements votes with both, and each gets the ballot."""
    compiled = compile_kernel(votes, VOTES, {"SIZE": 256}, "gfx1250", {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    tile, one = ([re.sub(r"\bv\d+\b", "v", line) for line in piece] for piece in pieces(compiled))
    vote, given = "v_cmp_ne_u32 vcc_lo, 0, v", "v_mov_b32 v, vcc_lo"
    near_tile = [SETTLED, "v_mov_b32 v, v", "v_or_b32 v, v, v", vote, "s_and_b32 vcc_lo, vcc_lo, 0xffff00ff", given, given, SETTLED]
    assert tile == near_tile
    assert one == [SETTLED, "v_mov_b32 v, v", vote, "s_and_b32 vcc_lo, vcc_lo, 0xffffffff", given, SETTLED]


def test_ballots_on_the_simulator():
    y, z = np.zeros(128, np.int32), np.zeros(1, np.int32)
    mimw.simulate(votes, (1, ), y, z, 40, 128, target="gfx1250")
    ballots = np.array([0xFFFF00FF, 0xFF, 0, 0], np.uint32).view(np.int32)
    assert (y == np.repeat(ballots, 32)).all() and z[0] == -1


def test_prefetches():
    """L2 as Triton's own prefetches of tiles have it; under a mask only the lanes that want it, of one pointer the first thread."""
    compiled = compile_kernel(hints, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"SIZE": 256}, "gfx1250", {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    near, masked, first = pieces(compiled)
    assert len([line for line in near if re.fullmatch(r"global_prefetch_b8 v\[\d+:\d+\], off", line)]) == 2
    far = [place for place, line in enumerate(masked) if re.fullmatch(r"global_prefetch_b8 v\[\d+:\d+\], off scope:SCOPE_SE", line)]
    assert len(far) == 2
    for place in far:
        assert masked[place - 1] == "s_and_b32 exec_lo, exec_lo, vcc_lo" and masked[place + 1] == "s_mov_b32 exec_lo, s20"
    assert [line[:12] for line in first if line.startswith("v_cmp")] == ["v_cmp_eq_u32", "v_cmp_ne_u32"]
    assert all(piece[-1] == SETTLED for piece in (near, masked, first))


def test_the_number_of_a_thread_has_settled():
    @mimw.jit
    def numbers(x):
        tl.store(x + tlx.thread_id(0), 1)

    (piece, ) = pieces(to_assembly(numbers, {"x": "*i32"}, {}, "gfx1250", {"num_warps": 4}))
    assert piece[0] == piece[-1] == SETTLED and piece[1].startswith("v_mov_b32")


@pytest.mark.parametrize("kernel, types, why", [(votes, VOTES, "a ballot has a bit for 32 lanes"),
                                                (hints, {"x": "*fp32", "y": "*fp32", "n": "i32"}, "no instruction for it")])
def test_not_on_gfx9(kernel, types, why):
    with pytest.raises(CompilationError, match=f"is not available on gfx950.*{why}"):
        compile_kernel(kernel, types, {"SIZE": 256}, "gfx950", {"num_warps": 4})
