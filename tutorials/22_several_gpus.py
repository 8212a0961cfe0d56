"""22  Several GPUs: a sum over all of them, passed around a ring; wrong twice, found on a laptop, then run under torchrun.

    python tutorials/22_several_gpus.py                                             four simulated GPUs; needs none
    MIMW_SHARE_GPUS=1 torchrun --nproc-per-node 4 tutorials/22_several_gpus.py      four processes on one real GPU, in turns
    torchrun --nproc-per-node 2 tutorials/22_several_gpus.py                        real ones, against NCCL

Every GPU (a *rank*) runs the same program and has memory of its own. A *symmetric* array lies at every rank at the same offset of
a heap, so a rank can find the peer's: `tlx.peer_pointer(x, peer, world)` is an ordinary pointer, and an ordinary store through it
goes over NVLink. But NVLink does not wait. The reader needs a signal that the data are there, and the writer one that the slot is
free: two signals, one in each direction.

The kernel is first checked with one mistake, then with another, then as it should be: on simulated GPUs, where `mimw.check` knows
what orders two ranks and what only seems to. Both mistakes give right sums nearly always.
"""

import os
import sys

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def sum_around(x, y, slots, ready, free, world, N: tl.constexpr, SLOTS: tl.constexpr, SCOPE: tl.constexpr = "sys",
               WAITS: tl.constexpr = True):
    """y = the sum of x over all ranks, N elements a program; slots holds SLOTS of such at each rank, ready and free an integer."""
    # Step 1. Who am I, and who is on my right? The table `world` says so: it is an argument like any other.
    me, size = tlx.world_rank(world), tlx.world_size(world)
    right, left = (me + 1) % size, (me + size - 1) % size
    pid = tl.program_id(0)
    at = tl.arange(0, N)
    there = tlx.peer_pointer(slots, right, world)
    passed = tl.load(x + pid * N + at)
    total = passed
    for step in range(size - 1):
        place = (pid * SLOTS + step % SLOTS) * N + at

        # Step 2. The slot on the right must be free: the neighbour counts how many it has read. The first SLOTS always are.
        if WAITS:
            tlx.wait_signal(free + pid, step + 1 - SLOTS)

        # Step 3. Put, then signal. The signal releases: what this program stored before is there when the neighbour sees it. It
        # must be of system scope, since a release whose scope is the GPU orders nothing for another one.
        tl.store(there + place, passed)
        tlx.signal(tlx.peer_pointer(ready, right, world) + pid, scope=SCOPE)

        # Step 4. What came from the left is added, and goes on to the right in the next step; its slot is released.
        tlx.wait_signal(ready + pid, step + 1)
        passed = tl.load(slots + place)
        tlx.signal(tlx.peer_pointer(free, left, world) + pid)
        total += passed
    tl.store(y + pid * N + at, total)

    # Step 5. The next launch counts from 0 again. No barrier is needed for that: once all that this rank has sent was read, what
    # was counted is taken off, and a neighbour that is a launch ahead has only added to it.
    if WAITS:
        tlx.wait_signal(free + pid, size - 1)
    tl.atomic_add(ready + pid, 1 - size, sem="relaxed", scope="sys")
    tl.atomic_add(free + pid, 1 - size, sem="relaxed", scope="sys")


def arguments(world, x, y, n=1024, slots=2, **flaws):
    """(grid, args, meta) of a launch; `world` is simulated or real, x and y hold whole tiles of `n` elements at each rank."""
    shape = x[0].shape if isinstance(world, mimw.World) else x.shape
    programs = shape[0] // n
    buffers = world.symmetric((programs, slots, n), "float32", "slots")
    ready, free = (world.symmetric((programs, ), "int32", name) for name in ("ready", "free"))
    return (programs, ), (x, y, buffers, ready, free, world), dict(N=n, SLOTS=slots, num_warps=4) | flaws


def case(gpus: int = 4, programs: int = 2, n: int = 256) -> mimw.Case:
    """A small launch on simulated GPUs, and what each should hold: `mimw check 22_several_gpus.py:case`."""
    import numpy as np

    world = mimw.World(gpus)
    x = world.each(lambda rank: np.random.default_rng(rank).standard_normal(programs * n, np.float32), "x")
    y = world.each(lambda rank: np.zeros(programs * n, np.float32), "y")
    return mimw.Case(sum_around, *arguments(world, x, y, n), expected={"y": [sum(x)] * gpus})


def on_a_laptop(gpus: int = 4, programs: int = 2, n: int = 256) -> None:
    import numpy as np

    def launch(**flaws):
        world = mimw.World(gpus)
        x = world.each(lambda rank: np.random.default_rng(rank).standard_normal(programs * n, np.float32), "x")
        y = world.each(lambda rank: np.zeros(programs * n, np.float32), "y")
        return arguments(world, x, y, n, **flaws)

    # Step 6. The first mistake: a signal of the GPU's scope. The second: no wait for a free slot. Each finding has the
    # ranks, both lines, what is missing between them, and the mend.
    for flaws in (dict(SCOPE="gpu"), dict(WAITS=False)):
        grid, args, meta = launch(**flaws)
        report = mimw.check(sum_around, grid, *args, seeds=4, shrink=False, **meta)
        print(f"with {flaws}: {report.findings[0]}\n")

    # Step 7. As it should be: under many interleavings, in which ranks differ in pace, and with a rank that comes late.
    grid, args, meta = launch()
    print("as it stands:", mimw.check(sum_around, grid, *args, seeds=8, **meta))
    for _ in range(2):      # a second launch on the same signals
        mimw.simulate(sum_around, grid, *args, races=True, **meta)
    x, y = args[:2]
    print("largest difference to numpy:", max(float(abs(one - sum(x)).max()) for one in y))

    # Step 8. Where does the time go? A link's bytes and a signal's way have been measured between two H200s; this is a sum on four.
    found = mimw.predict(sum_around, grid, *args, **meta)
    found.write("several_gpus.html")
    print(f"\n{found}\n\ntimeline: several_gpus.html")


def on_gpus(elements: int = 132 * 4096, n: int = 4096, launches: int = 20) -> None:
    """One process of torchrun's."""
    import torch
    import torch.distributed as dist

    # Step 9. The same kernel, unchanged. `init` is torch.distributed's start, its heap torch's symmetric memory.
    import mimw.distributed
    world = mimw.distributed.init(timeout=60)
    torch.manual_seed(world.rank)
    x, y = torch.randn(elements, device="cuda"), torch.zeros(elements, device="cuda")
    grid, args, meta = arguments(world, x, y, n)

    def ours():
        sum_around[grid](*args, **meta)

    expected = x.clone()
    dist.all_reduce(expected)
    for _ in range(3):
        ours()
    error = (y - expected).abs().max().item()

    # Step 10. Launches follow each other on a stream, and in a CUDA graph, as of any kernel. Ranks synchronise before each replay.
    def timed(call) -> float:
        graph = torch.cuda.CUDAGraph()
        call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(launches):
                call()
        times = []
        for _ in range(10):
            dist.barrier()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / launches)
        return min(times)

    summed = x.clone()
    times = {"sum_around": timed(ours)}
    if not world.shares_gpus:
        times["NCCL"] = timed(lambda: dist.all_reduce(summed))
    again = (y - expected).abs().max().item()
    if world.rank == 0:
        said = ", ".join(f"{name} {time:.1f} us" for name, time in times.items())
        if world.shares_gpus:
            said = "ranks have turns on a GPU that they share, so times say nothing"
        print(f"a sum of {elements * 4 / 2**20:.1f} MiB over {world.size} GPUs: {said}; error {error:.1e}, after the graphs "
              f"{again:.1e}; {torch.cuda.get_device_name()}, torch {torch.__version__}")
    dist.barrier()
    if max(error, again) > 1e-4:
        sys.exit(f"rank {world.rank}: wrong by {max(error, again)}")


# What if?
#   - SLOTS is 1: right, and every put waits until the one before has been read; predict it, and look at the waits for `free`;
#   - the signal of step 3 stands before the store: a race of that store with the neighbour's load;
#   - the signals are not reset in step 5: the second launch finds the first one's counts, and reads before any rank has put;
#   - the world is `mimw.World(4, dies={2: 30})`: what each of the others would report of a rank that has gone.


if __name__ == "__main__":
    on_gpus() if "RANK" in os.environ else on_a_laptop()
