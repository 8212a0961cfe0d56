"""Programs that take the tiles of a grid in turn: equal to a program a tile to the last bit, compiled for Hopper, or refused."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.analysis.trips import axes_of_lengths
from mimw.compiler.orchestrate.persist import persistent, tile_loop
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.tile_orders import Order, row_of_tiles, shares_rows_and_columns
from mimw.compiler.passes import run_passes
from mimw.ir import I32, verify
from mimw.runtime.simulate import prepare
from mimw.simulator import Hooks, run
from mimw.target import wanted
from mimw.tools.orchestrate import choose, orchestrate
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.tiles import few_tiles
from mimw.tools.orchestrate.written import written

from .test_orchestrate import case, everywhere, plain

CASES = {       # tiles of a grid of one axis, of two axes, of two and a band, of heads; and with products a trip later
    "gemm_descriptors": dict(m=384, n=128, k=320),
    "gemm_bias_gelu": dict(m=256),
    "gemm_pointers": dict(m=192, n=136, k=328),
    "attention": dict(t=256, heads=2, d=32),
    "attention:causal": dict(t=512),
}
GEMM = CASES["gemm_descriptors"]


@pytest.mark.long(everywhere=True, but=[
    "gemm_descriptors-1-False", "gemm_pointers-2-True", "attention:causal-1-False", "gemm_bias_gelu-1-False"])
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


def test_a_plan_with_tiles_of_y_first_is_proved():
    """The proof runs the same few tiles of a large grid by both kernels, whose numbers differ: 32 x 2 of them, by one program each
    and by few."""
    one = written(plain("attention", t=4096, heads=2, d=32), Plan(stages=2, persistent=True, across=True))
    found = prove(one, seeds=2, limit=10)
    assert found.ok and one.plan.across and "tile_y" in one.text, found
    (whole, *_) = [line for line in found.compared if line["most"] == np.prod(line["grid"]) > 4]
    assert len(whole["programs"]) > 2 and not whole["different"]


@mimw.jit
def numbered(out, A: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1) if A > 1 else 0, tl.program_id(2) if A > 2 else 0
    at = out + x * 16 + y * 4 + z
    tl.store(at, tl.load(at) + 1 + x * 100 + y * 10 + z)


ORDERS = [Order(), Order(across=True), Order(band=2), Order(band=3), Order(last_first=True), Order(True, last_first=True),
          Order(band=2, last_first=True)]
NAMES = ["x", "y", "bands of 2", "bands of 3", "x backwards", "y backwards", "bands of 2 backwards"]


def test_programs_take_the_last_tiles_there_and_back():
    """Seven tiles by three programs; the last round has one."""
    got = np.zeros(128, np.int32)
    made = persistent(prepare(numbered, (7, ), (got, ), dict(A=1), "sm_90a").recorded, Order(last_first=True))
    program = run_passes(made.program, wanted("sm_90a"))
    for number, tiles in enumerate([[0, 1, 6], [2, 5], [3, 4]]):
        got = np.zeros(128, np.int32)
        values = {param.path: got if param.name == "out" else 7 for param in made.program.params}
        run(program, (3, ), values, hooks=Hooks(clusters=(((number, 0, 0), ), )))
        assert list(np.flatnonzero(got) // 16) == tiles


def test_the_last_tiles_come_first_in_some_plans_where_lengths_differ():
    """Causal attention's loops end by the number of the block of rows; full attention's do not."""
    def kinds(**sizes):
        every = choose.every_plan(plain("attention", **sizes))
        return [(one.consumers, one.across, one.tiles_in_turn) for one in every if one.last_first]

    assert kinds(causal=True, t=256, d=64, heads=2) == [
        (2, False, False), (2, True, False), (1, False, False), (1, True, False), (2, False, True), (2, True, True)]
    assert not kinds(t=256, d=64, heads=2)
    assert axes_of_lengths(plain("attention", causal=True).program) == {0}


def test_a_plan_with_the_last_tiles_first_is_proved():
    """Two heads: the few tiles that are looked at lie along the blocks of rows, whose number says how long loops are."""
    one = written(plain("attention", causal=True, t=1024, heads=2, d=32),
                  Plan(stages=2, persistent=True, across=True, last_first=True))
    found = prove(one, seeds=2, limit=10)
    assert found.ok and "from_last" in one.text and few_tiles(one, one.plain.launch.grid) == (5, 1), found
    whole = [line for line in found.compared if line["most"] == np.prod(line["grid"]) > 4]
    assert whole and not any(line["different"] for line in whole)


def test_y_first_has_no_bands():
    made = persistent(prepare(numbered, (2, 4), (np.zeros(80, np.int32), ), dict(A=2), "sm_90a").recorded, Order(True, 2))
    assert made.order == Order(across=True)


@pytest.mark.parametrize("order", ORDERS, ids=NAMES)
@pytest.mark.parametrize("programs", [1, 2, 5, 7])
@pytest.mark.parametrize("grid", [(5, ), (3, 2), (2, 4, 2), (1, 1)])
def test_each_tile_is_taken_once_whatever_the_number_of_programs(grid, programs, order):
    """Tiles are numbered as the grid's programs are, x fastest, with y fastest, or in bands; each counts itself, so that none is
    left out or done twice."""
    expected, got = np.zeros(80, np.int32), np.zeros(80, np.int32)
    launch = prepare(numbered, grid, (expected, ), dict(A=len(grid)), "sm_90a")
    run(launch.program, grid, launch.values)
    made = persistent(prepare(numbered, grid, (got, ), dict(A=len(grid)), "sm_90a").recorded, order)
    assert made.order == (replace(order, band=0) if len(grid) == 1 else order)
    assert made.params == (("tiles", ) if len(grid) == 1 else ("tiles", "tiles_x", "tiles_y"))
    verify(made.program)
    assert tile_loop(made.program).name == "for" and len(made.program.named("get_program_id")) == 1
    numbers = dict(zip(made.params, (int(np.prod(grid)), *grid)))
    values = {param.path: got if param.name == "out" else numbers[param.name] for param in made.program.params}
    run(run_passes(made.program, wanted("sm_90a")), (programs, ), values)
    np.testing.assert_array_equal(got, expected)
    assert np.count_nonzero(got) == np.prod(grid)


@mimw.jit
def in_rows(out, columns, A: tl.constexpr):
    """Each tile counts itself; the kernel takes its number along x apart."""
    pid = tl.program_id(0)
    at = out + pid // columns * 16 + pid % columns
    tl.store(at, tl.load(at) + 1)


@pytest.mark.parametrize("order", ORDERS, ids=NAMES)
@pytest.mark.parametrize("kernel, grid, columns", [(numbered, (2, 4, 2), None), (in_rows, (21, ), 3), (in_rows, (23, ), 3),
                                                   (in_rows, (2, ), 3)])
def test_tiles_have_the_numbers_that_their_order_gives_them(kernel, grid, columns, order):
    """One program of as many as there are tiles, by each tile's number: it takes that tile and no other. The last row of the
    kernel's own need not be whole."""
    got = np.zeros(256, np.int32)
    made = persistent(prepare(kernel, grid, (got, ) if columns is None else (got, columns), dict(A=3), "sm_90a").recorded, order)
    program, numbers = run_passes(made.program, wanted("sm_90a")), dict(zip(made.params, (np.prod(grid), *grid)))
    values = {param.path: (numbers | {"out": got, "columns": columns})[param.name] for param in made.program.params}
    seen = set()
    for i, j, k in np.ndindex(*(*grid, 1, 1)[:3]):
        number = made.order.number((i, j, k), grid, columns if made.order.band else None)
        run(program, (np.prod(grid), ), values, hooks=Hooks(clusters=(((number, 0, 0), ), )))
        assert list(np.flatnonzero(got)) == [i * 16 + j * 4 + k if columns is None else i // columns * 16 + i % columns]
        got[...] = 0
        seen.add(number)
    assert seen == set(range(np.prod(grid)))


def test_rows_of_tiles_are_those_of_one_quotient():
    def rows(name, **sizes):
        return row_of_tiles(plain(name, **sizes).program)

    assert rows("gemm_descriptors").name.startswith("tiles_n")
    assert rows("gemm_pointers") is None        # takes rows in bands itself
    assert rows("gemm_bias_gelu") is None and rows("attention") is None     # of a grid with two axes
    alike = [shares_rows_and_columns(plain(name).program) for name in ("gemm_descriptors", "gemm_bias_gelu", "attention")]
    assert alike == [True, True, False]


@pytest.mark.parametrize("name, sizes", [("gemm_descriptors", dict(m=128 * 18, n=256, k=192)),
                                         ("gemm_bias_gelu", dict(m=256, n=128 * 18, k=192))])
def test_a_plan_with_tiles_in_bands_is_proved(name, sizes):
    """The proof runs tiles at the ends of bands, too."""
    one = written(plain(name, **sizes), Plan(stages=2, persistent=True, band=8))
    found = prove(one, seeds=2, limit=10)
    assert found.ok and one.plan.band == 8 and "in_bands" in one.text, found
    whole = [line for line in found.compared if line["most"] == np.prod(line["grid"]) > 4]
    assert all(len(line["programs"]) > 6 and not line["different"] for line in whole) and whole


def test_bands_are_tried_where_rows_are_long():
    """Of a product with 32 tiles in a row, whose programs have four rows at a time; not of few, nor of attention's."""
    def kinds(name, **sizes):
        return [(one.consumers, one.tiles_in_turn, one.band) for one in choose.every_plan(plain(name, **sizes)) if one.band]

    assert kinds("gemm_descriptors", m=128 * 16, n=128 * 32, k=64) == [(2, False, 8), (1, False, 8), (2, True, 8)]
    assert not kinds("gemm_descriptors", m=128 * 16, n=128 * 4, k=64) and not kinds("attention", t=2048, d=64, heads=32)


def test_tiles_of_y_come_first_in_some_plans_of_a_grid_with_both_axes():
    """Attention's grid has heads along y: some plans take all heads of a block of rows first. A grid of one axis has no such plan,
    nor one that is a single tile wide."""
    def kinds(name, **sizes):
        return [(one.consumers, one.tiles_in_turn, one.persistent) for one in choose.every_plan(plain(name, **sizes)) if one.across]

    found = kinds("attention", t=256, d=64, heads=2)
    assert found and len(set(found)) == len(found) and all(one[2] for one in found)
    assert not kinds("gemm_descriptors") and not kinds("attention", t=256, d=64)


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
    one = written(plain("gemm_descriptors", m=384, n=256, k=320, bn=256, warps=8), Plan(consumers=2, stages=3, persistent=True))
    made = mimw.compile(one.kernel, one.programs(one.plain.launch.grid), *one.arguments(), num_warps=one.num_warps, target="sm_90a")
    assert made.stack_bytes == 0 and "setmaxnreg.inc" in made.ptx and "wgmma.mma_async" in made.ptx


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


def with_loop(**changes):
    """Other operands of the loop over tiles."""
    def changed(made):
        loop = tile_loop(made.program)
        return replace(made, program=everywhere(
            lambda op: op.with_operands(**{name: getattr(op, other) for name, other in changes.items()}) if op is loop else op)(
                made.program))
    return changed


def turned(made):
    """Extents of the grid in the other order."""
    _, x, y = (param.value for param in made.program.params[-3:])
    other = {x: y, y: x}
    return replace(made, program=everywhere(
        lambda op: op.with_operands(rhs=other[op.rhs]) if "rhs" in op.row.places and op.rhs in other else op)(made.program))


def slots_from_the_start(made):
    """Consumers count chunks anew for each tile; the producer goes on."""
    loops = [op for op in made.program.walk() if op.name == "for" and op.blocks[0].args[0].name == "tile"]

    def change(op):
        if op not in loops[:-1]:
            return op
        *ops, last = op.blocks[0].ops
        values = tuple(init if init.type == I32 else given for init, given in zip(op.inits, last.values))
        return replace(op, blocks=(op.blocks[0].with_ops((*ops, last.with_operands(values=values))), ))
    return replace(made, program=everywhere(change)(made.program))


MISTAKES = {
    "the first tiles are left out": ("persistent", with_loop(start="step")),
    "programs take each other's tiles": ("persistent", with_loop(step="start")),
    "no program has more than one tile": ("persistent", with_loop(end="step")),
    "y is counted first": ("persistent", turned),
    "slots from the start": ("orchestrated", slots_from_the_start),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_loop_over_tiles_is_found(mistake, monkeypatch):
    from mimw.tools.orchestrate import written as module
    step, change = MISTAKES[mistake]
    right, changed = getattr(module, step), []

    def wrong(*given):
        made = right(*given)
        changed.append(change(made))
        assert changed[-1].program.body is not made.program.body
        return changed[-1]

    monkeypatch.setattr(module, step, wrong)
    one = written(plain("gemm_bias_gelu", m=256, n=384), Plan(stages=2, persistent=True))
    assert changed and one.kernel is not None
    assert not prove(one, seeds=2, limit=10).ok


BANDS = {
    "a band has another number of rows": lambda of: replace(of, rows=of.rows - 1),
    "a band is longer than its rows": lambda of: replace(of, of_one=of.of_all),
    "no tile is in a band": lambda of: replace(of, of_all=of.columns),
}


@pytest.mark.parametrize("mistake", BANDS)
def test_a_mistake_in_bands_is_found(mistake, monkeypatch):
    from mimw.compiler.orchestrate import persist as module
    right = module.place_in_bands
    monkeypatch.setattr(module, "place_in_bands", lambda b, tile, of: right(b, tile, BANDS[mistake](of)))
    one = written(plain("gemm_descriptors", m=128 * 18, n=256, k=192), Plan(stages=2, persistent=True, band=8))
    assert one.kernel is not None and not prove(one, seeds=2, limit=10).ok


# ---- what stays a program a tile ---------------------------------------------------------------------------------------------


@mimw.jit
def in_the_way(x, y, K, WHAT: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * 16 + tl.arange(0, 16)
    if WHAT == 0:
        at += tl.num_programs(0)
    if WHAT == 1:
        tl.atomic_add(y, 1.0)
    if WHAT == 2:
        tl.debug_barrier()
    if WHAT == 3:
        while tl.load(y, volatile=True) == 0.0:
            pass
    if WHAT == 4:
        desc = tl.make_tensor_descriptor(x + pid * K, [K], [1], [16])
        desc.store([0], tl.zeros((16, ), tl.float32))
    if WHAT == 5:
        desc = tl.make_tensor_descriptor(x, [K], [1], [16])
        desc.store([pid * 16], tl.zeros((16, ), tl.float32))
    tl.device_assert(pid >= 0)
    tl.store(x + at, tl.load(x + at) + 1.0)


@mimw.jit
def alone(x):
    tl.store(x + tl.arange(0, 16), tl.zeros((16, ), tl.float32))


@pytest.mark.parametrize("what, word, reason", [
    (0, "tl.num_programs(0)", "asks how many programs there are"),
    (1, "atomic_add", "is an atomic access, by which programs may wait for each other"),
    (2, "debug_barrier", "may order programs or their threads"),
    (3, "volatile=True", "is volatile, as where a program waits for another one"),
    (4, "x + pid * K", "this descriptor is made of what differs from tile to tile"),
])
def test_a_refusal_has_its_line(what, word, reason):
    found = refused_or_made(in_the_way, what)
    (said, ) = found.remarks
    assert not found.params and reason in said.message, said
    source, first = inspect.getsourcelines(in_the_way.fn)
    assert word in source[said.site.line - first]


def test_a_descriptor_of_no_program_is_made_once_in_front_of_all_tiles():
    found = refused_or_made(in_the_way, 5)
    assert found.params == ("tiles", ) and "make_tensor_descriptor" in [op.name for op in found.program.body.ops]
    (said, ) = persistent(prepare(alone, (1, ), (np.zeros(64, np.float32), ), {}, "sm_90a").recorded).remarks
    assert "no program asks for its number" in said.message


def refused_or_made(kernel, what):
    arrays = np.zeros(64, np.float32), np.ones(64, np.float32)
    return persistent(prepare(kernel, (4, ), (*arrays, 64), dict(WHAT=what), "sm_90a").recorded)


def test_one_tile_proves_nothing_of_several():
    found = prove(written(plain("gemm_descriptors", m=128, n=128, k=320), Plan(stages=2, persistent=True)), seeds=1, limit=5)
    assert "no launch could be compared in which a program takes several tiles" in found.wrong


# ---- the search ----------------------------------------------------------------------------------------------------------------


def test_both_are_tried_where_there_are_more_tiles_than_multiprocessors(monkeypatch):
    monkeypatch.setattr(choose, "COMPILED", 0)
    launch = plain("gemm_descriptors", **GEMM)
    few = [replace(one, stages=2) for one in choose.plans(launch.program) if one.consumers == 1 and not one.warps]
    monkeypatch.setattr(choose, "plans", lambda *_: iter(few))
    assert not any(one.plan.persistent for one in choose.candidates(launch, predict=False).candidates)
    monkeypatch.setattr(choose, "device_programs", lambda chip: 2)
    found = choose.candidates(launch, predict=False).candidates
    assert {(one.plan.persistent, one.plan.stores) for one in found} == {(False, False), (False, True), (True, False), (True, True)}
    assert len({one.name for one in found}) == len(found) == 4
    remarks = []
    assert not choose._in_turn(plain("gemm_persistent", programs=6), remarks)
    assert "asks how many programs" in remarks[0].message


def test_the_report_names_it_and_a_launch_runs_it(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setattr(choose, "COMPILED", 0)
    kernel, grid, args, meta, (out, expected) = case("gemm_descriptors", **GEMM)
    found = orchestrate(kernel, grid, *args, plan=Plan(stages=2, persistent=True), seeds=1, limit=5, **meta)
    assert "persistent" in str(found).splitlines()[1] and found.plan.persistent and found.certificate.ok, found
    replace(found, is_used=True)[grid](*args, **meta)
    np.testing.assert_allclose(out, expected(), rtol=1e-2, atol=1e-1)
    assert Plan.parse(found.plan.text()) == found.plan
