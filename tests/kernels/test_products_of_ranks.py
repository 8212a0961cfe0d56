"""The products over several GPUs: values on two to four simulated ranks, checked; launches that follow each other; what is
refused."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import all_gather_gemm, gemm_reduce_scatter
from mimw.runtime.simulate import prepare
from mimw.tools.check import Search

from .products_of_ranks import error_of, gathering, matrices, scattering

PING_PONG = {"bm": 64, "bn": 64, "consumers": 2, "ping_pong": True}
TWO = {"bm": 128, "bn": 64, "consumers": 2, "staging": 2}


def simulated(made, launches: int = 1) -> float:
    """The largest error of launches that follow each other."""
    (kernel, grid, args, meta), c, expected = made
    errors = []
    for launch in range(launches):
        mimw.simulate(kernel, grid, *args, seed=launch, **meta)
        errors.append(error_of(c, expected))
    return max(errors)


@pytest.mark.long(but=["2-512-64-64-2-more1", "3-195-64-64-2-more2"], everywhere=True)
@pytest.mark.parametrize("ranks, m, n, k, programs, more", [
    (2, 200, 72, 80, 2, PING_PONG), (2, 512, 64, 64, 2, TWO | {"b_is_nk": True}), (3, 195, 64, 64, 2, {"dtype": np.float16}),
    (4, 256, 40, 64, 3, {"bn": 128, "partials": "float32"})])
def test_sums_are_scattered(ranks, m, n, k, programs, more):
    assert simulated(scattering(ranks, m, n, k, programs, **more), 2) < 0.01


@pytest.mark.long(but=["3-130-64-64-2-more1"], everywhere=True)
@pytest.mark.parametrize("ranks, m, n, k, programs, more", [(2, 200, 72, 80, 2, PING_PONG), (3, 130, 64, 64, 2, TWO)])
def test_sums_are_everywhere_the_same_to_the_bit(ranks, m, n, k, programs, more):
    made = scattering(ranks, m, n, k, programs, everywhere=True, **more)
    (kernel, grid, args, meta), c, expected = made
    mimw.simulate(kernel, grid, *args, **meta)
    assert all(one.tobytes() == c[0].tobytes() for one in c)
    assert error_of(c, expected) < 0.01


@pytest.mark.long(but=["2-512-64-64-2-more1", "3-300-64-64-5-more2"], everywhere=True)
@pytest.mark.parametrize("ranks, m, n, k, programs, more", [
    (2, 200, 72, 80, 2, PING_PONG | {"longest": 400}), (2, 512, 64, 64, 2, TWO | {"b_is_nk": True, "group_m": 2}),
    (3, 300, 64, 64, 5, {"dtype": np.float16}), (4, 256, 40, 64, 3, {"bn": 128, "longest": 1024})])
def test_rows_are_gathered_beside_the_product(ranks, m, n, k, programs, more):
    assert simulated(gathering(ranks, m, n, k, programs, **more), 2) < 0.01


def test_sums_are_carried_where_that_pays():
    """Sums for an owner of 8 MiB and more; of more than two ranks in larger parcels, and not where all ranks get all of C."""
    def parcel(m, n, k, everywhere, ranks, carried=True):
        return gemm_reduce_scatter.chosen_for(m, n, k, everywhere, carried, ranks).parcel_bytes

    assert parcel(8192, 2048, 4096, False, 2) == parcel(8192, 2048, 4096, True, 2) == 4 << 20
    assert parcel(8192, 2048, 4096, False, 4) == 8 << 20 and parcel(8192, 2048, 4096, False, 8) == 0
    assert parcel(8192, 8192, 4096, True, 4) == 0
    assert parcel(8192, 8192, 1024, False, 2) == parcel(8192, 8192, 4096, False, 2, carried=False) == 0


def test_rows_that_copy_engines_brought():
    """The rank's own rows are none of those: they are read where they are."""
    assert simulated(gathering(2, 300, 64, 64, 2, push=False)) < 0.01


def test_signals_are_opened_by_one_program_of_each_rank():
    world = mimw.World(3)
    arrived = world.symmetric(5, "int64", "arrived")
    for one in arrived:
        one[:] = 1
    grid, args, meta = all_gather_gemm.opening({"arrived": arrived}, world)
    assert mimw.check(all_gather_gemm.open_gather, grid, *args, **meta).ok
    mimw.simulate(all_gather_gemm.open_gather, grid, *args, **meta)
    assert not any(one.any() for one in arrived)


@pytest.mark.long(but=["gathering-more2", "scattering-more3"], everywhere=True)
@pytest.mark.parametrize("make, more", [(scattering, {"twice": True}), (scattering, {"twice": True, "everywhere": True}),
                                        (gathering, {"twice": True}), (scattering, PING_PONG)])
def test_one_launch_and_two_in_a_row_are_right(make, more):
    """Twice only where consumers take no turns: those of a first call leave one arrival to the second."""
    kernel, grid, args, meta = make(**more)[0]
    report = mimw.check(kernel, grid, *args, **meta)
    assert report.ok, report


@pytest.mark.parametrize("make, file, memory", [(scattering, "gemm_reduce_scatter/kernel.py", "slots"),
                                                (gathering, "all_gather_gemm/push.py", "gathered")])
def test_memory_that_a_peer_still_reads_from_the_last_launch(make, file, memory):
    """Without the wait for the peer to have begun, the second launch writes over what the first one reads there."""
    kernel, grid, args, meta = make(twice=True)[0]
    launch = prepare(kernel, grid, args, dict(meta), "sm_90a")

    def without(block):
        ops = [op.with_blocks(without) for op in block.ops if not (op.name == "signal_wait" and waits_for_start(op))]
        return block.with_ops(ops)

    def waits_for_start(op):
        with open(op.site.file) as source:
            line = source.read().splitlines()[op.site.line - 1]
        return op.site.file.endswith(file) and re.search(r"wait_signal\(\w+\.started", line)

    wrong = dataclasses.replace(launch, program=dataclasses.replace(launch.program, body=without(launch.program.body)))
    found = Search(wrong).all([0, 1, 2], "random", 1, shrink=False).findings
    assert found and found[0].kind in ("SlotReusedEarly", "DataRace"), found
    assert f"argument '{memory}' of rank" in found[0].message


def test_what_is_refused_says_the_numbers():
    world, a, b = matrices(2, 65, 64, 64, False)
    c = world.each(lambda rank: np.zeros((65, 64), ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match="65 rows cannot be scattered over 2 ranks"):
        gemm_reduce_scatter.arguments(a, b, c, {}, world, 1)
    with pytest.raises(ValueError, match="c is 65 x 64; for a 65 x 64 and b 64 x 64 it must be 130 x 64,"):
        all_gather_gemm.arguments(a, b, c, {}, world, 1)
    with pytest.raises(ValueError, match="use push=False"):
        all_gather_gemm.piece_of_rows(1025, 72, all_gather_gemm.PUSHED)
    _, a, b = matrices(2, 64, 64, 60, False)
    with pytest.raises(ValueError, match="a must be contiguous along its last dimension and have strides of"):
        gemm_reduce_scatter.arguments(a, b, world.each(lambda rank: np.zeros((32, 64), ml_dtypes.bfloat16)), {}, world, 1)
