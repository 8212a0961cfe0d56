"""Products over several simulated GPUs, ready to be launched; and the library's kernels twice in one launch, as two launches of a
stream.

Input: a number of ranks and sizes. Output: a launch, as (kernel, grid, args, meta), whose arrays are a `mimw.World`'s; and what
each rank's c should be. For example:

    launch, expected = scattering(2, 256, 64, 64, programs=2)
    mimw.simulate(launch[0], launch[1], *launch[2], **launch[3])
    error_of(launch, expected)                              the largest error, of the largest element

A second launch may begin to write into a peer's memory only when the peer has ended the first: with one program a rank
`twice=True` is two launches to `mimw.check`, which sees all accesses of both.
"""

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw
from mimw.ir.world import PerRank
from mimw.kernels import all_gather_gemm, gemm_reduce_scatter
from mimw.kernels.all_gather_gemm.kernel import all_gather_gemm as gather
from mimw.kernels.gemm_reduce_scatter.kernel import reduce_scatter_gemm as scatter

C = 2, 3        # where C's descriptor stands among the arguments: of the sums, of the gathered rows


@mimw.jit
def scatter_twice(a_desc, b_desc, c_desc, slots, arrived, started, results, finished, sums, done, parcel, calls, world, sizes,
                  FORM: tl.constexpr):
    for _ in tl.static_range(2):
        scatter(a_desc, b_desc, c_desc, slots, arrived, started, results, finished, sums, done, parcel, calls, world, sizes, FORM)


@mimw.jit
def gather_twice(a_desc, gathered_desc, b_desc, c_desc, a, gathered, arrived, started, calls, world, sizes, FORM: tl.constexpr):
    for _ in tl.static_range(2):
        gather(a_desc, gathered_desc, b_desc, c_desc, a, gathered, arrived, started, calls, world, sizes, FORM)


def matrices(ranks, rows, n, k, b_is_nk, dtype=ml_dtypes.bfloat16):
    """(world, a, b): each rank's own a, rows x k, and b, k x n."""
    random, world = np.random.default_rng(0), mimw.World(ranks)
    a = [random.standard_normal((rows, k), np.float32).astype(dtype) for _ in range(ranks)]
    b = [random.standard_normal((n, k) if b_is_nk else (k, n), np.float32).astype(dtype) for _ in range(ranks)]
    return world, world.each(a, "a"), world.each([one.T for one in b] if b_is_nk else b, "b")


def scattering(ranks=2, m=256, n=64, k=64, programs=1, everywhere=False, b_is_nk=False, twice=False, dtype=ml_dtypes.bfloat16,
               partials="", **configuration):
    chosen = gemm_reduce_scatter.Configuration(**(SMALL | configuration))
    world, a, b = matrices(ranks, m, n, k, b_is_nk, dtype)
    c = world.each(lambda rank: np.full((m if everywhere else m // ranks, n), np.nan, dtype), "c")
    sizes = gemm_reduce_scatter.room_for(m, n, k, programs, ranks, partials or np.dtype(dtype).name, everywhere, chosen)
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    launch = gemm_reduce_scatter.arguments(a, b, c, workspace, world, programs, chosen, everywhere)
    total = sum(one.astype(np.float32) @ other.astype(np.float32) for one, other in zip(a, b))
    expected = [total] * ranks if everywhere else np.split(total, ranks)
    return (scatter_twice if twice else gemm_reduce_scatter.kernel, *launch), c, expected


def gathering(ranks=2, m=256, n=64, k=64, programs=1, push=True, b_is_nk=False, twice=False, dtype=ml_dtypes.bfloat16, longest=4096,
              **configuration):
    """Without `push` the rows have arrived, as by copy engines."""
    chosen = all_gather_gemm.Configuration(**(SMALL | configuration))
    world, a, b = matrices(ranks, m // ranks, n, k, b_is_nk, dtype)
    c = world.each(lambda rank: np.full((m, n), np.nan, dtype), "c")
    sizes = all_gather_gemm.room_for(m, n, k, programs, ranks, np.dtype(dtype).name, push, chosen)
    workspace = {name: world.symmetric(*one, name) for name, one in sizes.items()}
    launch = all_gather_gemm.arguments(a, b, c, workspace, world, programs, chosen, push, longest)
    whole = np.concatenate(list(a))
    if not push:
        for rank in range(ranks):
            workspace["gathered"][rank][:], workspace["arrived"][rank][:] = whole.reshape(-1), 1
            workspace["gathered"][rank].reshape(ranks, -1)[rank] = np.nan       # the rank's own rows are read where they are
    expected = [whole.astype(np.float32) @ one.astype(np.float32) for one in b]
    return (gather_twice if twice else all_gather_gemm.kernel, *launch), c, expected


SMALL = {"bm": 64, "bn": 64, "stages": 2, "consumers": 1, "staging": 1, "group_m": 1}


def error_of(c: PerRank, expected) -> float:
    """The largest error of any rank's c, as a part of the largest element; c is then ready for another launch."""
    errors = [np.abs(one.astype(np.float32) - other).max() / np.abs(other).max() for one, other in zip(c, expected)]
    for one in c:
        one[:] = np.nan
    return float(np.max(errors))
