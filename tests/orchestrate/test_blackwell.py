"""The emission with tensor memory: equal to plain to the last bit, clean, compiled for sm_100a, or refused with the line."""

import re
from dataclasses import replace

import pytest

import mimw
from mimw.compiler.analysis.uses import uses_of
from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate import written as steps
from mimw.tools.orchestrate.choose import every_plan
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.same_on_gpu import strangers
from mimw.tools.orchestrate.written import reasons, written
from tests.orchestrate.tensor_cases import CASES, SHAPES
from tests.orchestrate.test_orchestrate import case

CHIP = "sm_100a"
LIBRARY = {     # of tests/orchestrate/cases, with their plans
    "gemm_pointers": (dict(m=192, n=136, k=328), Plan(stages=2)),
    "gemm_descriptors": (dict(m=384, n=64, k=192, bn=64), Plan(stages=2, persistent=True, stores=True)),
    "gemm_descriptors, 256 rows": (dict(m=256, n=128, k=192, bm=256, warps=8), Plan(consumers=2, stages=2)),
    "gemm_int4": (dict(), Plan(stages=2)),
    "linear_attention": (dict(), Plan(stages=2)),
    "attention": (dict(t=320, bn=64), Plan(stages=2)),
    "attention, not delayed": (dict(t=256, bn=64), Plan(stages=2, delayed=False)),
    "attention, 256 rows, in turn": (dict(t=256, bn=64, bm=256, d=32, heads=2), Plan(consumers=2, stages=1, persistent=True)),
}


def small(name):
    kernel, arguments, plan = CASES[name]
    return plain_of(kernel, (1, ), arguments(), {"num_warps": 4}, CHIP), plan


def of_library(name):
    sizes, plan = LIBRARY[name]
    kernel, grid, args, meta, _ = case(name.partition(",")[0], **sizes)
    return plain_of(kernel, grid, args, meta, CHIP), plan


def roles(text):
    return re.findall(r"async_task\(.*\):  # (.*)", text)


@pytest.mark.long(everywhere=True, but=[
    "64 rows, both turned", "a product in some trips", "a slot that a loop holds", "a sum that begins with a tile",
    "an operand for all trips", "an operand that is computed", "attention", "bytes", "fp8", "gemm_descriptors", "gemm_int4",
    "gemm_pointers", "linear_attention", "loops of Triton's tasks", "two products into one sum", "two sums"])
@pytest.mark.parametrize("name", [*CASES, *LIBRARY])
def test_it_is_equal_to_plain_and_clean(name):
    plain, plan = small(name) if name in CASES else of_library(name)
    one = written(plain, plan)
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    parts = ["compute"] if plan.consumers == 1 else ["compute0", "compute1"]
    assert roles(one.text) == [*parts, "multiply", "load"] and "tl.dot(" not in one.text
    proof = prove(one, seeds=2, limit=10)
    assert proof.ok and proof.target == CHIP, proof
    assert len(proof.compared) >= 2 and all(not line["different"] for line in proof.compared)


def test_triton_makes_no_tasks_of_its_own():
    one = written(*small("loops of Triton's tasks"))
    assert "warp_specialize" not in one.text and "flatten" not in one.text and "num_stages=3" in one.text
    assert sum("are left out" in line for line in reasons(one.remarks)) == 2


@pytest.mark.parametrize("name", SHAPES)
def test_sums_and_handovers(name):
    """How many of each a kernel has, and how deep they are: what is shared, and what stays in tensor memory from trip to trip."""
    plain, plan = small(name) if name in CASES else of_library(name)
    text = written(plain, plan).text
    tensor = r", tl\.\w+, (\d), tlx\.storage_kind\.tmem\)"
    found = [re.findall(rf"_{kind}\d* = tlx\.local_alloc\(\(.*?\){end}", text)
             for kind, end in (("sums", tensor), ("given", tensor), ("given", r", tl\.\w+, (\d)\)"))]
    assert tuple([int(depth) for depth in one] for one in found) == SHAPES[name]


@pytest.mark.long(but=["gemm_descriptors-*"], everywhere=True)
@pytest.mark.parametrize("name, words", [
    ("gemm_descriptors", ("tcgen05.mma", "tcgen05.commit", "cp.async.bulk.tensor", "tcgen05.ld", "setmaxnreg")),
    ("attention", ("tcgen05.mma", "tcgen05.commit", "cp.async.bulk.tensor", "tcgen05.ld", "tcgen05.st", "setmaxnreg")),
])
def test_what_is_compiled_is_blackwell_s(name, words):
    plain, plan = of_library(name)
    one = written(plain, plan)
    made = mimw.compile(one.kernel, one.programs(plain.launch.grid), *one.arguments(), num_warps=one.num_warps, target=CHIP)
    assert all(word in made.ptx for word in words) and "wgmma" not in made.ptx
    assert made.stack_bytes == 0


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


def barrier_of(program, op):
    """The name of the array of a barrier, as `acc_done`."""
    index = uses_of(program).definition[op.barrier]
    return index.barrier.name


def changed(program, change):
    def walk(block):
        return block.with_ops(new.with_blocks(walk) for op in block.ops if (new := change(program, op)) is not None)
    return replace(program, body=walk(program.body))


def without(name, barrier):
    return lambda program, op: None if op.name == name and barrier_of(program, op).endswith(barrier) else op


def phase_exchanged(barrier):
    """Waits for the round before wait for this one."""
    def change(program, op):
        if op.name != "barrier_wait" or not barrier_of(program, op).endswith(barrier):
            return op
        made = uses_of(program).definition[op.phase]
        return op.with_operands(phase=made.lhs) if made.name == "xor" else op
    return change


def given_back_first(program, op):
    """A sum's place is given back in front of the load that reads it."""
    def change(block):
        ops = list(block.ops)
        at = next((at for at, one in enumerate(ops) if one.name == "tmem_load"), None)
        arrives = next((one for one in ops if one.name == "barrier_arrive" and barrier_of(program, one).endswith("_taken")), None)
        if at is not None and arrives is not None:
            ops.remove(arrives)
            index = uses_of(program).definition[arrives.barrier]
            ops.remove(index)
            ops[at:at] = [index, arrives]
        return block.with_ops(ops)
    return op.with_blocks(change) if op.name in ("for", "if") else op


MUTANTS = {
    "the commit of a sum is gone": ("attention", without("tcgen05_commit", "_done")),
    "the commit that gives a slot back is gone": ("attention", without("tcgen05_commit", "k_free")),
    "a sum is read before its barrier": ("gemm_descriptors", without("barrier_wait", "_done")),
    "scores are read before their barrier": ("attention", without("barrier_wait", "s_done")),
    "a slot is read before it is full": ("gemm_descriptors", without("barrier_wait", "_full")),
    "a slot is filled before it is free": ("gemm_descriptors", without("barrier_wait", "_free")),
    "a sum begins where the last one is not read": ("attention", without("barrier_wait", "_taken")),
    "two sums in turn, and none is waited for": ("gemm_descriptors", without("barrier_wait", "_taken")),
    "nobody says that a sum is read": ("attention", without("barrier_arrive", "_taken")),
    "operands are taken before they are there": ("attention", without("barrier_wait", "_ready")),
    "operands are stored over those that are read": ("an operand that is computed", without("barrier_wait", "_used")),
    "the first product adds to what is there": ("gemm_descriptors", lambda program, op: op.with_operands(use_acc=True)
                                                if op.name == "tcgen05_mma" else op),
    "no product adds": ("gemm_descriptors", lambda program, op: op.with_operands(use_acc=False)
                        if op.name == "tcgen05_mma" else op),
    "a phase is that of the other round": ("gemm_descriptors", phase_exchanged("_free")),
    "a sum's place is given back before it is read": ("attention, not delayed", given_back_first),
}


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_is_found(mistake, monkeypatch):
    name, change = MUTANTS[mistake]
    right, planted = steps.orchestrated, []

    def wrong(*given):
        made = right(*given)
        program = changed(made.program, change)
        before, after = ([(one.name, one.operands) for one in given.walk()] for given in (made.program, program))
        planted.append(before != after or "add" in mistake)
        return replace(made, program=program)

    monkeypatch.setattr(steps, "orchestrated", wrong)
    plain, plan = small(name) if name in CASES else of_library(name)
    one = written(plain, plan)
    assert planted == [True]
    proof = prove(one, seeds=4, limit=50)
    assert not proof.ok and proof.wrong


# ---- on a chip on which none of it has run -----------------------------------------------------------------------------------


def test_results_on_the_gpu_are_compared_with_the_plain_kernel_s():
    torch = pytest.importorskip("torch")
    c, count = torch.zeros(4, dtype=torch.float16), torch.zeros(2, dtype=torch.int32)
    kept = [(c, c.clone()), (count, count.clone())]

    def adds(number, counted=1):
        def run():
            c.add_(torch.tensor([number, 2.0, float("inf"), -3.0]))
            count.add_(counted)
        return run

    def fails():
        raise RuntimeError("out of resource: registers")

    found = strangers([adds(1.0), adds(1.01), adds(1.5), adds(1.0, 2), fails, adds(float("nan"))], kept)
    assert sorted(found) == [2, 3, 4, 5]
    assert "0.5 apart where the largest number is 3" in found[2] and "integers differ" in found[3]
    assert "registers" in found[4] and "NaN" in found[5]


# ---- what is not emitted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, sizes, plan, reason", [
    ("gemm_descriptors", dict(m=256, n=128, k=192, bm=256), Plan(), "line 17: the product stays plain: tcgen05 multiplies 64"),
    ("gemm_descriptors", dict(m=128, n=128, k=192), Plan(consumers=4), "rows at a time, and a task has 32"),
    ("gemm_descriptors", dict(m=128, n=128, k=192), Plan(programs=2), "a multiprocessor has one tensor memory"),
    ("gemm_descriptors", dict(m=128, n=128, k=192), Plan(pingpong=True), "one task starts all products"),
    ("softmax_rows", dict(), Plan(), "no loop multiplies what it loads"),
])
def test_what_is_not_emitted_is_told(name, sizes, plan, reason):
    kernel, grid, args, meta, _ = case(name, **sizes)
    one = written(plain_of(kernel, grid, args, meta, CHIP), plan)
    assert one.kernel is None and any(reason in line for line in reasons(one.remarks)), reasons(one.remarks)


def test_the_search_takes_what_the_chip_has():
    """Tiles of 128 rows have one task that computes, of 256 rows two; no plan is for several programs on a multiprocessor."""
    for rows, consumers in ((128, {1}), (256, {2})):
        kernel, grid, args, meta, _ = case("gemm_descriptors", m=256, n=128, k=192, bm=rows)
        found = list(every_plan(plain_of(kernel, grid, args, meta, CHIP)))
        assert {plan.consumers for plan in found} == consumers and not any(plan.programs for plan in found)
        assert {plan.persistent for plan in found} == {False, True}
