"""Shared memory with the scratch of Triton's ops: what fits, and the map that is shown when it does not."""

import pytest

from mimw.compiler.passes import check_scratch, may_not_fit
from mimw.compiler.triton_port.allocation import Piece
from mimw.errors import OutOfSharedMemory
from mimw.target import target
from tests.analysis.building import BF16, F32, Kernel, Tensor

SM90 = target("sm_90a")


def ring(stages, extra=()):
    """A ring of 32 KB tiles from line 3, a barrier from line 4, and a tile that is made in line 5."""
    k = Kernel()
    k.at(3).buffers("ring", stages, (128, 128), BF16)
    k.at(4).barriers("full", 1)
    k.at(5).tile(Tensor(F32, (64, 64)))
    for name, *args in extra:
        k.op(name, *args)
    return k.program()


def pieces(stages, *needs):
    """As Triton's allocator tells them; each need is (op, line, bytes), and all lie behind the buffers."""
    end = stages * 32768
    behind = [Piece(f"ttg.{op}", "kernel.py", line, 1, end + 128, end + 128 + size) for op, line, size in needs]
    return [Piece("ttg.local_alloc", "kernel.py", 3, 1, 0, end, 0), Piece("ttg.local_alloc", "kernel.py", 4, 1, end, end + 8, 1),
            Piece("ttg.warp_specialize", "", 0, 0, end + 8, end + 48), *behind]


def test_it_fits():
    assert check_scratch(ring(6), SM90, 232448, pieces(6, ("convert_layout", 5, 35712))) is None


def test_the_map_the_sum_and_the_lines():
    with pytest.raises(OutOfSharedMemory) as caught:
        check_scratch(ring(7), SM90, 245888, pieces(7, ("convert_layout", 5, 16384), ("reduce", 5, 512)))
    assert str(caught.value).splitlines() == [
        "OutOfSharedMemory at kernel.py:5: 245888 bytes of shared memory are needed, 16504 of them scratch and padding, but a CTA "
        "on sm_90a has 232448: 13440 too many.",
        "         0 .. 229376  ring                     229376 bytes  kernel.py:3",
        "    229376 .. 229384  full                          8 bytes  kernel.py:4",
        "    229384 .. 229424  scratch: tasks               40 bytes",
        "    229424 .. 229504  free                         80 bytes",
        "    229504 .. 245888  scratch: convert_layout   16384 bytes  kernel.py:5",
        "    229504 .. 230016  scratch: reduce             512 bytes  kernel.py:5",
        "                      sum                      245888 bytes",
        "                      limit                    232448 bytes  sm_90a",
        "                      excess                    13440 bytes",
        "Mend: the convert_layout of kernel.py:5 takes 16384 bytes: the tile changes hands between threads through shared memory: "
        "cut it into pieces there, narrow its elements before, or give it the shape in which it is used next. "
        "Or: allocate 6 instead of 7 buffers of 'ring'.",
        "kernel.py:5",
    ]
    assert (caught.value.required, caught.value.limit) == (245888, 232448)


def test_of_many_needs_the_largest_are_shown():
    needs = [("convert_layout", line, 4096 * line) for line in range(1, 8)]
    with pytest.raises(OutOfSharedMemory, match=r"kernel.py:4 and 3 more, of less") as caught:
        check_scratch(ring(7), SM90, 258176, pieces(7, *needs))
    assert str(caught.value).count("scratch: convert_layout") == 4


@pytest.mark.parametrize("chip, stages, fits", [("sm_90a", 6, True), ("sm_90a", 7, False), ("gfx942", 2, False),
                                                ("gfx950", 3, True), ("gfx950", 5, False)])
def test_what_cannot_exceed_the_limit_need_not_be_lowered(chip, stages, fits):
    assert may_not_fit(ring(stages), target(chip), 3) is not fits


def test_staged_tiles_and_pipelined_operands_count():
    k = Kernel()
    k.buffers("ring", 5, (128, 128), BF16)
    a, b, acc = (k.tile(Tensor(kind, (64, 64))) for kind in (BF16, BF16, F32))
    assert not may_not_fit(k.program(), SM90, 3)
    k.op("dot", a, b, acc, None, 0)
    assert not may_not_fit(k.program(), SM90, 1) and may_not_fit(k.program(), SM90, 3)
