"""Small loads a trip ahead, and loads of one address: the same bits, nothing behind the end, and what stays, with its line."""

from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.small_loads import loaded_ahead
from mimw.ir import Scalar
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.fuzz.ordinary.mutants import CORPUS, MUTANTS, _proved
from tests.orchestrate.cases import gemm_fp8_blocks, small_loads
from tests.orchestrate.launched import Launched
from tests.orchestrate.running import recorded, run


def plain(module, **sizes):
    kernel, grid, args, meta, _ = module.case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_the_same_bits_and_nothing_behind_the_end(trips):
    """Arrays have as many scales as there are trips: the simulator stops at a load behind them."""
    *launch, (out, expected) = small_loads.case(k=32 * trips, programs=1)
    run(None, *launch)
    wanted = out.copy()
    np.testing.assert_allclose(wanted, expected(), rtol=1e-4, atol=1e-3)
    out[...] = 0
    program, _ = run(lambda program: loaded_ahead(program).program, *launch)
    loop, = program.named("for")
    assert out.tobytes() == wanted.tobytes() and len(loop.blocks[0].args) == len(loop.inits) + 1
    assert len(program.named("masked_load")) == 8 and not program.named("load")


@pytest.mark.parametrize("module, sizes, consumers", [(small_loads, dict(k=128, m=128), 2),
                                                     (gemm_fp8_blocks, dict(k=384, n=128), 1)])
def test_a_plan_is_proved(module, sizes, consumers):
    one = written(plain(module, **sizes), Plan(consumers=consumers, stages=2))
    proof = prove(one, seeds=2, limit=20)
    assert proof.ok, proof
    said = [remark.message for remark in one.remarks]
    assert any("the load of sa runs a trip ahead" in message for message in said)
    assert any("all elements of the load are one of sb" in message for message in said)
    assert "ahead" not in " ".join(remark.message for remark in written(one.plain, Plan(stages=2, ahead=False)).remarks)


def test_arrays_that_are_written_have_to_be_apart():
    made = loaded_ahead(plain(small_loads).program)
    assert made.apart == {(name, "out") for name in ("sa", "sb", "number")}


def test_what_stays_in_its_trip_is_told_with_the_reason():
    kernel, grid, args, meta, _ = small_loads.refused()
    program = recorded(kernel, grid, args, meta)
    made = loaded_ahead(program)
    assert made.program is program
    lines = Path(small_loads.__file__).read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if "tl.load(table" in line)
    assert [(remark.site.line - first, remark.message.partition("trip: ")[2]) for remark in made.remarks] == [
        (1, f"its address follows from `load` of line {first}"), (2, f"its address follows from `sdiv` of line {first + 2}"),
        (3, "the kernel may write the array that it reads")]


@pytest.mark.parametrize("mistake", ["a small load of the trip before", "the last trip loads one more",
                                     "another one of the numbers that all are"])
def test_a_mistake_is_found(mistake):
    make, plan = CORPUS["small loads"]
    was_planted, said = _proved(make(), plan, *MUTANTS[mistake])
    assert was_planted and said


# ---- one address -----------------------------------------------------------------------------------------------------------


@mimw.jit
def quotients(table, out, first, N: tl.constexpr, BY: tl.constexpr, PLUS: tl.constexpr):
    cols = tl.program_id(0) * N + tl.arange(0, N)
    for trip in range(2):
        tl.store(out + cols * 2 + trip, tl.load(table + first + (cols + PLUS) // BY * 2 + trip))


@pytest.mark.parametrize("n, by, plus, is_one", [(32, 32, 0, True), (32, 64, 0, False), (32, 16, 0, False), (32, 32, 1, False),
                                                 (16, 16, 32, True), (32, 32, -64, True)])
def test_one_address_is_one_load(n, by, plus, is_one):
    table, out = np.arange(64, dtype=np.int32), np.zeros(8 * n, np.int32)
    launched = Launched(quotients, (4, ), (table, out, 16), dict(N=n, BY=by, PLUS=plus))
    numbers = [op for op in launched.made.program.named("load") if isinstance(op.result.type, Scalar)]
    assert len(numbers) == is_one
    if not is_one:
        return
    launched.run_plain()
    wanted, fault = out.copy(), launched.fault()
    assert bool(fault) == (plus < 0), fault       # quotients of negative numbers are cut off towards 0
    if not fault:
        out[...] = 0
        launched.run_lifted()
        assert out.tobytes() == wanted.tobytes()
