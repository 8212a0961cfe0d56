"""No pass of Triton's changes the order of effects: loops that are left alone, reads that stay, and the guard behind both."""

import re

import numpy as np
import pytest

import mimw
from mimw.compiler import guard
from mimw.compiler.analysis import order
from mimw.compiler.pipeline import stages as pipeline
from mimw.compiler.triton_port.text import module_of
from mimw.errors import OrderChanged
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir
from tests.kernels import ordered_effects as ordered

SIGNATURE = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "flag": "*i32", "K": "i32"}
ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(5)}
EFFECTS = ("local_store local_scatter local_atomic store atomic acquire barrier_wait barrier_arrive barrier_expect tma_load "
           "tma_store tma_store_wait async_load async_wait fence_async fence_gpu named_barrier_wait named_barrier_arrive "
           "cluster_barrier remote_store asm debug_barrier").split()


def compiled(kernel, target="sm_90a", **options):
    return to_ttgir(kernel, SIGNATURE, {"BK": 64}, target, {"num_warps": 4, **options}, attrs=ALIGNED)


def code(kernel, *args, **options):
    text = compiled(kernel, *args, **options).stages["ttgir"]
    return text[text.index("tt.func"):text.index("\n#loc", text.index("tt.func"))].splitlines()


def where(lines, word):
    return [index for index, line in enumerate(lines) if word in line]


@pytest.mark.long(but=["tle-1", "tlx-2", "tlx-3", "tlx-4"], everywhere=True)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [ordered.filled_under_an_if, ordered.filled_under_an_if_by_pointers], ids=["tlx", "tle"])
def test_a_fill_under_an_if_stays_before_its_use(kernel, stages):
    lines = code(kernel, num_stages=stages)
    (fill, ), (dot, ), *loops = where(lines, "ttg.local_store"), where(lines, "ttng.warp_group_dot "), where(lines, "scf.for")
    assert loops[0][0] < fill < dot and "isAsync" not in lines[dot] or "warp_group_dot_wait" in lines[dot + 1]


@pytest.mark.parametrize("target", ["sm_100a", "gfx942", "gfx950"])
def test_also_on_other_chips(target):
    lines = code(ordered.filled_under_an_if, target, num_stages=3)
    assert where(lines, "ttg.local_store")[0] < where(lines, "ttg.local_load")[0]


def test_a_loop_without_effects_of_ours_is_pipelined_beside_one_with():
    lines = code(ordered.own_loop_beside_words, num_stages=3)
    first, second = where(lines, "scf.for")
    ahead = where(lines, "ttg.async_copy_global_to_local")
    assert ahead and min(ahead) < first and max(ahead) < second
    assert "tt.num_stages = 0" in "".join(lines[second:]) and "tt.num_stages = 0" not in "".join(lines[first:second])


def test_a_kernel_with_a_marked_loop_that_is_unrolled_is_not_pipelined():
    assert not where(code(ordered.unrolled, num_stages=3), "isAsync = true")


def test_the_meetings_of_a_cluster_keep_their_place():
    lines = code(ordered.meeting_in_a_loop, num_stages=3, ctas_per_cga=(2, 1, 1))
    assert not where(lines, "async_copy_global_to_local")


DESCRIBED = {"x": "*i32", "y": "*i32", "desc": "tensordesc<i32[64]>", "K": "i32"}
TOGETHER = re.compile(r"ttng\.(async_tma_copy_global_to_local|wait_barrier|async_tma_copy_local_to_global|async_tma_store_wait)")


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_an_access_by_descriptor_stays_in_one_piece(target):
    text = to_ttgir(ordered.by_descriptor_beside_loads, DESCRIBED, {}, target, {"num_warps": 4},
                    attrs={(index, ): [["tt.divisibility", 16]] for index in (0, 1)}).stages["ttgir"]
    steps = [found[1] for line in text.splitlines() if (found := TOGETHER.search(line))]
    assert steps == ["async_tma_copy_global_to_local", "wait_barrier", "async_tma_copy_local_to_global", "async_tma_store_wait"]


# ---- the guard, with the fix taken out ----------------------------------------------------------------------------------

@pytest.fixture
def no_fix(monkeypatch, tmp_path):
    """Loops are not marked, Triton's pipeliner and its reordering run, and no cache answers."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(order.LoopPlan, "may_pipeline", True)
    monkeypatch.setattr(pipeline, "may_pipeline", lambda program: True)
    monkeypatch.setattr(pipeline, "may_sink_reads", lambda program: True)


@pytest.mark.parametrize("kernel, moved", [
    (ordered.filled_under_an_if, "pipeline"), (ordered.filled_under_an_if_by_pointers, "pipeline"),
    (ordered.read_before_a_loop_that_writes, "reorder_instructions|pipeline"), (ordered.meeting_in_a_loop, "pipeline")],
    ids=lambda value: getattr(value, "__name__", None))
def test_the_guard_names_the_pass_and_the_lines(no_fix, kernel, moved):
    options = {"ctas_per_cga": (2, 1, 1)} if kernel is ordered.meeting_in_a_loop else {}
    with pytest.raises(OrderChanged, match=f"pass '({moved})'") as caught:
        compiled(kernel, num_stages=3, **options)
    assert "ordered_effects.py:" in str(caught.value) and kernel.__name__ in str(caught.value)
    assert all(site.function == kernel.__name__ for site in caught.value.sites)


def test_the_guard_sees_an_access_by_descriptor_taken_apart(no_fix):
    with pytest.raises(OrderChanged, match="pass 'pipeline' moved"):
        compile_kernel(ordered.by_descriptor_beside_loads, DESCRIBED, {}, "sm_90a", {"num_warps": 4},
                       attrs={(index, ): [["tt.divisibility", 16]] for index in (0, 1)})


# ---- what MLIR is told about effects ------------------------------------------------------------------------------------

@pytest.mark.parametrize("what", EFFECTS)
def test_two_reads_with_an_effect_between_stay_two(what):
    options = {"ctas_per_cga": (2, 1, 1)} if what in ("cluster_barrier", "remote_store") else {}
    text = to_ttgir(ordered.between_reads, {"x": "*i32", "y": "*i32", "desc": "tensordesc<fp16[16,64]>", "K": "i32"},
                    {"WHAT": what}, "sm_90a", {"num_warps": 4, **options}).stages["ttgir"]
    lines = text[text.index("tt.func"):].splitlines()
    kept = [line for line in lines if " = ttg.local_load " in line]
    assert len(kept) == 2, f"{len(kept)} reads of the buffer"
    assert len([line for line in lines if " = tt.load " in line]) == 2


@pytest.mark.long(everywhere=True, but=[
    "barrier_arrive-gfx942", "barrier_wait-gfx942", "debug_barrier-gfx942", "named_barrier_arrive-gfx1250",
    "named_barrier_wait-gfx1250"])
@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("what", ["barrier_wait", "barrier_arrive", "named_barrier_wait", "named_barrier_arrive", "debug_barrier"])
def test_also_on_amd(what, target):
    text = to_ttgir(ordered.between_reads, {"x": "*i32", "y": "*i32", "desc": "*fp16", "K": "i32"}, {"WHAT": what}, target,
                    {"num_warps": 4}).stages["ttgir"]
    assert text.count(" = ttg.local_load ") == 2 and text.count(" = tt.load ") == 2


def test_without_an_effect_between_they_become_one():
    text = to_ttgir(ordered.between_reads, {"x": "*i32", "y": "*i32", "desc": "tensordesc<fp16[16,64]>", "K": "i32"},
                    {"WHAT": "nothing"}, "sm_90a", {"num_warps": 4}).stages["ttgir"]
    assert text.count(" = ttg.local_load ") == 1 and text.count(" = tt.load ") == 1


# ---- values -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_values_by_descriptor(machine, rounds):
    x, z = (np.random.default_rng(seed).integers(0, 99, (rounds, 64)).astype(np.int32) for seed in (0, 1))
    y = np.zeros((2 * rounds + 1, 64), np.int32)
    machine.launch(ordered.by_descriptor_beside_loads, (1, ), x, y, mimw.TensorDescriptor(z, [rounds * 64], [1], [64]), rounds)
    assert (y == [*(z + x), *(z + 1), np.arange(64)]).all()


@pytest.mark.long(everywhere=[
    "filled_under_an_if-1", "filled_under_an_if_by_pointers-2", "meeting_in_a_loop-1", "own_loop_beside_words-1",
    "read_before_a_loop_that_writes-3", "unrolled-4"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["filled_under_an_if", "filled_under_an_if_by_pointers", "read_before_a_loop_that_writes",
                                  "unrolled", "own_loop_beside_words", "meeting_in_a_loop"])
def test_values(machine, name, stages):
    K, BK, ctas = 256, 64, 2 if name == "meeting_in_a_loop" else 1
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, K)).astype(np.float16), rng.standard_normal((K, 64)).astype(np.float16)
    c, flag = np.zeros((64 * ctas, 64), np.float32), np.zeros(1, np.int32)
    options = {"ctas_per_cga": (ctas, 1, 1)} if ctas > 1 else {}
    machine.launch(getattr(ordered, name), (ctas, ), a, b, c, flag, K, BK, num_stages=stages, num_warps=4, **options)
    product = a.astype(np.float32) @ b.astype(np.float32)
    parts = [slice(k, k + BK) for k in range(0, K, BK)]
    expected = {
        "read_before_a_loop_that_writes": lambda: a[:, :BK].astype(np.float32) @ sum(b[part].astype(np.float32) for part in parts)
        + a[:, parts[-1]].astype(np.float32).sum(1, keepdims=True),
        "own_loop_beside_words": lambda: 2 * product,
        "meeting_in_a_loop": lambda: np.concatenate([product] * 2),
    }.get(name, lambda: product)()
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("flag", [0, 1])
def test_rounds_of_which_some_lose_a_branch(machine, flag):
    """The guard follows each copy of an op that unrolling makes."""
    x, y = np.arange(5 * 64, dtype=np.int32).reshape(5, 64), np.zeros((6, 64), np.int32)
    machine.launch(ordered.unrolled_with_branches, (1, ), x, y, np.full(1, flag, np.int32), num_warps=4)
    copied = [x[0] if i % 3 == 0 or flag == 1 else 0 * x[0] for i in range(5)]
    assert (y == [*copied, x.sum(0)]).all()


FLAGGED = {"x": "*i32", "y": "*i32", "flag_ptr": "*i32"}


def test_rounds_of_which_some_lose_a_branch_compile():
    compile_kernel(ordered.unrolled_with_branches, FLAGGED, {}, "sm_90a")


@pytest.mark.parametrize("copy", [0, 3, 6])
def test_a_change_in_one_of_the_rounds_is_found(copy, monkeypatch, tmp_path):
    """An arrival that a pass behind loop_unroll takes past the wait for it, in one round of many."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    genuine = guard.optimise

    def wrong(module, listed, observer=None):
        names = [name for name, _ in listed]
        module = genuine(module, listed, observer)
        return delayed(module, copy) if "coalesce" in names else module

    monkeypatch.setattr(guard, "optimise", lambda module, listed, observer=None: wrong(module, list(listed), observer))
    with pytest.raises(OrderChanged, match="pass 'coalesce' moved barrier_") as caught:
        compile_kernel(ordered.unrolled_with_branches, FLAGGED, {}, "sm_90a")
    assert {site.function for site in caught.value.sites} == {"unrolled_with_branches"}


def delayed(module, copy):
    """The module with one of its arrivals behind the wait that follows it."""
    lines = str(module).splitlines()
    arrival = where(lines, "ttng.arrive_barrier")[copy]
    wait = next(at for at in where(lines, "ttng.wait_barrier") if at > arrival)
    return module_of("\n".join([*lines[:arrival], *lines[arrival + 1:wait + 1], lines[arrival], *lines[wait + 1:]]), module.context)


def test_explain_says_which_loops_triton_pipelines():
    from mimw.tools.explain.loops import loop_text
    first, second = loop_text(compiled(ordered.own_loop_beside_words, num_stages=3)).splitlines()
    assert "pipelined by Triton: 2 loads start iterations ahead" in first
    assert "in order, since local_store at" in second and "a pipe" in second
    (only, ) = loop_text(compiled(ordered.own_loop_beside_words, num_stages=1)).splitlines()[:1]
    assert "Triton found no load to start ahead" in only
