"""What the PTX asks of the register file, for several shapes of regions."""

import linecache
import re

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.analysis import register_plan
from mimw.errors import RemarkWarning, TooFewRegisters
from mimw.report import resource_table
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def region(x, OWN: tl.constexpr, WARPS: tl.constexpr, REGISTERS: tl.constexpr, COPIES: tl.constexpr, MORE: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=OWN):
            tl.store(x + tl.arange(0, 128), tlx.clock64())
        with tlx.async_task(num_warps=WARPS, num_regs=REGISTERS, replicate=COPIES):
            tl.store(x + 128 + tl.arange(0, 128), tlx.clock64())
        if MORE:
            with tlx.async_task(num_warps=1, num_regs=MORE):
                tl.store(x + 256 + tl.arange(0, 128), tlx.clock64())


# warps, the default task's request, the other task (warps, request, copies), a one-warp task's request:
# registers per thread at launch, the default task's share, the others' shares
CASES = [
    (4, None, 4, 232, 2, None, 168, 40, {232}),
    (4, None, 4, 240, 2, None, 168, 24, {240}),
    (4, None, 4, 232, 2, 24, 128, 24, {232, 24}),  # three groups: 4 * (128 * 16 / 4 - 232 * 2 - 24)
    (4, None, 8, 168, 1, 24, 128, 152, {168, 24}),
    (8, None, 1, 24, 1, None, 168, 240, {24}),
    (8, None, 4, 40, 1, None, 168, 232, {40}),
    (4, None, 4, 8, 1, None, 256, 256, {24}),  # at least 24
    (4, 40, 4, None, 2, None, 168, 40, {232}),  # what the default task leaves goes to those who ask for nothing
    (4, 152, 4, None, 2, None, 168, 152, {176}),
    (4, 24, 8, 160, 1, None, 168, 24, {160}),  # exactly what it asks for, although more is left
    (4, 80, 4, 200, 1, None, 256, 80, {200}),
]


@pytest.mark.parametrize("warps, own, others, registers, copies, more, launch, default, shares", CASES)
def test_shares(warps, own, others, registers, copies, more, launch, default, shares):
    compiled = compile_kernel(region, {"x": "*i64"}, dict(OWN=own, WARPS=others, REGISTERS=registers, COPIES=copies, MORE=more),
                              options={"num_warps": warps})
    rows = register_plan(compiled.program, compiled.target)
    assert (rows[0].granted, {row.granted for row in rows[1:]}) == (default, shares)
    ptx = compiled.stages["ptx"]
    assert re.findall(r"\.maxnreg (\d+)", ptx) == [str(launch)]
    asked = [int(number) for number in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)", ptx)]
    body = asked[1:asked.index(asked[0], 2)]  # the default task: up before the region, its share in it, up again after it
    assert body[-1] == default
    assert shares <= set(asked)


@pytest.mark.parametrize("own, warps, registers, launch", [
    (None, 4, None, None), (None, 4, 256, 168), (240, 4, 240, 168), (None, 8, 240, 96), (None, 4, 304, 168), (304, 4, None, 168)])
def test_nothing_moves(own, warps, registers, launch):
    """Nobody asks; one asks for too much; together they ask for too much (240 * 12 warps of 168 * 12). A `setmaxnreg` that is not
    met would wait for ever for registers that nobody gives back, so there is none."""
    values = dict(OWN=own, WARPS=warps, REGISTERS=registers, COPIES=2, MORE=None)
    if launch:
        with pytest.warns(RemarkWarning, match=f"every thread has an equal share, {launch} at most") as caught:
            compiled = compile_kernel(region, {"x": "*i64"}, values)
        text, = (str(one.message) for one in caught)
        assert "Mend: ask for at most " in text and caught[0].filename == __file__
        assert "tlx.async_task(" in linecache.getline(__file__, caught[0].lineno)
        assert "remark at test_registers.py:" in resource_table(compiled.program, compiled.target)
    else:
        compiled = compile_kernel(region, {"x": "*i64"}, values)
        assert "remark" not in resource_table(compiled.program, compiled.target)
    assert "maxnreg" not in compiled.stages["ptx"]


@pytest.mark.parametrize("warps", [1, 2])
def test_a_default_task_is_whole_warpgroups(warps):
    with pytest.raises(triton.CompilationError, match=f"4, 8, 16, ... warps; this one is launched with num_warps={warps}"):
        compile_kernel(region, {"x": "*i64"}, dict(OWN=None, WARPS=4, REGISTERS=None, COPIES=1, MORE=None),
                       options={"num_warps": warps})


@mimw.jit
def wide_product(x, y, WARPS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y, 1.0)
        with tlx.async_task(num_warps=8):
            at = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
            left = tl.load(x + at)
            tl.store(y + 1 + at, tl.dot(left, left))
        with tlx.async_task(num_warps=WARPS):
            tl.store(y + 16385, 2.0)


@pytest.mark.long(but=["8-False"], everywhere=True)
@pytest.mark.parametrize("others, fits", [(4, True), (8, False)])
def test_an_instruction_must_fit_into_the_share_of_a_thread(others, fits, capsys):
    def compiled():
        return compile_kernel(wide_product, {"x": "*fp16", "y": "*fp32"}, {"WARPS": others}, options={"num_warps": 8})

    if fits:
        assert len(compiled().stages["cubin"])
        return
    with pytest.raises(triton.CompilationError) as caught:
        compiled()
    error = caught.value.__cause__
    assert isinstance(error, TooFewRegisters)
    assert error.required == 90 and error.limit == 80
    assert "the 24 warps of the CTA share 65536, which is 80 for each of 768 threads" in str(error)
    assert "use at most 20 warps in all" in str(error) and "tl.dot(left, left)" in str(error)


@mimw.jit
def held_by_few(x, y, MINE: tl.constexpr, OTHERS: tl.constexpr):
    buffers = tlx.local_alloc((128, 32), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(buffers[0], tl.load(x + tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]))
            tlx.barrier_arrive(full[0])
        with tlx.async_task(num_warps=4, registers=MINE):
            right = tl.load(x + tl.arange(0, 32)[:, None] * 128 + tl.arange(0, 128)[None, :])
            tlx.barrier_wait(full[0], 0)
            total = tl.dot(tlx.local_load(buffers[0]), right)
            tl.store(y + tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :], total)
        with tlx.async_task(num_warps=8, registers=OTHERS):
            tl.store(y + 16385, 2.0)


def test_what_a_thread_holds_must_find_a_place(capsys):
    """A sum of 128 registers a thread where every thread starts with 96: each instruction fits, the sum does not."""
    signature = {"x": "*fp16", "y": "*fp32"}
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(held_by_few, signature, {"MINE": None, "OTHERS": None}, options={"num_warps": 8})
    error = caught.value.__cause__
    assert isinstance(error, TooFewRegisters) and error.limit == 96
    assert "share the reproducer" not in capsys.readouterr().out        # thousands of lines of PTX, which say less than the error
    assert "the 20 warps of the CTA share 65536, which is 96 for each of 640 threads" in str(error)
    assert "alone holds 128 of them" in str(error) and "tl.dot(tlx.local_load" in str(error) and "`registers=`" in str(error)
    # as the message advises
    assert len(compile_kernel(held_by_few, signature, {"MINE": 152, "OTHERS": 40}, options={"num_warps": 8}).stages["cubin"])


@mimw.jit
def wide_load(x, y):
    """128 columns a thread in one instruction, where 24 warps leave each thread 80 registers."""
    sums = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    at = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    a = tlx.local_alloc((128, 32), tl.float16, 1)
    tlx.async_dot(a[0], tlx.local_trans(a[0]), sums[0], use_acc=False)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(y + at, tlx.local_load(sums[0]))
        with tlx.async_task(num_warps=16):
            tl.store(x, 1.0)


def test_a_load_of_tensor_memory_must_fit_into_the_share_of_a_thread(capsys):
    """Beside a product, which holds no sum in registers there; the line of the load is named."""
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(wide_load, {"x": "*fp32", "y": "*fp32"}, {}, options={"num_warps": 4}, target="sm_100a")
    error = caught.value.__cause__
    assert isinstance(error, TooFewRegisters)
    assert "local_load of tensor memory at " in str(error) and "holds 128 of them" in str(error)
    assert "tlx.subslice" in str(error)
