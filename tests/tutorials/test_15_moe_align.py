"""Tutorial 15 on the simulator and the GPU, in a cluster and in a grid: experts without tokens, no full block; "what if" edits."""

import numpy as np
import pytest

import mimw


def problem(tutorial, numel, experts, block_size, in_cluster):
    """(ids, outputs with contents that none should keep, grid, args, meta)."""
    ids = (np.random.default_rng(numel).random(numel) ** 3 * experts).astype(np.int32)
    outs = [np.full(size, -7, np.int32) for size in tutorial.sizes(numel, experts, block_size)]
    return ids, outs, *tutorial.arguments(ids, outs, experts, block_size, in_cluster, BLOCK=128, num_warps=4)


@pytest.mark.long(everywhere=["1000-64-16-cluster", "128-1-1-grid", "3-40-8-cluster", "700-6-5-grid"])     # the first is drawn
@pytest.mark.parametrize("in_cluster", [True, False], ids=["cluster", "grid"])
@pytest.mark.parametrize("numel, experts, block_size", [(1000, 64, 16), (700, 6, 5), (3, 40, 8), (128, 1, 1)])
def test_lists(machine, tutorial, numel, experts, block_size, in_cluster):
    ids, outs, grid, args, meta = problem(tutorial, numel, experts, block_size, in_cluster)
    machine.launch(tutorial.align, grid, *args, **meta)
    padded, starts = tutorial.reference(ids, experts, block_size)
    tokens, blocks, total, _ = outs
    assert total[0] == padded.sum()
    expected = np.full(tokens.size, numel)
    for expert, (start, room) in enumerate(zip(starts, padded)):
        mine = np.nonzero(ids == expert)[0]
        expected[start:start + mine.size] = mine
        tokens[start:start + mine.size].sort()
        assert (blocks[start // block_size:(start + room) // block_size] == expert).all()
    assert (tokens == expected).all() and not blocks[total[0] // block_size:].any()


@pytest.mark.parametrize("in_cluster", [True, False], ids=["cluster", "grid"])
def test_right_under_every_interleaving(tutorial, check_kernel, in_cluster):
    _, _, grid, args, meta = problem(tutorial, 300, 8, 4, in_cluster)
    check_kernel(tutorial.align, grid, *args, **meta)


BARRIER = "    tle.distributed_barrier(mesh)\n"
BEFORE = "    before = tl.atomic_add(counters, "
AFTER = "    counts = tl.load(counters, "


@pytest.mark.parametrize("in_cluster", [True, False], ids=["cluster", "grid"])
@pytest.mark.parametrize("behind", [BEFORE, AFTER], ids=["first", "second"])
def test_what_if(edited, in_cluster, behind):
    wrong = edited(BARRIER + behind, behind)
    _, _, grid, args, meta = problem(wrong, 300, 8, 4, in_cluster)
    report = mimw.check(wrong.align, grid, *args, seeds=3, shrink=False, **meta)
    assert any({"DataRace", "UnwrittenRead"} & set(finding.kinds) for finding in report.findings), report


def test_main(tutorial, capsys):
    tutorial.simulate_one()
    said = capsys.readouterr().out
    assert said.count("checked: ok") == 2 and said.count("as numpy's: True") == 2


@pytest.mark.parametrize("in_cluster", [True, False], ids=["cluster", "grid"])
def test_counters_of_all_need_a_scope_of_all(edited, in_cluster):
    """Programs that add to shared counters at the scope of their own CTA race."""
    wrong = edited('(mine)), sem="relaxed")', '(mine)), sem="relaxed", scope="cta")')
    _, _, grid, args, meta = problem(wrong, 300, 8, 4, in_cluster)
    report = mimw.check(wrong.align, grid, *args, seeds=3, shrink=False, **meta)
    assert any("DataRace" in finding.kinds for finding in report.findings), report
