"""Tokens sorted by expert: both forms, one tile a program and many, experts without tokens, blocks of any size."""

import numpy as np
import pytest

import mimw
from mimw.kernels import moe_align
from mimw.kernels.moe_align import Configuration, kernel
from mimw.kernels.moe_align.configs import CLUSTER_SIZE
from mimw.runtime.compile_kernel import compile_kernel
from mimw.testing.machines import Simulator

ALONE = Configuration("alone", 64, 4)
FORMS = {
    "grid": Configuration("grid", 64, 4),
    "cluster": Configuration("cluster", 64, 4),
    "pull": Configuration("cluster", 64, 4, pull=True),
}


def zipf(numel: int, experts: int, seed: int = 0) -> np.ndarray:
    """Expert e with probability proportional to (e + 1) ** -1.2, under other names."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, experts + 1) ** -1.2
    return random.permutation(experts)[random.choice(experts, numel, p=weights / weights.sum())].astype(np.int32)


def buffers(numel: int, experts: int, block: int):
    """The three outputs and the counters, with contents that none of them should keep."""
    return [np.full(size, -7, np.int32) for size in (*moe_align.outputs(numel, experts, block), experts)]


def check(ids, experts, block, sorted_ids, expert_ids, total):
    """Against numpy: per expert the set of its tokens, sentinels behind them, the expert of each block, 0 behind the last."""
    counts = np.bincount(ids, minlength=experts)
    padded = -(-counts // block) * block
    starts = np.cumsum(padded) - padded
    assert total[0] == padded.sum()
    for expert, (start, count, room) in enumerate(zip(starts, counts, padded)):
        assert sorted(sorted_ids[start:start + count]) == list(np.nonzero(ids == expert)[0])
        assert (sorted_ids[start + count:start + room] == ids.size).all()
    assert (sorted_ids[padded.sum():] == ids.size).all()
    used = np.repeat(np.arange(experts), padded // block)
    assert (expert_ids[:used.size] == used).all() and not expert_ids[used.size:].any()


def run(machine, ids, experts, block, chosen, sms=2):
    outs = buffers(ids.size, experts, block)
    launched, grid, args, meta = moe_align.arguments(ids, *outs, experts, block, sms, chosen)
    machine.launch(launched, grid, *args, **meta)
    check(ids, experts, block, *outs[:3])
    return meta["FORM"].ONE_TILE.value


@pytest.mark.long(but=["333-5-7-*", "1-1-1-grid", "100-8-16-cluster", "250-64-16-pull", "64-200-4-grid"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numel, experts, block", [(1, 1, 1), (100, 8, 16), (250, 64, 16), (333, 5, 7), (64, 200, 4)])
def test_one_tile_a_program(machine, form, numel, experts, block):
    assert run(machine, zipf(numel, experts), experts, block, FORMS[form])


@pytest.mark.long(but=["64-16-grid", "3-32-cluster", "64-16-pull"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("experts, block", [(64, 16), (3, 32)])
def test_many_tiles_a_program(machine, form, experts, block):
    assert not run(machine, zipf(1500, experts), experts, block, FORMS[form])


@pytest.mark.long(but=["0-grid", "15-cluster", "0-pull"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("expert", [0, 15])
def test_one_expert_has_all(machine, form, expert):
    run(machine, np.full(300, expert, np.int32), 16, 16, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
def test_no_tokens(form):
    run(Simulator(), np.zeros(0, np.int32), 4, 8, FORMS[form])


@pytest.mark.parametrize("numel", [0, 50, 333])
def test_one_program_alone(machine, numel):
    """In one tile, and in several."""
    assert run(machine if numel else Simulator(), zipf(numel, 5), 5, 7, ALONE) == (numel <= 64)


@pytest.mark.parametrize("numel, experts", [(256, 64), (4096, 512)])
def test_the_choice_for_a_size(machine, numel, experts):
    run(machine, zipf(numel, experts), experts, 16, None, sms=4)


@pytest.mark.long(but=["120-cluster", "700-grid", "700-pull"], everywhere=True)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numel", [120, 700])
def test_right_under_every_interleaving(check_kernel, form, numel):
    ids = zipf(numel, 8)
    launched, grid, args, meta = moe_align.arguments(ids, *buffers(numel, 8, 4), 8, 4, 2, FORMS[form])
    check_kernel(launched, grid, *args, **meta)


@pytest.mark.parametrize("form", FORMS)
def test_machine_code(form):
    """A cubin without spills; the cluster forms add or load in other CTAs' shared memory, the grid form is cooperative."""
    launched = kernel.grid_form if form == "grid" else kernel.cluster_form
    pointers = ["ids_ptr", "sorted_ptr", "experts_ptr", "total_ptr"] + ["counters_ptr"] * (form == "grid")
    signature = {name: "*i32" for name in pointers} | {"numel": "i32", "length": "i32"}
    constants = dict(FORM=kernel.Form(E=64, BS=16, BLOCK=1024, ONE_TILE=True), places_ptr=None)
    constants |= dict(mesh=kernel.GRID) if form == "grid" else dict(mesh=kernel.CLUSTER, PULL=form == "pull")
    stages = compile_kernel(launched, signature, constants, target="sm_90a", options={"num_warps": 8}).stages
    ptx = stages["ptx"]
    assert stages["cubin"] and "st.local" not in ptx
    assert ("shared::cluster.add" in ptx) == (form == "cluster") and ("%envreg2" in ptx) == (form == "grid")
    assert (ptx.count("ld.shared::cluster") == CLUSTER_SIZE) == (form == "pull")
    if form != "grid":
        assert f".reqnctapercluster {CLUSTER_SIZE}" in ptx


@pytest.mark.parametrize("change, text", [
    (dict(num_experts=1025), "num_experts is 1025"),
    (dict(block_size=0), "block_size is 0"),
    (dict(topk_ids=np.zeros(10, np.int16)), "topk_ids is int16"),
    (dict(topk_ids=np.zeros(20, np.int32)[::2]), "topk_ids must be contiguous; its strides are 2 elements"),
    (dict(sorted_token_ids=np.zeros(10, np.int32)), "sorted_token_ids is 10; for topk_ids 10 it must be 22, .prod.ids."),
    (dict(expert_ids=np.zeros(10, np.uint32)), "expert_ids is uint32"),
    (dict(counters=np.zeros(3, np.int32)), "many is 3 and num_experts is 4; there must be a counter for each"),
])
def test_refusals(change, text):
    names = ("sorted_token_ids", "expert_ids", "num_tokens_post_pad", "counters")
    given = dict(zip(names, buffers(10, 4, 4)), topk_ids=np.zeros(10, np.int32), num_experts=4, block_size=4, sms=1)
    with pytest.raises(ValueError, match=text):
        moe_align.arguments(**(given | change))


@pytest.mark.parametrize("old", ["tle.distributed_barrier(mesh)  # the counters are zero", "# the counters are complete"])
def test_each_barrier_is_needed(tmp_path, old):
    """Without either of the grid form's barriers a check finds the race."""
    import importlib.util
    from pathlib import Path
    text = Path(kernel.__file__).read_text()
    line = next(line for line in text.splitlines() if old in line)
    path = tmp_path / "moe_align_edited.py"
    path.write_text(text.replace(line + "\n", ""))
    spec = importlib.util.spec_from_file_location("moe_align_edited", path)
    edited = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(edited)
    _, grid, args, meta = moe_align.arguments(zipf(120, 8), *buffers(120, 8, 4), 8, 4, 2, FORMS["grid"])
    report = mimw.check(edited.grid_form, grid, *args, seeds=4, shrink=False, **meta)
    assert any("DataRace" in finding.kinds for finding in report.findings), report
