"""Kernels over rows and lists that are mutated (norms, softmax, top-k, lists of experts): src/mimw/kernels, small and ready to be
checked.

    next(case for case in CASES if case.name == "Norm, ring").make()        (kernel, grid, args, meta)

Input: nothing. Output: `CASES`, and what the tutorials of these kernels need, too.
"""

from __future__ import annotations

import numpy as np

from mimw.kernels import cross_entropy, moe_align, norm, norm_backward, softmax, topk, topk_selector

from .case import Case, numbers


def ties() -> tuple:
    """(x, values, indices): two rows of 100 small numbers, many of them equal, and room for the ten largest."""
    x = np.random.default_rng(0).integers(-20, 20, (2, 100)).astype(np.float16)
    return x, np.zeros((2, 10), np.float16), np.zeros((2, 10), np.int32)


def _library_topk(**configuration) -> tuple:
    return topk.kernel, *topk.arguments(*ties(), topk.Configuration(**configuration))


def _selector(ctas: int) -> tuple:
    """A row whose candidates fit, and one of equal numbers, which is counted digit by digit."""
    x = np.concatenate([np.random.default_rng(0).standard_normal((1, 150)), np.full((1, 150), 2.0)]).astype(np.float32)
    chosen = topk_selector.Configuration(ctas, 1, 1, 32)
    return topk_selector.kernel, *topk_selector.arguments(x, None, None, np.zeros((2, 10), np.int32), None, chosen)


def choices(numel: int) -> np.ndarray:
    """An expert of eight for each token, the low numbers more often."""
    return (np.random.default_rng(0).random(numel)**3 * 8).astype(np.int32)


def _library_align(numel: int, form: str, **configuration) -> tuple:
    """Tiles of 64 tokens: one a program up to 512 tokens, more than one above."""
    outs = [np.full(size, -7, np.int32) for size in (*moe_align.outputs(numel, 8, 4), 8)]
    return moe_align.arguments(choices(numel), *outs, 8, 4, 2, moe_align.Configuration(form, 64, 4, **configuration))


def experts_lists(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Of an alignment in blocks of four: an expert's tokens may stand in any order, but in front of its padding."""
    ids, tokens, experts, total, *_ = arrays
    expert = experts[np.arange(tokens.size) // 4]
    return [tokens[np.lexsort((tokens, expert))], tokens == ids.size, experts, total]


def _places(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Of a selection: what is there, and that no place comes twice; of equal numbers any may be chosen, in any order."""
    x, places = arrays
    found = np.sort(np.take_along_axis(x, places % x.shape[1], 1))
    return [found, np.array([len(set(row)) for row in places.tolist()]), places < 0]


def _library_norm(stages: int, drawn: bool = False) -> tuple:
    """Pairs of CTAs, slots that two consumers take in turn, a residual, chunks that stick out of a row; with `drawn` two pairs that
    draw their rows."""
    x, w, b = numbers((7, 168), 168, 168)
    chosen = norm.Configuration("ring", 2, 64, 2, 4, stages, 2, drawn=drawn)
    return norm.arguments(x, w, b, np.zeros_like(x), x[::-1].copy(), np.zeros_like(x), chosen=chosen, room=1 + drawn,
                          counter=np.zeros(1, np.int32))


def _library_norm_backward(ahead: bool = False) -> tuple:
    """The same of a gradient; its sums over rows are made by another launch. `ahead`: two rows at a time by one consumer, the first
    pass over them together with the second one over the two before them."""
    rows = 6 if ahead else 7
    x, dy, more, w = numbers((rows, 168), (rows, 168), (rows, 168), 168)
    mean, rstd = numbers(rows, rows, dtype=np.float32)
    chosen = norm.Configuration("ring", 2, 64, 2, 4, 2 + (not ahead), 1 + (not ahead), rows=1 + ahead, ahead=ahead)
    parts = np.zeros((2, norm_backward.parts_of(rows, 168, chosen, 1), 168), np.float32)
    return norm_backward.arguments(x, dy, w, mean, rstd, np.zeros_like(x), w.copy(), w.copy(), parts, more, chosen, 1)[0]


def _library_softmax() -> tuple:
    """Pairs of CTAs, three slots that two consumers take in turn, chunks that stick out of a row."""
    (x, ) = numbers((7, 168))
    return softmax.arguments(x, np.zeros_like(x), chosen=softmax.Configuration("ring", 2, 64, 2, 4, 3, 2), room=1)


def _library_cross_entropy() -> tuple:
    """In place, with smoothing: as the softmax, a second exchange of each row, and rows that begin and end anywhere."""
    x, lines = numbers((7, 165))[0], np.zeros((2, 7), np.float32)
    chosen = cross_entropy.Configuration("ring", 2, 64, 2, 4, 3, 2)
    return cross_entropy.arguments(x, np.arange(7) * 20, *lines, x, smoothing=0.1, chosen=chosen, room=1)


CASES = (
    Case("Top-k, one CTA", "src/mimw/kernels/topk/kernel.py", lambda: _library_topk(warps=1)),
    Case("Top-k, cluster", "src/mimw/kernels/topk/kernel.py", lambda: _library_topk(ctas=2, warps=1)),
    Case("Top-k selector, one CTA", "src/mimw/kernels/topk_selector/kernel.py", lambda: _selector(1), _places),
    Case("Top-k selector, cluster", "src/mimw/kernels/topk_selector/kernel.py", lambda: _selector(2), _places),
    Case("MoE align, grid", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "grid"), experts_lists),
    Case("MoE align, many tiles", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(1100, "grid"), experts_lists),
    Case("MoE align, cluster", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "cluster"), experts_lists),
    Case("MoE align, pull", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "cluster", pull=True),
         experts_lists),
    Case("Norm, ring", "src/mimw/kernels/norm/kernel.py", lambda: _library_norm(3)),
    Case("Norm, drawn rows", "src/mimw/kernels/norm/kernel.py", lambda: _library_norm(2, True)),
    Case("Norm backward, ring", "src/mimw/kernels/norm_backward/kernel.py", _library_norm_backward),
    Case("Norm backward, ahead", "src/mimw/kernels/norm_backward/kernel.py", lambda: _library_norm_backward(True)),
    Case("Softmax, ring", "src/mimw/kernels/softmax/kernel.py", _library_softmax),
    Case("Cross entropy, ring", "src/mimw/kernels/cross_entropy/kernel.py", _library_cross_entropy),
)
