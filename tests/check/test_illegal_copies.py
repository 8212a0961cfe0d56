"""Where TMA and bulk copies can begin: what an H200 answers with an illegal instruction or a misaligned address is `IllegalCopy`,
from the compiler where the number is a constant, else from the simulator and `check`, with line, coordinates and mend."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import IllegalCopy
from tests.kernels.lines import line_of, lines_with

describe = mimw.TensorDescriptor.from_tensor


@mimw.jit
def plain(x_desc, y_desc, HOW: tl.constexpr, KNOWN: tl.constexpr, corners):
    """No word of ours: Triton makes TMA copies of its descriptors. Corners are KNOWN when compiling, or arguments."""
    top, left, down, right = corners if KNOWN is None else KNOWN
    tile = x_desc.load([top, left])
    if HOW == "store":
        y_desc.store([down, right], tile)
    elif HOW == "atomic":
        y_desc.atomic_add([down, right], tile)


@mimw.jit
def words(x_desc, y_desc, HOW: tl.constexpr, KNOWN: tl.constexpr, corners):
    """The same by words of TLX and TLE."""
    top, left, down, right = corners if KNOWN is None else KNOWN
    tile = tlx.local_alloc((8, 16), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    if HOW == "prefetch":
        tlx.async_descriptor_prefetch_tensor(x_desc, [top, left])
    elif HOW == "copy":
        tle.gpu.copy(x_desc, tile[0], [8, 16], [top, left])
    elif HOW == "multicast":
        tlx.barrier_expect_bytes(full[0], 256)
        tlx.async_descriptor_load(x_desc, tile[0], [top, left], full[0], multicast_targets=[0])
        tlx.barrier_wait(full[0], 0)
    else:
        tlx.barrier_expect_bytes(full[0], 256)
        tlx.async_descriptor_load(x_desc, tile[0], [top, left], full[0])
        tlx.barrier_wait(full[0], 0)
    if HOW == "copy":
        tle.gpu.copy(tile[0], y_desc, [8, 16], [down, right])
    elif HOW == "reduce":
        tlx.async_descriptor_store(y_desc, tile[0], [down, right], store_reduce="add")
    elif HOW != "prefetch":
        tlx.async_descriptor_store(y_desc, tile[0], [down, right])
    tlx.async_descriptor_store_wait(0)


FORMS = [(plain, "store", "x_desc.load", "y_desc.store"), (plain, "atomic", "x_desc.load", "atomic_add"),
         (words, "store", "full[0])", "y_desc, tile[0], [down, right])"),
         (words, "reduce", "full[0])", 'store_reduce="add"'), (words, "copy", "copy(x_desc", "copy(tile[0]"),
         (words, "multicast", "multicast_targets", "y_desc, tile[0], [down, right])"),
         (words, "prefetch", "prefetch_tensor", None)]
FORM = pytest.mark.parametrize("kernel, how, reads, writes", FORMS, ids=[f"{one.fn.__name__}-{how}" for one, how, *_ in FORMS])


def launched(tool, kernel, how, read, write, known):
    """The kernel reads and writes at these corners, known when compiling or not."""
    x, y = np.arange(1024, dtype=np.float16).reshape(16, 64), np.zeros((16, 64), np.float16)
    corners = *read, *write
    given = (corners, (0, 0, 0, 0)) if known else (None, corners)
    return tool(kernel, (1, ), describe(x, [8, 16]), describe(y, [8, 16]), how, *given), y


@FORM
@pytest.mark.parametrize("known", [True, False])
def test_a_last_offset_is_a_multiple_of_16_bytes(kernel, how, reads, writes, known):
    for read, write, text in (((0, 4), (0, 0), reads), ((0, -4), (0, 0), reads), ((0, 0), (8, 12), writes)):
        if text is None:
            continue
        with pytest.raises(IllegalCopy, match=r"begins at element (4|-4|12) of a row: .* = (8|-8|24) bytes, and TMA copies from "
                           "multiples of 16 bytes on.*illegal instruction") as error:
            launched(mimw.simulate, kernel, how, read, write, known)
        assert error.value.sites[0].line in lines_with(kernel, text)
        assert "multiple of 8 elements" in error.value.hint


@FORM
@pytest.mark.parametrize("known", [True, False])
def test_what_is_written_begins_at_no_negative_offset(kernel, how, reads, writes, known):
    """However much of the block would be inside."""
    for write in ((-4, 0), (0, -8), (-8, 16)) if writes else ():
        with pytest.raises(IllegalCopy, match=rf"its block at \({write[0]}, {write[1]}\).* begins at -\d along dimension "
                           f"{int(write[0] == 0)}, and TMA writes no block whose corner is negative") as error:
            launched(mimw.simulate, kernel, how, (0, 0), write, known)
        assert error.value.sites[0].line in lines_with(kernel, writes)
        assert "tl.store under a mask" in error.value.hint
        assert known or "of a tensor of shape (16, 64)" in error.value.message


@FORM
def test_what_is_read_may_begin_anywhere_else(kernel, how, reads, writes):
    """In front of the tensor, where it reads zeros; and both may reach over the far edges."""
    for known in (True, False):
        _, y = launched(mimw.simulate, kernel, how, (-4, -8), (12, 56), known)
        if writes:
            assert y[12:, 56:].tolist() == np.zeros((4, 8)).tolist()
        _, y = launched(mimw.simulate, kernel, how, (-4, -8), (0, 8), known)
        if writes:
            assert y[4:8, 16:24].tolist() == np.arange(1024).reshape(16, 64)[:4, :8].tolist() and not y[:4].any()


@pytest.mark.parametrize("how", ["store", "atomic"])
@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_without_tma_triton_makes_pointers_of_a_plain_kernels_descriptors(how, target):
    """Masked accesses, which begin anywhere: no alarm. Words of ours become such accesses on AMD, and are refused on sm_80."""
    def run(tool, kernel, known):
        return launched(lambda *launch: tool(*launch, target=target), kernel, how, (1, 4), (-4, -4), known)

    for known in (True, False):
        _, y = run(mimw.simulate, plain, known)
        whole = np.arange(1024).reshape(16, 64)
        assert y[:4, :12].tolist() == whole[5:9, 8:20].tolist() and not y[4:].any() and not y[:, 12:].any()
        report, _ = run(mimw.check, plain, known)
        assert not report.findings
    if how == "store":
        run(mimw.compile, plain, True)
        if target == "sm_80":
            with pytest.raises(triton.CompilationError, match="async_descriptor_load"):
                run(mimw.simulate, words, True)
        else:
            assert run(mimw.simulate, words, True)[1].tolist() == y.tolist()


@pytest.mark.parametrize("kernel", [plain, words])
def test_check_reports_it_and_compile_refuses_what_is_known(kernel):
    report, _ = launched(mimw.check, kernel, "store", (0, 0), (-8, 0), False)
    assert {one.kind for one in report.findings} == {"IllegalCopy"}
    with pytest.raises(IllegalCopy, match=r"its block at \(-8, 0\)") as error:
        launched(mimw.compile, kernel, "store", (0, 0), (-8, 0), True)
    assert isinstance(error.value, triton.CompilationError)


@pytest.mark.parametrize("kernel", [plain, words])
def test_a_prediction_reports_it_too(kernel):
    for read, write in (((0, 4), (0, 0)), ((0, 0), (-8, 0))):
        with pytest.raises(IllegalCopy, match="its block at "):
            launched(mimw.predict, kernel, "store", read, write, False)
    prediction, _ = launched(mimw.predict, kernel, "store", (-4, 0), (0, 0), False)
    assert prediction.cycles > 0


@mimw.jit
def beside(y_ptr, AT: tl.constexpr, FROM: tl.constexpr):
    """What never runs may stand there: a program writes the block in front only where there is one."""
    desc = tl.make_tensor_descriptor(y_ptr, [16, 64], [64, 1], [8, 16])
    if AT > 0:
        desc.store([AT - 8, 0], tl.full((8, 16), 1, tl.float16))
    for _ in range(FROM, 0):
        desc.store([-8, 4], tl.full((8, 16), 1, tl.float16))


def test_what_never_runs_is_not_refused():
    y = np.zeros((16, 64), np.float16)
    mimw.simulate(beside, (1, ), y, 0, 0)
    mimw.compile(beside, (1, ), y, 0, 0)
    with pytest.raises(IllegalCopy, match=r"its block at \(-8, 4\) of a tensor of shape \(16, 64\) begins at element 4 of a row"):
        mimw.compile(beside, (1, ), y, 0, -1)


@mimw.jit
def empty(y_ptr, rows, COPIES: tl.constexpr):
    """A descriptor of no rows may be made; nobody copies by it."""
    desc = tl.make_tensor_descriptor(y_ptr, [rows, 64], [64, 1], [8, 16])
    if COPIES:
        desc.store([0, 0], tl.full((8, 16), 1, tl.float16))     # stores


def test_nobody_copies_by_a_descriptor_of_no_rows():
    y = np.zeros((16, 64), np.float16)
    mimw.simulate(empty, (1, ), y, 0, False)
    with pytest.raises(IllegalCopy, match="its descriptor is invalid: its dimension 0 has extent 0") as error:
        mimw.simulate(empty, (1, ), y, 0, True)
    assert error.value.sites[0].line == line_of(empty, "# stores")


@mimw.jit
def bulk(x_ptr, y_ptr, read, write, size, SIZE: tl.constexpr):
    line = tlx.local_alloc((64, ), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], SIZE)
    tlx.async_load(x_ptr + read, line[0], bulk=True, barrier=full[0], bulk_size=size)       # loads
    tlx.barrier_wait(full[0], 0)
    tlx.async_store(y_ptr + write, line[0], size)                                           # stores
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("read, write, size, text, says", [
    (4, 0, 64, "# loads", "global address 0x.*not a multiple of 16; .*misaligned address"),
    (0, 4, 64, "# stores", "global address 0x.*not a multiple of 16; .*misaligned address"),
    (0, 0, 24, "# loads", "of 24 bytes, and such copies move multiples of 16"),
    (0, 0, 0, "# loads", "of 0 bytes, and such copies move multiples of 16"),
    (8, 16, 64, None, "")])
def test_bulk_copies_move_multiples_of_16_bytes_from_such_addresses(read, write, size, text, says):
    x, y = np.arange(128, dtype=np.float16), np.zeros(128, np.float16)
    if not text:
        mimw.simulate(bulk, (1, ), x, y, read, write, size, size)
        assert y[write:write + size // 2].tolist() == x[read:read + size // 2].tolist()
        return
    with pytest.raises(IllegalCopy, match=says) as error:
        mimw.simulate(bulk, (1, ), x, y, read, write, size, size or 16)
    assert error.value.sites[0].line == line_of(bulk, text)
