"""Programs that take the tiles of a grid in turn: equal to a program a tile to the last bit, compiled for Hopper, or refused."""

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.persist import persistent, tile_loop
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.passes import run_passes
from mimw.ir import verify
from mimw.runtime.simulate import prepare
from mimw.simulator import run
from mimw.tools.orchestrate import choose, orchestrate
from mimw.tools.orchestrate import prove as proof
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from mimw.target import wanted

from .test_orchestrate import case, everywhere, plain

CASES = {       # tiles of a grid of one axis, of two axes, of two and a band, of heads; and with products a trip later
    "gemm_descriptors": dict(m=384, n=128, k=320),
    "gemm_bias_gelu": dict(m=256),
    "gemm_pointers": dict(m=192, n=136, k=328),
    "attention": dict(t=512, heads=2),
    "attention:causal": dict(t=512),
}
GEMM = CASES["gemm_descriptors"]


@pytest.mark.parametrize("consumers, stores", [(1, False), (2, True)])
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_proved_with_several_tiles_a_program(name, consumers, stores):
    one = written(plain(name, **CASES[name]), Plan(consumers=consumers, stages=2, persistent=True, stores=stores))
    assert one.kernel is not None and one.is_persistent, (one.wrong, one.refused, one.remarks)
    found = prove(one, seeds=2, limit=10)
    assert found.ok, found
    several = [line for line in found.compared if line["most"] < np.prod(line["grid"])]
    single = [line for line in found.compared if line["most"] == np.prod(line["grid"])]
    assert several and single and not any(line["different"] for line in found.compared)
    if name == "gemm_descriptors":
        assert {line["sizes"].get("K") for line in several} == {None, 0, 64, 128, 192}


@pytest.mark.parametrize("programs", [1, 2, 5, 7])
@pytest.mark.parametrize("grid", [(5, ), (3, 2), (2, 2, 2), (1, 1)])
def test_each_tile_is_taken_once_whatever_the_number_of_programs(grid, programs):
    """Tiles are numbered as the grid's programs are, x fastest; each counts itself, so that none is left out or done twice."""

    @mimw.jit
    def numbered(out, A: tl.constexpr):
        x, y, z = tl.program_id(0), tl.program_id(1) if A > 1 else 0, tl.program_id(2) if A > 2 else 0
        at = out + x * 16 + y * 4 + z
        tl.store(at, tl.load(at) + 1 + x * 100 + y * 10 + z)

    expected, got = np.zeros(80, np.int32), np.zeros(80, np.int32)
    launch = prepare(numbered, grid, (expected, ), dict(A=len(grid)), "sm_90a")
    run(launch.program, grid, launch.values)
    made = persistent(prepare(numbered, grid, (got, ), dict(A=len(grid)), "sm_90a").recorded)
    assert made.params == (("tiles", ) if len(grid) == 1 else ("tiles", "tiles_x", "tiles_y"))
    verify(made.program)
    assert tile_loop(made.program).name == "for" and len(made.program.named("get_program_id")) == 1
    numbers = dict(zip(made.params, (int(np.prod(grid)), *grid)))
    values = {param.path: got if param.name == "out" else numbers[param.name] for param in made.program.params}
    run(run_passes(made.program, wanted("sm_90a")), (programs, ), values)
    np.testing.assert_array_equal(got, expected)
    assert np.count_nonzero(got) == np.prod(grid)


def test_a_launch_takes_the_plain_kernel_s_grid_and_arguments(monkeypatch):
    """Of seven tiles on four multiprocessors, and of three; a grid whose other axes the kernel does not ask for stays plain."""
    kernel, grid, args, meta, (out, expected) = case("gemm_descriptors", m=128 * 7, n=128, k=192)
    one = written(plain_of(kernel, grid, args, meta, "sm_90a"), Plan(consumers=2, stages=2, persistent=True))
    monkeypatch.setattr("mimw.tools.orchestrate.written.device_programs", lambda chip: 4)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    one.runs(grid, args, meta)()
    np.testing.assert_allclose(out, expected(), rtol=1e-2, atol=1e-1)
    out[...] = 0
    one.runs((3, ), args, meta)()
    assert out[:384].any() and not out[384:].any()
    assert [one.programs(each, 4) for each in ((7, ), (3, ), (3, 5))] == [(4, ), (3, ), (4, )]
    assert one.programs((4096, )) == (132, )
    assert "asks for its place along the first one alone" in one.why_plain((7, 2), args, meta)
    assert "counted in 32 bits" in one.why_plain(((1 << 30) + 1, ), args, meta)
    assert one.why_plain(grid, args, meta) == "" and 'do_not_specialize=["tiles"]' in one.text


def test_what_is_compiled_has_no_stack():
    one = written(plain("gemm_descriptors", m=384, n=256, k=320, bn=256, warps=8), Plan(consumers=2, persistent=True))
    made = mimw.compile(one.kernel, one.programs(one.plain.launch.grid), *one.arguments(), num_warps=one.num_warps, target="sm_90a")
    assert made.stack_bytes == 0 and "setmaxnreg.inc" in made.ptx and "wgmma.mma_async" in made.ptx


@pytest.mark.parametrize("mistake", ["another tile", "a tile too few", "slots from the start for each tile"])
def test_a_mistake_in_the_loop_over_tiles_is_found(mistake, monkeypatch):
    from mimw.tools.orchestrate import written as module
    right, made = module.orchestrated, []

    def wrong(*given):
        found = right(*given)
        loops = {op for op in found.program.walk() if op.name == "for" and op.start in starts(found.program)}

        def change(op):
            if mistake == "another tile" and op in loops:
                return op.with_operands(step=op.start)
            if mistake == "a tile too few" and op in loops:
                return op.with_operands(end=next(each.result for each in found.program.named("get_num_programs")))
            if mistake.startswith("slots") and op in loops and op is not max(loops, key=list(found.program.walk()).index):
                body = op.blocks[0]
                last = body.ops[-1].with_operands(values=tuple(op.inits))
                return replace(op, blocks=(body.with_ops((*body.ops[:-1], last)), ))
            return op
        made.append(replace(found, program=everywhere(change)(found.program)))
        return made[-1]

    def starts(program):
        return {op.result for op in program.named("get_program_id")}

    monkeypatch.setattr(module, "orchestrated", wrong)
    one = written(plain("gemm_descriptors", **GEMM), Plan(stages=2, persistent=True))
    assert made
    assert not prove(one, seeds=2, limit=10).ok
