"""What the loops of tensor-core products hold besides work, in machine code: spills, addresses moved to uniform registers, and how
many exponentials lie beside a product.

    python -m benchmarks.loops                              attention and its gradients, on one GPU and over two
    python -m benchmarks.loops --kernels gradients          those whose names hold a text

Input: kernels, compiled here for sm_90a; no GPU is needed. Output: a line for each innermost loop that holds products, in the
order of the code. For example, a consumer's, and that of another one, which fetches addresses from memory:

    gradients over two GPUs, causal     503 instructions, 32 products
    gradients over two GPUs, causal     577 instructions, 32 products, 3 STL, 13 LDL, 37 R2UR

An exponential lies beside a product if it stands between the product's issue and the wait for it, so that the tensor cores work
meanwhile: `66 of 66 exponentials beside products`. The assembler may move exponentials over a wait: no tie of LLVM's binds it.

Roles are branches of one loop for the assembler, so what one role does may lengthen another's loop. A kernel over several GPUs
should have the loops of the one for one GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import mimw
from mimw.kernels import attention, attention_backward, ring_attention, ring_attention_backward
from mimw.tools.orchestrate.overlap import loops

from .progress import each

HEADS, KV_HEADS, ROWS, DIM, PROGRAMS = 8, 2, 2048, 128, 132     # of small launches with the code of large ones


def _arrays(causal: bool) -> tuple:
    """(q, k, lse, and for gradients rows and sums), of any content."""
    q, k = (np.empty((1, heads, ROWS, DIM), np.float16) for heads in (HEADS, KV_HEADS))
    made = [np.empty(shape, np.float32) for shape in attention_backward.workspace(q, None, causal)]
    return q, k, np.empty((1, HEADS, ROWS), np.float32), *made


def forward(causal: bool) -> tuple:
    q, k, lse, *_ = _arrays(causal)
    return attention.kernel, *attention.arguments(q, k, k, q, lse, np.zeros(1, np.int32), PROGRAMS, causal)


def forward_ring(causal: bool) -> tuple:
    q, k, lse, *_ = _arrays(causal)
    work = ring_attention.Workspace.of(mimw.World(2), 1, KV_HEADS, ROWS, DIM, np.float16).at(1)
    counter = np.zeros(1, np.int32)
    return ring_attention.kernel, *ring_attention.arguments(q, k, k, q, lse, counter, work, 1, PROGRAMS, causal)


def gradients(causal: bool) -> tuple:
    q, k, lse, rows, sums = _arrays(causal)
    return attention_backward.launches(q, k, k, q, lse, q, q, k, k, rows, sums, causal)[1]


def gradients_ring(causal: bool) -> tuple:
    q, k, lse, rows, sums = _arrays(causal)
    work = ring_attention_backward.Workspace.of(mimw.World(2), 1, KV_HEADS, ROWS, DIM, np.float16).at(1)
    return ring_attention_backward.launches(q, k, k, q, lse, q, q, k, k, rows, sums, work, 1, PROGRAMS, causal)[1]


MADE = {"attention": forward, "attention over two GPUs": forward_ring, "gradients": gradients,
        "gradients over two GPUs": gradients_ring}
CASES: dict[str, Callable[[], tuple]] = {
    f"{name}, {'causal' if causal else 'full'}": lambda make=make, causal=causal: make(causal)
    for name, make in MADE.items() for causal in (False, True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", default=[""], help="texts; those kernels whose names hold one")
    options = parser.parse_args()
    for name in each(name for name in CASES if any(text in name for text in options.kernels)):
        kernel, grid, args, meta = CASES[name]()
        for loop in loops(mimw.compile(kernel, grid, *args, **meta, target="sm_90a").sass):
            print(f"{name:<34}  {loop}", flush=True)


if __name__ == "__main__":
    main()
