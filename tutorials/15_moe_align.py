"""15  Tokens to experts: one launch where there were four, because programs may wait for each other.

    python tutorials/15_moe_align.py        on a GPU: check, and measure against torch; elsewhere: simulate a small one

In a mixture of experts each token goes to an expert of its own choice. The matrix product that follows wants the tokens of one
expert together, in blocks of BS that belong to one expert each. So: sort the token numbers by expert, and fill up each expert's
list to whole blocks with a number that is no token's.

Where does a token go? Behind all experts before its own, padded; and behind the tokens of its own expert that came before it. Each
program can count its own tokens, but both answers need the counts of all. In plain Triton the only way to wait for all programs
is the end of the launch: count, add up, and write are launches of their own, each a few microseconds for work of less. TLE has a
barrier for it, and it has two kinds of "all": the CTAs of a cluster and those of the whole grid. This program runs on either.

Needed: `local_ptr` (tutorial 07), `cumsum` (13), `remote` (16). `mimw.kernels.moe_align` is this program made fast.

How the program is run and measured is harness.py's.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
import mimw.tle as tle

# Step 1. Who takes part? A mesh with "cluster" in an axis' name is one cluster, which synchronises fast: 8 CTAs on 8 SMs that lie
# together. A mesh with "block" in it is the whole grid, 132 SMs on this chip, and the launch becomes a cooperative one: all CTAs
# are there at once, so that none waits for one that has not begun.
CLUSTER = tle.device_mesh({"cluster": 8})


@mimw.jit
def align(ids_ptr, sorted_ptr, experts_ptr, total_ptr, counters_ptr, numel, length, E: tl.constexpr, BS: tl.constexpr,
          BLOCK: tl.constexpr, mesh: tl.constexpr):
    """Sort numel tokens by expert. Each program takes one tile; all tiles together are enough."""
    BINS: tl.constexpr = triton.next_power_of_2(E)
    expert = tl.arange(0, BINS)
    me, programs = tle.shard_id(mesh, 0), mesh.size
    token = me * BLOCK + tl.arange(0, BLOCK)
    inside = token < numel

    # Step 2. Count, in shared memory, where atomics are cheap. An atomic gives what was there before: for a token that is how many
    # of its own expert the program has met before it. So one pass both counts and ranks, and all of it stays in registers.
    mine = tle.gpu.alloc([BINS], tl.int32)
    tl.store(tle.gpu.local_ptr(mine), tl.zeros([BINS], tl.int32))
    ids = tl.load(ids_ptr + token, mask=inside, other=0)
    rank = tl.atomic_add(tle.gpu.local_ptr(mine, (ids, )), 1, mask=inside)

    # Step 3. The counts of all. In a cluster they are in the shared memory of CTA 0, which `remote` points into; in a grid there is
    # no such thing, and they are in global memory. From here on both are pointers. One program sets them to zero.
    if mesh.is_block_mesh:
        counters = counters_ptr + expert
    else:
        counters = tle.gpu.local_ptr(tle.remote(tle.gpu.alloc([BINS], tl.int32), 0, mesh))
    if me == 0:
        tl.store(counters, tl.zeros([BINS], tl.int32))

    # Step 4. Add the program's counts; again what was there before is worth having: the tokens of each expert in programs that came
    # first. No program adds before the zeros are there (first barrier), or reads before all have added (second).
    tle.distributed_barrier(mesh)
    before = tl.atomic_add(counters, tl.load(tle.gpu.local_ptr(mine)), sem="relaxed")
    tle.distributed_barrier(mesh)
    counts = tl.load(counters, cache_modifier=".cg")

    # Step 5. Where each expert's list starts: the padded counts, summed. Every program does this sum for itself, which takes less
    # time than to wait for one that does it for all.
    padded = tl.cdiv(counts, BS) * BS
    starts, total = tle.cumsum(padded)

    # Step 6. A token's place: start of its expert's list + tokens of programs before + rank. Starts are looked up by expert, so
    # they go through shared memory. And the token that comes first in a block writes whose block it is: each block has one.
    tl.store(tle.gpu.local_ptr(mine), starts + before)
    place = tl.load(tle.gpu.local_ptr(mine, (ids, )), mask=inside, other=0) + rank
    tl.store(sorted_ptr + place, token, mask=inside)
    tl.store(experts_ptr + place // BS, ids, mask=inside & (place % BS == 0))

    # Step 7. The padding: E (BS - 1) elements in all, between the lists and behind them, dealt out to the programs. No token lies
    # there, so no program has to wait.
    for column in range(me, BS - 1, programs):
        tl.store(sorted_ptr + starts + counts + column, numel, mask=counts + column < padded)
    lane = tl.arange(0, BLOCK)
    for first in range(total + me * BLOCK, length, programs * BLOCK):
        tl.store(sorted_ptr + first + lane, numel, mask=first + lane < length)
    for first in range(total // BS + me * BLOCK, tl.cdiv(length, BS), programs * BLOCK):
        tl.store(experts_ptr + first + lane, 0, mask=first + lane < tl.cdiv(length, BS))
    if me == 0:
        tl.store(total_ptr, total)


def sizes(numel: int, E: int, BS: int) -> tuple[int, int, int, int]:
    """Elements of the three outputs, and of the counters."""
    length = numel + E * (BS - 1)
    return length, -(-length // BS), 1, triton.next_power_of_2(E)


def arguments(ids, outs, E, BS=16, in_cluster=True, BLOCK=None, num_warps=8):
    """(grid, args, meta) of the launch that fills the four arrays `outs`; numpy arrays for the simulator, torch tensors on a GPU.

    The grid of a cluster's mesh counts clusters: one. That of a mesh of blocks counts programs.
    """
    numel = ids.shape[0]
    BLOCK = BLOCK or (max(128, triton.next_power_of_2(-(-numel // CLUSTER.size))) if in_cluster else 1024)
    mesh = CLUSTER if in_cluster else tle.device_mesh({"block": max(1, -(-numel // BLOCK))})
    return (1 if in_cluster else mesh.size, ), (ids, *outs, numel, sizes(numel, E, BS)[0]), dict(
        E=E, BS=BS, BLOCK=BLOCK, mesh=mesh, num_warps=num_warps)


# Measured on an H200 (this program, E = 64, experts chosen by a Zipf law; torch does no more than sort the ids):
#
#     1024 tokens, cluster of 8: 5.5 us; torch.sort of the ids alone 25.2 us (ratio 4.59); NVIDIA H200
#     1024 tokens, grid of 1: 7.3 us; torch.sort of the ids alone 25.3 us (ratio 3.49); NVIDIA H200
#     65536 tokens, cluster of 8: 12.7 us; torch.sort of the ids alone 52.7 us (ratio 4.16); NVIDIA H200
#     65536 tokens, grid of 64: 7.7 us; torch.sort of the ids alone 52.7 us (ratio 6.87); NVIDIA H200
#
# With many tokens the grid wins: eight SMs are slower readers than 132.

# What if?
#   - the first barrier is left out: an addition may come before the zeros (`mimw check`: DataRace);
#   - the second is left out: counts are read that others still add to (DataRace);
#   - the grid is larger than what fits on the chip at once: a cooperative launch is refused, and says so.


def reference(ids, E, BS):
    """(padded counts, starts) by numpy."""
    padded = -(-np.bincount(ids, minlength=E) // BS) * BS
    return padded, np.cumsum(padded) - padded


def simulate_one():
    """A few hundred tokens on the simulator, in a cluster and in a grid."""
    ids = np.random.default_rng(0).integers(0, 8, 500).astype(np.int32)
    padded, starts = reference(ids, 8, 16)
    for in_cluster in (True, False):
        outs = [np.full(size, -1, np.int32) for size in sizes(500, 8, 16)]
        grid, args, meta = arguments(ids, outs, 8, in_cluster=in_cluster, BLOCK=128, num_warps=4)
        report = mimw.check(align, grid, *args, seeds=2, **meta)
        mimw.simulate(align, grid, *args, **meta)
        lists = [outs[0][start:start + room] for start, room in zip(starts, padded)]
        right = all(set(one) - {500} == set(np.nonzero(ids == expert)[0]) for expert, one in enumerate(lists))
        print(f"{'cluster' if in_cluster else 'grid'}: checked: {report}; simulated; as numpy's: {right}")


def measured(numel: int, in_cluster: bool, E=64) -> str:
    """One line for the GPU: checked against torch, then timed in turn with a sort of the same ids."""
    import torch

    from mimw.testing.benchmark import Row, alternate
    torch.manual_seed(0)
    ids = torch.multinomial(torch.arange(1, E + 1, device="cuda") ** -1.2, numel, replacement=True).int()
    outs = [torch.empty(size, dtype=torch.int32, device="cuda") for size in sizes(numel, E, 16)]
    grid, args, meta = arguments(ids, outs, E, in_cluster=in_cluster)
    align[grid](*args, **meta)
    host = [array.cpu().numpy() for array in (ids, *outs)]
    padded, starts = reference(host[0], E, 16)
    assert host[3][0] == padded.sum()
    for expert, (start, room) in enumerate(zip(starts, padded)):
        mine = np.nonzero(host[0] == expert)[0]
        assert (np.sort(host[1][start:start + room])[:mine.size] == mine).all(), "tokens are not where they should be"
        assert (host[2][start // 16:(start + room) // 16] == expert).all(), "a block has a wrong expert"
    times = alternate({"mimw": lambda: align[grid](*args, **meta), "torch.sort": lambda: ids.sort()}, 10.0)
    row = Row("moe_align tutorial", dict(tokens=numel, E=E), {**meta, "mesh": str(meta["mesh"])}, times.pop("mimw"), times, 0.0,
              "Zipf 1.2", torch.cuda.get_device_name())
    who = "cluster of 8" if in_cluster else f"grid of {grid[0]}"
    return (f"{numel} tokens, {who}: {row.microseconds:.1f} us; torch.sort of the ids alone {times['torch.sort']:.1f} us (ratio "
            f"{row.ratios()['torch.sort']:.2f}); {row.chip}")


def measure_one(numel):
    """Two lines for the GPU."""
    for in_cluster in (True, False):
        print(measured(numel, in_cluster))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (1024, ), (65536, ))
