"""Latent caches: their lines in contracts, and where in a row its parts lie.

Input: a cache, and what else a call has. Output: lines, and a `Views`. For example:

    Contract(*lines("bf16|fp16", " tma"), *RULES)
    views(cache, q, lse, 512, packed=True)      its bytes as values of e4m3, as fp32 and as bf16, and where each part begins

A row of DV values and DT other columns is DV + DT numbers of q's type, or of e4m3 with one scale for all; or, as FlashMLA packs it,
DV of e4m3, a float32 scale for each 128 of them, and DT of bf16: 512 + 16 + 128 = 656 bytes.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

from ..contract.memory import address, strides
from ..contract.types import FP8, of
from .nouns import Arrays, Part, Parts

GROUP = 128     # values that share a scale
OWN, ONE_SCALE, PACKED = 0, 1, 2       # how numbers of a cache are kept: in q's type, in e4m3 with one scale, packed

RULES = (
    "kv_heads == 1 -- all heads share one latent row",
    "0 < value_dim < width -- values are some of a row's columns, not all",
    "k_scale is None or fp8(cache) -- a scale goes with a cache of e4m3",
    "fp8(cache) and k_scale is None or cache_width == width -- rows of the cache are as wide as q's",
    f"not fp8(cache) or k_scale is not None or value_dim % {GROUP} == 0 and cache_width == value_dim + value_dim // {GROUP // 4} "
    "+ 2 * (width - value_dim) -- e4m3 without a scale is packed: values, a float32 for each 128 of them, and the others in bf16",
    "page_table is not None or pages == batch -- without a page table there must be as many caches as sequences")


def lines(types: str, memory: str = "") -> tuple[str, ...]:
    """The lines of the tensors, q of these types."""
    return (f"q: {types} (batch, queries, heads, width) contiguous",
            f"cache: =q|e4m3 (pages, page_size, kv_heads, cache_width){memory or ' rows'}", "lengths: i32 (batch) contiguous",
            "out: =q (batch, queries, heads, value_dim) contiguous", "lse: fp32 (batch, heads, queries) contiguous",
            "room?: fp32 (numbers)", "page_table?: i32 (batch, most_pages) rows", "k_scale?: fp32 (1)")


class View(NamedTuple):
    """An array, and where a part of each row is in it."""

    array: Any
    part: Part


class Views(NamedTuple):
    """The places of values, of the other columns, and of scales of values, None where there are none."""

    values: View
    tail: View
    scales: View | None


def kind_of(cache: Any, k_scale: Any) -> int:
    """The kind of a cache: OWN, ONE_SCALE or PACKED."""
    return OWN if of(cache) not in FP8 else PACKED if k_scale is None else ONE_SCALE


def views(cache: Any, q: Any, lse: Any, value_dim: int, packed: bool) -> Views:
    """The parts of a cache; of a packed one as arrays of their types, for which lse and q stand: fp32 and bf16. ValueError for
    another type of q then, and where such an array cannot be had of the cache's strides."""
    page, row = strides(cache)[:2]
    if not packed:
        return Views(View(cache, Part(page, row, 0)), View(cache, Part(page, row, value_dim)), None)
    if of(q) != "bfloat16" or unit_of(cache) % 4:
        raise ValueError(f"q is {of(q)}, and pages and rows of the packed cache are {page} and {row} bytes apart and begin at "
                         f"multiples of {unit_of(cache)}; q must be bfloat16, as the cache's other columns are, and rows begin at "
                         "multiples of 4 bytes")
    scales, tail = cache.view(lse.dtype), cache.view(q.dtype)
    return Views(View(cache, Part(page, row, 0)), View(tail, Part(page // 2, row // 2, (value_dim + value_dim // GROUP * 4) // 2)),
                 View(scales, Part(page // 4, row // 4, value_dim // 4)))


def arrays_of(parts: Views) -> Arrays:
    """The arrays alone, for a kernel."""
    return Arrays(*(None if one is None else one.array for one in parts))


def places_of(parts: Views) -> Parts:
    """The places alone, for a kernel."""
    return Parts(*(Part(0, 0, 0) if one is None else one.part for one in parts))


def unit_of(cache: Any) -> int:
    """The bytes that divide the places of all rows of a cache in e4m3, up to 16: a load that the compiler knows of has so many."""
    return gcd(*strides(cache)[:2], address(cache), 16)


def words_of(cache: Any, lengths: Any) -> Any:
    """A cache in e4m3 as int32, the type of `lengths`, four bytes each; as it is where rows begin elsewhere than at multiples of
    4."""
    return cache if unit_of(cache) % 4 else cache.view(lengths.dtype)


__all__ = ["GROUP", "ONE_SCALE", "OWN", "PACKED", "RULES", "View", "Views", "arrays_of", "kind_of", "lines", "places_of", "unit_of",
           "views", "words_of"]
