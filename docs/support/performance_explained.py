"""What the counters say of each table of docs/performance.md whose goal is missed: what bounds the row, and where the rest is lost.

Input: nothing. Output: EXPLAINED, a text for the title of a section. For example:

    EXPLAINED["Few rows"]       "Ours and cuBLAS have the memory equally busy ..."

The figures are those of the lines "Counters" on the page (benchmarks/results/counters.jsonl, run of 2026-11-22): one launch each,
alone under ncu. What other counters said before stands in benchmarks/NOTES.md.
"""

from __future__ import annotations

EXPLAINED = {
    "Tokens to experts on other GPUs": """
        Dispatch of deepseek and of deepseek-fp8, which moves half as much (700 and 363 MB of the memory), differ by 3.7 TB/s;
        combine of deepseek and of mixtral (645 and 151 MB) by 3.8 TB/s. So both are the memory's bytes near its rate, and some
        60 us besides: rounds of rows whose waits follow each other, the start, and the last rows' way home, which begins when the
        link is done. Where the memory has little to do, dispatch of mixtral, the link is busy 82 % of the time. To come nearer,
        experts would read a token's row where it has come, by its number, and nothing be written by expert (NOTES).""",
    "Products over several GPUs": """
        Reduce-scatter: the GEMM alone would be 1.12 to 1.24 x ahead of torch's fused operator, so 1.15 asks for sums that travel
        at no cost. Ours take 52 to 134 us more than the GEMM alone, about the time that the bytes need on the link, although that
        has half of the product's time for them: an SM's stores to the peer seem to hold up its own loads, and all SMs end their
        tiles at one time. All-gather by copy engines, which no SM is in the way of, costs 2 to 4 %.""",
    "What a GEMM does on the way out": """
        gelu_tanh at K = 2048: tensor cores 86 % where the plain form has 93 %, at the same clock, L2 74 and 70 %; issue slots
        are 25 % instead of 15 %. So its instructions are what is not hidden: a consumer's product waits for the elements of the
        tile before. A residual at K = 8192: tensor cores 94 and 96 %, but 1420 against 1455 MHz, and L2 79 against 68 %:
        reading the residual costs power and L2, not waiting. Row scales with promoted sums: tensor cores 88 % (91 % without
        scales and in torch's), issue slots 40 % in all three, which is the adding up in fp32. Row scales in the tensor cores, K
        = 2048: 90 % where torch's kernel has 94 % at the same clock; ours asks 6 % more of L2, and its SMs are active 94 % of
        the launch, torch's 96 %.""",
    "Few rows": """
        One row: the memory is busy 81 % in ours and 80 % in cuBLAS's, L2 83 and 82 %, for 35.0 and 35.5 us; 256 rows: tensor
        cores 81 % and memory 63 % in both, 46.8 and 46.2 us. So both stand at the same limits, and 1.1 of cuBLAS is not to be
        had: what is left of the time is the start of 128 programs on 132 SMs and the L2's writing back, which no kernel sees.""",
    "Scales of blocks": """
        4096 x 7168 x 16384: tensor cores 84 % of the cycles, torch's 81 %, our fp8 product without scales 94 %; issue slots 41
        % where that has 13 %, and 16 % of the waits are for dispatch: adding each chunk up in fp32. The clock is 1403 MHz,
        torch's 1465: L2 is busy 74 % in ours, 61 % in torch's, and that costs power.""",
    "Attention, forward": """
        FlashAttention-4, which leads where sequences are long, was not profiled. 4096 full: tensor cores 79 % of the cycles,
        cuDNN's 75 %, at 1634 and 1653 MHz, so ours is ahead under ncu, where the chip is cool. Neither L2 (45 %), shared memory
        (53 %) nor the memory (7 %) bounds it. Issue slots are 39 % busy: the fifth of the time in which the tensor cores rest
        is where both consumers are in their softmax; warps wait for barriers of keys and values (long scoreboard 28 %, which
        seems to hold waits for mbarriers) and for results of plain instructions (24 %). In a benchmark the clock falls to 1410
        to 1470 MHz from length 4096 on: there it is power.""",
    "Attention, backward": """
        Shared memory is the busiest unit, 80 % of its wavefronts (5 % of them bank conflicts), before the tensor cores with 70
        %; cuDNN has 68 and 65 %. dQ's shares go through it, beside the operands of five products. L2 59 %, memory 7 %: adding
        dQ up is not what bounds it. The launches before and after are 5 % of the call.""",
    "Attention, packed sequences": """
        As the dense kernel: tensor cores 79 %, cuDNN's dense kernel 76 %; 265 MB of local memory are moved by spills in ours
        (cuDNN's: none), at some 60 GB/s far from any limit. All SMs end within 3 %. What keeps the tensor cores waiting is what
        keeps the dense kernel's waiting.""",
    "Attention, decoding": """
        8 x 8192: the memory is busy 78 %, cuDNN's 86 %, for the same bytes (271 MB). The difference is the tail: an SM of ours
        is busy 90 % as long as the last one, and the one that ends first 4 %; in cuDNN's 94 and 79 %. L2 hits 2 % in both:
        nothing is read twice. So shares of sequences that are more even are what is left, not faster copies.""",
    "Norms": """
        LayerNorm forward LN6: memory 71 % and L2 80 %; the ring runs on 120 of 132 SMs (15 clusters of 8), an SM is busy 82 %
        as long as the last one, and 15 % of shared memory's wavefronts are bank conflicts. Backward LN4 in the form before the
        present one: 116 programs; memory 60 %, issue slots 41 %, warps wait for loads 29 % and barriers 26 %; the launch that
        adds up dw and db takes 16 % of the call with the memory at 25 %. So what is missing to a copy is the SMs without a
        cluster, the last row of each program, and in the gradients the second launch. (torch's copy is a cudaMemcpy, in which
        ncu sees no kernel.)""",
    "Top-k selector": """
        64 x 262144: memory 49 %, L2 60 %, issue slots 34 %: none is a limit. Warps wait for loads 48 % of their time, and 26 %
        of shared memory's wavefronts are bank conflicts, those of the histograms. Passes over a row follow each other, each
        begins with an empty pipeline; 128 of 132 SMs have a CTA.""",
    "Sparse MLA": """
        The rows above are of forms before the present ones (rows by cp.async, and the form without roles came later; neither
        was timed since). Under ncu, 8192 rows: the pipe form takes 4260 us with tensor cores 57 % and shared memory 59 %; warps
        wait for gathered rows (long scoreboard 42 %) although 95 % of them come out of L2, which is 44 % busy: latency, not
        bandwidth. The seesaw form, 7539 us, moves 13.4 GB of spilled registers and has the tensor cores busy 32 % of the time;
        the form without roles, 7226 us, has no second worker that computes while rows come: 33 %.""",
    "Mixture of experts": """
        mixtral-512, longest launch: tensor cores 82 % and memory 70 % at once, at 1364 MHz: bound by both, and by power (stock
        Triton's: 58 and 59 %, 709 us where ours takes 597). The second product has a tail: an SM is busy 73 % as long as the
        last one. deepseek-4096: the first product keeps the memory busy 82 % and L2 92 %, but it moves 22.4 GB, stock Triton's
        17.2 GB (L2 hits 19 and 30 %): tiles of one expert are so far apart in time that its weights are read again. Fewer bytes
        by another order of tiles is what is left there, not faster copies.""",
}
