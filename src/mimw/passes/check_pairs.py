"""Products of pairs of CTAs beside those of one CTA, and pairs in clusters that have none.

Input: a program. Output: nothing, or a `KernelError` with the author's lines. For example:

    async_dot(a, b, acc, two_ctas=True); async_dot(a, b, other)      refused: "Expecting all dot ops to be 2cta ..."

PTX ISA, tcgen05 instructions: all that a kernel executes have one `.cta_group`. A pair are the CTAs with ranks 2 i and 2 i + 1 of a
cluster.
"""

from __future__ import annotations

from ..errors import KernelError
from ..ir import Program
from ..target import Target


def check_pairs(program: Program, target: Target) -> None:
    """Raise `KernelError` for a pair in clusters of an odd size, and for the first product of one CTA beside one of a pair."""
    paired = [op for op in program.walk() if not op.row.traits.isdisjoint(("pairs", "pair_load"))]
    if not paired:
        return
    if program.cluster_size % 2:
        launched = f"in clusters of {program.cluster}" if program.cluster_size > 1 else "without a cluster"
        raise KernelError(f"{paired[0].row.word} runs on a pair of CTAs, and this kernel is launched {launched}: the CTA with rank "
                          f"{program.cluster_size - 1} is in no pair.", paired[0].site,
                          hint="launch with ctas_per_cga=(2, 1, 1), or another shape of an even number of CTAs.")
    of_pair = next((op for op in paired if "dot" in op.row.traits), None)
    if of_pair is None:
        return
    for op in program.walk():
        if "dot" in op.row.traits and "pairs" not in op.row.traits:
            raise KernelError("Expecting all dot ops to be 2cta together or 1cta together: this product is one CTA's, and the one "
                              f"at {of_pair.site} a pair's.", op.site, of_pair.site,
                              hint="give both two_ctas=True, or neither; tl.dot in such a kernel is one CTA's, too.")
