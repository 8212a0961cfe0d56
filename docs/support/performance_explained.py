"""What the counters say of each table of docs/performance.md whose goal is missed: what bounds the row, and where the rest is lost.

Input: nothing. Output: EXPLAINED, a text for the title of a section. For example:

    EXPLAINED["Few rows"]       "Ours and cuBLAS have the memory equally busy ..."

The figures are those of the lines "Counters" on the page (benchmarks/results/counters.jsonl, runs of 2026-11-22 and 23): one
launch each, alone under ncu. What other counters said before stands in benchmarks/notes/counters.md.
"""

from __future__ import annotations

EXPLAINED = {
    "Tokens to experts on other GPUs": """
        Dispatch by expert with parts left out: without any place it takes 208 us of deepseek's 223 (fp8 111 of 133, mixtral
        88 of 89), with nothing sent 194 (108, 46). So sending with a signal a row or two is 0.74 to 0.83 of the link by
        itself, and the way home nearly as long, 40 us of which pass before all ranks have told where rows belong; the
        memory's bytes are not what bounds it (benchmarks/notes/dispatch-combine.md, "Choices of many tokens as words"). Since
        the run of this table rows leave behind what their program announces, and places are known after 23 us: 201 us for
        211, fp8 114 for 124, of candidates in one run ("Rows behind announcements"). A signal to a peer waits for all that its
        multiprocessor has on its way, 5 to 7 us. `dispatch_rows` leaves all that out, tells once, and is 0.88 to 0.91 of the link:
        10 us over what its bytes take at 370 GB/s, for a start, the last
        row's way, and a signal. Experts pay for it: a first product that reads rows by number takes 17 % longer
        (benchmarks/notes/dispatch-combine.md). Combine has weights that came with the tokens, which
        is worth 2 us of deepseek's 201 and 7 of mixtral's 94; what leaves took 191 us by itself, so it is the link at 83 % and
        a start. A signal for several sums costs more than it saves: 215 us for two, 279 for eight. 128 tokens are a chain:
        combine has no signal on it any more (10.1 us for 16.1), since its sums say themselves that they have come, and rows
        leave before anybody has said that it has begun; choices are such words as well (rows that stay 9.6 for 15.3; by expert
        12.2 for 19.3). Of these 12.2 a signal behind the rows comes 8.9 us after the start by `mimw.profile`, 6 of which is the
        link, and 2 are the way home.
        The copy of as many bytes by the engine differs from run to run there, by itself: 7.9 to 11 us, in fp8 5.1 to 14.""",
    "Products over several GPUs": """
        Reduce-scatter: the GEMM alone, of which no sums travel, is 1.13 to 1.15 x ahead of torch's fused operator at three of
        the shapes, so 1.15 is out of reach there. Ours takes 2 to 4 % more than the GEMM alone, and as long when nobody
        carries the sums: what is left is the kernel's, sums that are written and read once more, and a stage of the ring less.
        Put by the programs' own stores they cost what the link takes for them, although half of the product's time is there
        for it; why is not known.""",
    "What a GEMM does on the way out": """
        gelu_tanh at K = 2048: tensor cores 86 % where the plain form has 93 %, at the same clock, L2 74 and 70 %; issue slots
        are 25 % instead of 15 %. So its instructions are what is not hidden: a consumer's product waits for the elements of
        the tile before. A residual at K = 8192: tensor cores 94 and 96 %, but 1420 against 1455 MHz, and L2 79 against 68 %:
        reading the residual costs power and L2, not waiting. Row scales with promoted sums: tensor cores 88 % (91 % without
        scales and in torch's), issue slots 40 % in all three, which is the adding up in fp32. Row scales in the tensor cores,
        K = 2048: 90 % where torch's kernel has 94 % at the same clock; ours asks 6 % more of L2, and its SMs are active 94 %
        of the launch, torch's 96 %.""",
    "Products of real models": """
        4096 x 2112 x 7168: tensor cores 91 % in ours and 92 % in cuBLAS's at the same clock of 1580 MHz, an SM busy 97 % as
        long as the last one in both: the same rounds at the same limit, so 1.02 of it is not there. 512 x 2880 x 2880: tensor
        cores 58 and 63 %, and some of our SMs have no tile at all where all of cuBLAS's have: what is left is the division of
        345 tiles by 132 SMs. Decoding, 64 x 10240 x 8192: the memory is busy 83 and 81 %, which is the limit of both.""",
    "Products of real models, fp8": """
        Decoding, 64 x 10240 x 8192: the memory is busy 74 % in ours and 65 % in torch's kernel, of whose SMs one is busy 58 %
        as long as the last one. Of prefill one row is below, which was at 1.00 in a longer run; no counters of prefill were
        read.""",
    "Few rows": """
        One row: the memory is busy 81 % in ours and 80 % in cuBLAS's, L2 83 and 82 %, for 35.0 and 35.5 us; 256 rows: tensor
        cores 81 % and memory 63 % in both, 46.8 and 46.2 us. So both stand at the same limits, and 1.1 of cuBLAS is not to be
        had: what is left of the time is the start of 128 programs on 132 SMs and the L2's writing back, which no kernel sees.""",
    "Scales of blocks": """
        4096 x 7168 x 16384, tiles of 256 x 128: tensor cores 81 % of the cycles, torch's 81 %, our fp8 product without scales
        95 %; issue slots 35 % where that has 13 %, and 9 % of the waits are for dispatch: adding each chunk up in fp32.
        Larger tiles took L2 from 74 to 56 % busy (torch's 63 %) and the clock under ncu from 1403 to 1598 MHz, above torch's
        1556: power is no longer what ours loses by, the adding up is. 4096 x 2112 x 7168: 66 and 68 % at 113 us both; an SM
        is busy 83 % as long as the last one: 32 x 16.5 tiles of 128 x 128 are 4.0 to 4.1 rounds of 132 SMs, so a fifth
        begins.""",
    "Attention, forward": """
        Heads of 64 and 96 are where FlashAttention-4 leads most, by 18 % at 16384 causal; its counters have not been read
        there, and those of heads of 128 only backward. Heads of 128, 4096 full: tensor cores 79 % of the cycles,
        cuDNN's 75 %, at 1634 and 1653 MHz, so ours is ahead under ncu, where the chip is cool. Neither L2 (45 %), shared
        memory (53 %) nor the memory (7 %) bounds it. Issue slots are 39 % busy: the fifth of the time in which the tensor
        cores rest is where both consumers are in their softmax; warps wait for barriers of keys and values (long scoreboard
        28 %, which seems to hold waits for mbarriers) and for results of plain instructions (24 %). In a benchmark the clock
        falls to 1410 to 1470 MHz from length 4096 on: there it is power.""",
    "Attention, backward": """
        Shared memory is the busiest unit, at length 16384 83 % of its wavefronts (4 % of them bank conflicts), before the
        tensor cores with 73 %; cuDNN has 70 and 67 %. dQ's shares go through it, beside the operands of five products. L2 58
        %, memory 2 %: adding dQ up is not what bounds it. The launches before and after are 1 % of the call (5 % at 4096).
        FlashAttention-4 in the same run, heads of 128 at 4096: tensor cores 77 % and shared memory 78 %, where ours has 70 and
        80. Its blocks have 80 queries for 128 keys, ours 64, so K and V are read a fifth less often; each of its consumers
        makes half of dQ's columns for all keys, where ours make a share of all columns each. With heads of 192 it has one kernel
        of five products (96 keys a block), ours two of seven.""",
    "Attention, packed sequences": """
        As the dense kernel: tensor cores 79 %, cuDNN's dense kernel 76 %; 265 MB of local memory are moved by spills in ours
        (cuDNN's: none), at some 60 GB/s far from any limit. All SMs end within 3 %. What keeps the tensor cores waiting is
        what keeps the dense kernel's waiting.""",
    "Attention, decoding": """
        Of the form before 28 November. 8 x 8192: the memory is busy 79 %, cuDNN's 87 %, for the same bytes (271 MB), in 71 us
        where cuDNN's two launches take 69. The difference is the tail: an SM of ours is busy 88 % as long as the last one,
        and the one that ends first 4 %; in cuDNN's the first ends after 73 %. L2 hits 1 % in both: nothing is read twice.
        1 x 8192 is 17.3 and 17.6 us: a launch's start and its last steps, with the memory at 41 %. The SM that ends first has
        no keys: four of 132 do not, so that shares end where sequences end. What the newer form took off is start and end,
        not faster copies.""",
    "Norms": """
        LayerNorm forward LN6: memory 71 % and L2 80 %; the ring runs on 120 of 132 SMs (15 clusters of 8), an SM is busy 82 %
        as long as the last one, and 15 % of shared memory's wavefronts are bank conflicts. Backward LN4: memory 61 %, L2 78
        %, issue slots 43 %; warps wait for loads 27 % and barriers 24 %; the launch that adds up dw and db takes 14 % of the
        call with the memory at 32 %. Backward LN7: memory 77 %, L2 83 %, issue slots 49 %, an SM is busy 84 % as long as the
        last one, and some have no program at all. L2 is the busiest unit of all three. All SMs instead of those of clusters, one
        CTA a row, divided rows, exchanges that nobody waits for: none is 1 % faster than what is there (2026-11-28). What is
        missing to a copy is what copies by SMs miss, too, and in the gradients of short rows the second launch. (torch's copy
        is a cudaMemcpy, in which ncu sees no kernel.)""",
    "Top-k selector": """
        64 x 4096, 8.7 us in a benchmark: an SM is busy 42 % as long as the last one, memory 2 %, issue slots 17 %; most of
        the time is a launch and the steps of one CTA that follow each other. 64 x 262144: memory 49 %, L2 60 %, issue slots
        34 %: none is a limit. Warps wait for loads 48 % of their time, and 26 % of shared memory's wavefronts are bank
        conflicts, those of the histograms. Passes over a row follow each other, each begins with an empty pipeline; 128 of
        132 SMs have a CTA.""",
    "Sparse MLA": """
        The counters below are those of the pipe form with one producer, until 28 November: 4258 us at 8192 rows with tensor
        cores 56 %, since the producer's list, rows and hand-over follow each other, 3800 of the 3860 clocks of a block, in
        which the products need 2176 (benchmarks/notes/sparse-mla.md, "What a block takes, and why the seesaw form is gone").
        Two producers take 4096 us there, and 4215 at 131072 rows, where one took 5043: FlashMLA's published time is 0.94 and
        1.08 of ours, the published pipe form 1.18 and 1.45. The demand counts 0.70 of the published time from 65536 rows on,
        as if the memory bounded it, which it does not. The form without roles has no second worker that computes while rows
        come. The library calls the pipe form.""",
    "Mixture of experts": """
        mixtral-512, longest launch: tensor cores 82 % and memory 70 % at once, at 1364 MHz: bound by both, and by power
        (stock Triton's: 58 and 59 %, 709 us where ours takes 597). The second product has a tail: an SM is busy 73 % as long
        as the last one. deepseek-4096: the first product keeps the memory busy 82 % and L2 92 %, but it moves 22.4 GB, stock
        Triton's 17.2 GB (L2 hits 19 and 30 %): tiles of one expert are so far apart in time that its weights are read again.
        Fewer bytes by another order of tiles is what is left there, not faster copies.""",
}
EXPLAINED["A layer of experts in fp8, in micro-batches"] = """
        Overlap loses here, 0.83, where 0.9 was predicted. One batch is 4062 us: experts 3773, dispatch 156, combine 228. The
        experts of a half take 2269 us, more than half of 3773, since each half fills up blocks of 128 rows and reads all
        matrices again; and what travels on 12 multiprocessors takes 412 and 1083 us beside them, so that combine is not hidden.
        Two GPUs have 9 % of the time to hide at most."""

# (chip, title of a section) -> what its rows on another chip than the H200 show
EXPLAINED_ELSEWHERE: dict[tuple[str, str], str] = {
    ("H100", "Products over several GPUs"): """
        Four GPUs. Sums of a reduce-scatter are carried in parcels of 8 MiB and cost 0 to 11 % of our GEMM alone; cuBLAS alone is
        1.19, 1.02 and 1.18 times as fast as ours at three of the shapes, so the product is what is to be made faster. Those of
        an all-reduce are put by programs: carried, each finished tile would go to three peers by one stream.""",
    ("H100", "Collectives"): """
        Between four GPUs many bytes go through slots and are read once more, for three peers: 0.83 to 0.95 of NCCL from 64 MiB
        on; read in place, as `symmetric` does, all-gather and reduce-scatter are 1.02 to 1.11 of it.""",
    ("H100", "Tokens to experts on other GPUs"): """
        Between two GPUs rows by expert and combine are bound by the memory: 704 and 646 MB of the deepseek shape take 235 and
        215 us at a copy's 3.0 TB/s, where the link takes 154. Between four the link bounds. The search:
        benchmarks/notes/dispatch-combine.md, "Whole rows, timed".""",
}
