"""The family `ordinary`: random Triton loops in `tl` words alone, each run plain and under the plans of automatic orchestration.

    draw.py         a seed to an `Ordinary`: the text of a kernel, and what it is launched with
    statements.py   what a loop's body is made of: loads, products, arithmetic, conditions, stores
    arrays.py       arrays in global memory, and the lines that load and store their tiles
    judge.py        an `Ordinary` under each plan: bits against plain, `mimw.check`, the text recorded again
    device.py       the same on a GPU, beside stock Triton; exact.py: whether sums are exact; room.py: arrays between guards
    mutants.py      mistakes in what the passes make, each of which has to be found
    fixed.py        the seeds that the suite runs
"""
