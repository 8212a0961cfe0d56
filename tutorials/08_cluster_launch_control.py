"""08  Rows of any length: a program that is done takes over one that has not started.

    python tutorials/08_cluster_launch_control.py    on a Blackwell GPU (sm_100a): check the result; elsewhere: simulate

sums[i] = x[starts[i]] + ... + x[starts[i + 1] - 1], and rows differ in length a thousandfold. With a program a row,
the grid is as long as the work, and every program pays for its start. Persistent programs start once, but a fixed
part of the rows for each lets all wait for the one that got the long ones. A counter in global memory balances well,
and costs a round trip for each row, and a kernel that sets it to zero.

Blackwell's launcher is such a counter. The grid has a program a row; a running program asks for the cancellation of
one that has not started yet, and gets its program id: that program never starts, and the running one takes its row.
Programs that are not cancelled start later. The answer, 16 bytes, comes on a barrier as the bytes of a TMA load do, so
one task can ask while another works.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.

Next: 09_blackwell_gemm.py, where four roles share each answer.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def ragged_sums(x_ptr, starts_ptr, sums_ptr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """sums[i] = the sum of x[starts[i]:starts[i + 1]]; the grid has a program for each row."""
    # Step 1. The nouns: for each stage an answer, a barrier that says that it is there, and one that says that both
    # tasks have read it. Who calls clc_consumer on a stage is counted: two tasks here.
    context = tlx.clc_create_context(2, STAGES)

    with tlx.async_tasks():
        with tlx.async_task("default"):                           # work
            # Step 2. The first row is the program's own. It comes with the launch, as in every kernel.
            row, turn = tl.program_id(0), 0
            while row != -1:
                first, end = tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)
                total = tl.zeros((BLOCK, ), tl.float32)
                for at in range(first, end, BLOCK):
                    columns = at + tl.arange(0, BLOCK)
                    total += tl.load(x_ptr + columns, mask=columns < end, other=0.0)
                tl.store(sums_ptr + row, tl.sum(total))
                # Step 3. The next row, or -1. Stages and phases go round as those of any ring: 0, 0, 1, 1, 0, ... for
                # two stages.
                row = tlx.clc_consumer(context, turn // STAGES & 1, k=turn % STAGES)
                turn += 1
        with tlx.async_task(num_warps=1):                         # ask
            row, turn = tl.program_id(0), 0
            while row != -1:
                # Step 4. Ask while the other task works: its next row is known when it gets there. The producer's
                # phase is the other one, since a fresh stage is free.
                tlx.clc_producer(context, turn // STAGES & 1 ^ 1, k=turn % STAGES)
                # Step 5. Read the answer here, too: after a refusal no program may ask again.
                row = tlx.clc_consumer(context, turn // STAGES & 1, k=turn % STAGES)
                turn += 1


# Step 6. What if? One edit each, and what `mimw.check` says:
#
#     `context(1, STAGES)`                 SlotReusedEarly, PhaseMissed   the next answer may overwrite one not yet read by both
#     `context(3, STAGES)`                 TooFewArrivals                 a third consumer never comes, so no task asks again
#     a worker that waits for phase 0      SlotReusedEarly                each second time it does not wait: the answer before
#     another producer behind the loop     RequestAfterRefusal            with STAGES=2; with one the stage never gets free
#
# `mimw.check` lets 1, 2, 3 or all programs be resident at a time, as the seed says, and refuses a request now and
# then although rows are left, as the hardware may: in every run each row has to be summed once.
#
# More stages than one let a program take rows that it will not get to for a while, when others could begin them.


def arguments(x, starts, sums, BLOCK=256, STAGES=1, num_warps=4):
    """(grid, args, meta) of the launch that writes the sums of the rows of x; starts[-1] is the length of x."""
    return (sums.shape[0], ), (x, starts, sums), dict(BLOCK=BLOCK, STAGES=STAGES, num_warps=num_warps)


def rows(count: int, longest: int):
    """(x, starts, sums): rows of 0 to `longest` numbers, short ones mostly."""
    random = np.random.default_rng(0)
    lengths = (longest * random.random(count) ** 4).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return random.standard_normal(max(1, starts[-1]), np.float32), starts, np.full(count, np.nan, np.float32)


def expected(x, starts):
    return np.array([x[first:end].sum(dtype=np.float64) for first, end in zip(starts, starts[1:])])


def case():
    """A few rows on numpy arrays, and what should come out: `mimw check 08_cluster_launch_control.py:case --target sm_100a`."""
    x, starts, sums = rows(12, 300)
    return mimw.Case(ragged_sums, *arguments(x, starts, sums, BLOCK=64), expected={"sums_ptr": expected(x, starts)})


def simulate_one():
    """A few rows on the simulator, with few programs resident at a time."""
    import harness
    harness.simulated(case(), seeds=12, target="sm_100a")


def launch_one(count, longest):
    """The result on the GPU."""
    import torch
    if torch.cuda.get_device_capability()[0] < 10:
        return simulate_one()
    x, starts, sums = rows(count, longest)
    on_gpu = [torch.from_numpy(one).cuda() for one in (x, starts, sums)]
    grid, args, meta = arguments(on_gpu[0], on_gpu[1], on_gpu[2])
    ragged_sums[grid](*args, **meta)
    print("largest difference to numpy:", np.abs(on_gpu[2].cpu().numpy() - expected(x, starts)).max())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (100_000, 4096))
