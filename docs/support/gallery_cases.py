"""Which run of which test each tutorial's picture shows, and what there is to see in it.

Input: the number of a tutorial. Output: the `Case` of its picture, docs/gallery/NN.svg. For example:

    CASES["02"].test        "test_product[simulator-shape1-4]", of tests/tutorials/test_02_warp_specialised_gemm.py

A test simulates anyway; its run is drawn (tests/tutorials/conftest.py), and compared with the picture that is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mimw.simulator import Run

from .gallery_picture import Line, View, picture


@dataclass(frozen=True)
class Case:
    """`test` is the test's name with its parameters; `runs` says which of its simulations follow each other in the picture;
    `lines` adds where the cycles go, for programs that never wait; `says` is what to look for."""

    test: str
    says: str
    view: View = field(default_factory=View)
    runs: tuple[int, ...] = (0, )
    lines: int = 0


def drawing(number: str, runs: Sequence[Run], source: Path) -> str:
    """The picture of a tutorial, of the simulations that its test made; `source` is the tutorial's file."""
    case = CASES[number]
    shown = [runs[which] for which in case.runs]
    title = f"Timeline of tutorial {number}, {sum(run.cycles for run in shown):,.0f} cycles"
    return picture(title, [run.trace for run in shown], case.view, lines_of(shown, source, case.lines))


def lines_of(runs: Sequence[Run], source: Path, count: int) -> list[Line]:
    """The lines of the tutorial that took the most cycles; what they call counts for the line in the tutorial."""
    total: Counter[int] = Counter()
    for run in runs:
        for site, cycles in run.lines.items():
            total[next((one.line for one in site.chain() if one.file == str(source)), 0)] += cycles
    text, whole = source.read_text().splitlines(), sum(total.values())
    most = sorted(total.most_common(count), key=lambda item: item[0])
    return [Line(line, text[line - 1].strip(), cycles / whole) for line, cycles in most if line]


CASES = {
    "01": Case("test_product[simulator-128-128-256]", """
        Four copies a group; while one group is multiplied, the next are in flight. The one task does everything in
        turn: it starts copies, waits for a group, starts a product."""),
    "02": Case("test_product[simulator-shape1-4]", """
        One warp (`producer`) keeps TMA busy, two warpgroups keep the tensor cores busy, and each waits only for slots:
        the consumers for `full`, the producer for `empty`. Between the two output tiles, at 3,600 cycles, the tensor
        cores rest while both consumers store: tutorial 03 is about that gap."""),
    "03": Case("test_product[simulator-shape3-1]", """
        The consumers take turns: while `consumer[1]` waits for its turn, `consumer[0]` multiplies; then they change
        over, at 4,500 and 9,000 cycles, and the tensor cores go on while the first one stores.""", View(until=13000)),
    "04": Case("test_product[simulator-shape1-4]", """
        The two CTAs of a cluster. Each TMA lane brings its own tiles of A and half of each tile of B, for both; so the
        first copies of the pair end together, and a slot is refilled only when four consumers have released it.""",
        View(ctas=(0, 1), until=5000)),
    "05": Case("test_rows[simulator-9-1024-2-2]", """
        Two tasks of each CTA take rows in turn. While `rows[0]` waits for the statistics of the other CTA
        (`arrived`), `rows[1]` computes.""", View(ctas=(0, 1))),
    "06": Case("test_attention[simulator-2-384-64-False-float16-0.002]", """
        Two consumers and a loading warp. Where a consumer works it does its softmax, while the products of the other
        one are on the tensor cores."""),
    "07": Case("test_counts[simulator-0-256-32]", """
        A program without tasks and waits: its time is that of its lines. Reading the keys takes most, the atomics on
        shared memory (line 42) half of that; at the end each program adds its 256 sums to those in global memory.""",
        View(ctas=()), lines=6),
    "08": Case("test_rows[17-200-3]", """
        Seventeen rows on four programs. A program asks the launcher ahead (`ask`), and works (`work`) on the rows that
        it gets; a program with short rows takes more of them. Here each program asks for three answers ahead, so the
        last rows are taken long before programs 2 and 3 are done: step 6 says why more stages are not better.""",
        View(ctas=()), runs=(1, )),
    "09": Case("test_products[(384, 256, 96)-{'GROUP_M': 2}]", """
        Four roles: `load` copies, `mma` starts products, `ask` asks for tiles, and `epilogue` takes sums out of tensor
        memory. There are two accumulators: while `done[0]` is read, the products of the next tile go into the other
        one.""",
        View(until=7000)),
    "10": Case("test_attention[2-512-32-{'BN': 64, 'PARTS': 2}-False-float16-0.002]", """
        Five roles. Both tasks `softmax` and the one that rescales (`correct`) work nearly all of the time, and the
        products of one tile of queries run beside the softmax of the other."""),
    "11": Case("test_product[simulator-shape0]", """
        Tutorial 01's ring as a pipe. The waits name the pipe, the chunk and the other end."""),
    "12": Case("test_product[simulator-shape1-4]", """
        Five functions and three pipes. Each `multiply` passes its sums in pieces to its `save`, which stores one piece
        while the next is made; waits name the pipe and its other end.""", View(until=9000)),
    "13": Case("test_kept_in_order[simulator-3000-1.5]", """
        Three launches, one behind the other: count in each block, sum up the counts in one program, write.""",
        View(ctas=()), runs=(0, 1, 2), lines=5),
    "14": Case("test_random_rows[simulator-1024-32-None]", """
        A program a row, without waits. Reading the row takes most; the rest are two rounds over digits, each a
        histogram by atomics and its running sum.""", View(ctas=()), lines=6),
    "15": Case("test_lists[simulator-1000-64-16-cluster]", """
        Eight programs of one cluster synchronise twice. The thin pale bars are the cost of that; without the barrier
        there would be another launch.""",
        View(ctas=())),
    "16": Case("test_rows[simulator-5-500-0]", """
        The eight programs of one cluster arrive at its barrier at the same time, so no wait shows. Of the
        cycles, reading the row takes most, and sending to all others (lines 47 and 48) a fifth.""",
        View(ctas=(0, 1, 2, 3, 4, 5, 6, 7)), lines=5),
    "17": Case("test_product[simulator-64-64-256]", """
        Two pairs of programs, each CTA with half of the inner extent: what a pair exchanges follows from
        `tle.sharding`, and takes 6 % of the cycles (line 60). Loads take most, since the simulator runs plain `tl.load`
        in order.""", View(ctas=()), lines=6),
    "18": Case("test_gradients[1-384-16-{'PARTS': 2, 'STAGES': 3}-False-float16-0.005]", """
        Five products a block, in bursts between which `compute` makes probabilities and their gradients without a
        pause: it is what bounds this small case.""", runs=(1, )),
    "19": Case("test_products[(1, 0, 130, 5)-72-40-2-{}]", """
        Before the first copy each task looks through the groups' sizes; then tensor maps are made on the device, and
        the tiles of the groups follow each other."""),
    "20": Case("test_products[(264, 72, 40)-{'STAGES': 3, 'PLACES': 3}]", """
        A pair of CTAs. Both load their half of B and store their half of the result; only CTA 0 has products, which are
        those of both.""", View(ctas=(0, 1))),
    "21": Case("test_products[mxfp8-(256, 128, 384)-{'BN': 128, 'STAGES': 2, 'PARTS': 2, 'SUMS': 2}]", """
        Three roles as in 09. Data and scales of a step land in one slot, and the product of a step starts when the
        copies of both have landed."""),
    "22": Case("test_launches_that_follow_each_other[2-2]", """
        Two ranks of two programs each, and the links between the ranks: a slot's data, then the signal behind the data,
        then the signal that the slot is free.""", View(ctas=())),
    "23": Case("test_matmul[ascend_910b]", """
        The product by the rules of an Ascend 910B: a loop that promises that its copies do not overlap gets its next
        tiles (`left`, `right`) while it computes."""),
    "24": Case("test_a_product_with_an_epilogue_of_cuda[simulator]", """
        `load` and `multiply` are tasks; from 1,800 cycles on `multiply` is in the epilogue, which is CUDA C++
        on a GPU and its reference in numpy here."""),
    "25": Case("test_topk[simulator]", """
        Two rows, one program each; each op of the raw body is one step for all threads of a program. The loop over all
        other numbers is nearly everything.""",
        View(ctas=()), lines=6),
    "26": Case("test_a_product_with_an_epilogue_of_mlir[simulator]", """
        A ring of two slots: each copy waits for a slot, each product for its copies; the epilogue, MLIR text, works on
        registers at the end."""),
    "27": Case("test_attention", """
        Attention as `mimw.orchestrate` has written it: a warp that loads, and two consumers with half of the rows each.
        The plain kernel is one lane, in which each copy, product and exponent follows the other."""),
}
