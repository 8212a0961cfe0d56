"""What benchmarks on several GPUs share, without a GPU: how many rounds ranks agree on, the kernel in which they meet."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

import mimw
from benchmarks import distributed_collectives, distributed_gemm, distributed_layer, distributed_moe_predicted
from benchmarks.distributed import MOST_ROUNDS, agreed_rounds, meet, worst
from benchmarks.distributed_moe_candidates import candidates
from docs.support.performance_choices import shipped
from docs.support.performance_sections import SECTIONS
from mimw.kernels.collectives import COLLECTIVES, arguments
from mimw.simulator.costs import model


@pytest.mark.parametrize("per_round, at_least, rounds", [
    ([1.0, 2.0], 100.0, 100), ([50.0], 100.0, 5), ([1e-3, 7.0], 1000.0, MOST_ROUNDS), ([0.0], 1.0, MOST_ROUNDS)])
def test_rounds_are_those_of_the_quickest_candidate_within_bounds(per_round, at_least, rounds):
    assert agreed_rounds(per_round, at_least) == rounds


def test_ranks_meet_any_number_of_times():
    world = mimw.World(3)
    for _ in range(2):
        mimw.simulate(meet, (1, ), world, num_warps=1)
    assert mimw.check(meet, (1, ), world, num_warps=1).ok


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("size", distributed_collectives.TUNED[:2])
def test_candidates_of_collectives_are_launches(collective, size):
    ranks = 2
    world, numbers = mimw.World(ranks), distributed_collectives.bytes_of(size) // 2 // (1 if collective == "all_reduce" else ranks)
    x, out = (world.symmetric(numbers * (ranks if collective == wide else 1), "float16")
              for wide in ("reduce_scatter", "all_gather"))
    tried = [*distributed_collectives.candidates(collective, ranks, 2 * numbers, False)]
    assert len(set(tried)) == len(tried) > 1
    for chosen in tried:
        _, (programs, ), _, meta = arguments(collective, x, out, world, chosen=chosen)
        form = meta.get("FORM", SimpleNamespace(**meta))
        block = getattr(form, "BLOCK", None) or form.CHUNK
        assert programs * getattr(block, "value", block) * 16 >= numbers


@pytest.mark.parametrize("name", distributed_moe_predicted.SHAPES)
def test_candidates_of_experts_are_launches_that_fit(name):
    """As many slots as the library's own choice has, that one among them, and whole rows by two warps."""
    ranks = distributed_moe_predicted.Ranks(name, 1)
    for what in distributed_moe_predicted.WHAT:
        taken = ranks.chosen(what)
        tried = candidates(what, taken)
        assert tried[0] == taken and len(set(tried)) == len(tried) > 2
        if what == "dispatch":
            assert {one.whole for one in tried} == {0, 2}
            assert {one.out + one.home for one in tried} == {taken.out + taken.home}
        if what in ("dispatch", "rows"):
            assert {one.generations for one in tried} >= {1, 2} or what == "rows" and not taken.few
            assert {bool(one.few) for one in tried} == {False, bool(taken.few)}


def test_a_part_of_a_chip_predicts_a_launch_of_experts():
    """More to do for a program of the same share takes longer, and the chip that is asked for is as it was."""
    times = []
    for tokens in (4, 12):
        ranks = distributed_moe_predicted.Ranks("mixtral", 1)
        ranks.most, ranks.ids = tokens, ranks.world.each([np.ascontiguousarray(ids[:tokens]) for ids in ranks.ids], "ids")
        times.append(distributed_moe_predicted.predicted(ranks.rows(), 1))
    assert times[0].microseconds < times[1].microseconds and times[0].grid == (1, )
    assert model("sm_90a")["chip.sms"] == 132 and distributed_moe_predicted.measured("dispatch", "mixtral") > 80


@pytest.mark.parametrize("kind", distributed_gemm.KINDS)
def test_what_the_library_chooses_is_among_the_forms_that_are_timed(monkeypatch, kind):
    monkeypatch.setattr(distributed_gemm, "gathering", lambda world, problem, chosen, push: None)
    monkeypatch.setattr(distributed_gemm, "summing", lambda world, problem, chosen, everywhere, partials: None)
    forms = distributed_gemm.ours(None, kind, None, SimpleNamespace(tune=True, forms=""))
    for shape in distributed_gemm.SHAPES:
        m, n, k = map(int, shape.split("x"))
        assert any(shipped({"name": f"distributed-gemm-{kind}", "shape": {"M": m, "N": n, "K": k, "gpus": 2},
                            "configuration": configuration}) for configuration, _ in forms.values())


def test_goals_of_collectives_are_by_bytes():
    (section, ) = (one for one in SECTIONS if one.title == "Collectives")
    wanted = {size: [goal.at_least for goal in section.goals if "NCCL" in goal.against
                     and re.search(goal.rows, f"all_reduce-bf16-{size}")] for size in distributed_collectives.SIZES}
    assert wanted == {size: [1.3] if distributed_collectives.bytes_of(size) <= 1 << 20 else [1.0] for size in wanted}


def test_the_worst_error_may_be_no_number(monkeypatch):
    monkeypatch.setattr("benchmarks.distributed.of_all", lambda world, error: [0.5, error, 0.25])
    assert worst(None, 0.75) == 0.75 and math.isnan(worst(None, math.nan))


def test_candidates_of_a_layer_in_micro_batches():
    """The library's first, none twice; what a line says."""
    pytest.importorskip("torch", reason="the layer is operators of torch")
    from mimw.ops.distributed.moe_overlap import chosen_for
    for ranks in (2, 4):
        tried = distributed_layer.candidates(chosen_for(ranks))
        assert tried[0] == chosen_for(ranks) and len(set(tried)) == len(tried) > 6
        assert {one.computing(132) for one in tried} == {132, 132 - chosen_for(ranks).programs}
    shape = dict(tokens=4096, k=8, inner=2048, hidden=7168)
    row = SimpleNamespace(name="layer", microseconds=3000.0, baselines={"one batch": 3600.0}, error=1e-3, shape=shape)
    assert "962 TFLOP/s  one batch 3600 us (1.200)" in distributed_layer.line(row)
    assert distributed_layer.parts_told(row) == "layer: experts, all 3000 us; one batch 3600 us"
