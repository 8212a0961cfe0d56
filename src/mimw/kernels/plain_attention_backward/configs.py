"""The tiles of a problem: those of a program that owns queries, and of one that owns keys.

Input: lengths, head dims, the bytes of an element, whether the chip has the shared memory of sm_90. Output: constants and launch
options of both kernels:

    metas(1000, 1000, 80, 80, 2, False)         ({"FORM": Form(D=80, DV=80, D_TILE=128, ...), "num_warps": 8, ...}, {...})
    tiles_on_amd(1000, 1000, 80, 80, 2)         (Tiles(bm=64, bn=64, num_warps=4, num_stages=1), ...) for `chosen`
"""

from __future__ import annotations

from dataclasses import dataclass

from ..plain_attention.configs import blocks, form
from ..powers import tile


@dataclass(frozen=True)
class Tiles:
    """BM queries by BN keys at a time, by so many warps, loads of so many rounds under way."""

    bm: int
    bn: int
    num_warps: int
    num_stages: int


# Of 16-bit heads of up to 128 on sm_90. Who owns queries can hold many; 128 keys, with two sums and the scores in registers, spill.
OF_QUERIES, OF_KEYS = Tiles(128, 64, 8, 2), Tiles(64, 64, 8, 2)

# On AMD, (queries, keys) by the bytes of a head's row: a wave of 4 has all 512 registers of a lane, one of 8 has 256, which spills.
ON_AMD = {256: (64, 64), 512: (64, 32), 1024: (16, 32)}


def tiles_on_amd(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int) -> tuple[Tiles, Tiles]:
    """Tiles of both kernels with which nothing spills on gfx942, gfx950 and gfx1250; so it was compiled, nothing was measured."""
    row = tile(max(dim, value_dim)) * in_bytes
    bm, bn = ON_AMD[min((most for most in ON_AMD if row <= most), default=max(ON_AMD))]
    return (Tiles(min(bm, tile(seq_q)), min(bn, tile(seq_k)), 4, 1), ) * 2


def metas(seq_q: int, seq_k: int, dim: int, value_dim: int, in_bytes: int, large: bool, chosen: tuple[Tiles, Tiles] | None = None,
          causal: bool = False, exact: bool = False) -> tuple[dict, dict]:
    """Constants and launch options of `query_gradients` and of `key_gradients`. The forward's tiles fit everywhere; a program here
    holds two more of them, and twice the sums, so it has twice the warps for wide heads."""
    found = blocks(seq_q, seq_k, dim, value_dim, in_bytes)
    if chosen is None and large and in_bytes == 2 and max(dim, value_dim) <= 128 and min(found) == 64:
        chosen = OF_QUERIES, OF_KEYS
    chosen = chosen or (Tiles(*found, 8 if max(dim, value_dim) > 64 else 4, 1), ) * 2
    of_queries, of_keys = (dict(FORM=form(dim, value_dim, one.bm, one.bn, causal, exact and in_bytes == 4),
                                num_warps=one.num_warps, num_stages=one.num_stages) for one in chosen)
    return of_queries, of_keys


__all__ = ["Tiles", "metas", "tiles_on_amd"]
