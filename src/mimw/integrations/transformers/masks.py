"""The mask that attention gets from transformers, kept as numbers; the dense one is made only where no kernel takes the numbers.

Input: what transformers' AttentionMaskInterface gives a mask function. Output: a `Mask`, which goes through the model in place of a
tensor of (batch, 1, queries, keys). For example:

    mask = mask_of(batch_size=2, q_length=5, kv_length=5, attention_mask=padding)
    mask.bounds, mask.sequences         (None, 0), where real tokens begin and end
    mask.dense()                        what transformers' sdpa would have got
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.masking_utils import causal_mask_function, sdpa_mask

from .once import once
from .patterns import Pattern, read


class Sequences(NamedTuple):
    """The rows where sequences begin, those of a batch one behind the other: int32 of one more than there are sequences."""

    queries: Tensor
    keys: Tensor
    longest_queries: int
    longest_keys: int


class Mask:
    """The keys that each query of a batch sees. No dataclass and no tensor: wrappers of models would take those apart.

    bounds      (left, right) of the window around a query's position; the last query is at key `keys` - 1
    keys        so many keys count, the first ones; those behind them no query sees
    lengths     in place of `keys`, a number of keys on the device, of no dimensions, as of a static cache
    sequences   of packed or padded rows: what is in no sequence sees nothing
    seen        (batch, keys), True for keys that all queries see: padding where there are no bounds
    padded      True if the model was given a mask of tokens: cu_seq_lens of its caller do not count then
    reason      why no kernel of ours can follow it; None if one can
    """

    ndim = 4

    def __init__(self, shape: tuple[int, int, int, int], make: Callable[[], Tensor], bounds: tuple[int | None, int | None],
                 keys: int, lengths: Tensor | None = None, sequences: Sequences | None = None, seen: Tensor | None = None,
                 reason: str | None = None, padded: bool = False) -> None:
        self.shape, self.bounds, self.keys, self.lengths = shape, bounds, keys, lengths
        self.sequences, self.seen, self.reason, self.padded = sequences, seen, reason, padded
        self._make, self._made = make, None

    def dense(self) -> Tensor:
        """(batch, 1, queries, keys), True for what is seen; made once."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, index: Any) -> Tensor:
        """A part of the dense mask, for models that cut masks."""
        return self.dense()[index]

    def to(self, *args: Any, **options: Any) -> Mask:
        """The mask on another device, for models on several."""
        def moved(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.to(*args, **options)

        of = self.sequences
        return Mask(self.shape, lambda: moved(self.dense()), self.bounds, self.keys, moved(self.lengths),
                    None if of is None else Sequences(moved(of.queries), moved(of.keys), *of[2:]), moved(self.seen), self.reason,
                    self.padded)


def mask_of(batch_size: int, q_length: int, kv_length: int, q_offset: int | Tensor = 0, kv_offset: int = 0,
            mask_function: Callable = causal_mask_function, attention_mask: Tensor | Mask | None = None,
            device: torch.device | str = "cpu", **options: Any) -> Mask:
    """The mask for `attn_implementation="mimw"`, as transformers' AttentionMaskInterface asks for it.

    args:      batch_size, q_length, kv_length   how many sequences, queries and keys there are
               q_offset, kv_offset   positions of the first query and of the first key; that of the query may be on the device
               mask_function   what a query sees, by positions, without padding
               attention_mask  (batch, keys up to the last position) of bool, True for real tokens; or a Mask that was made before
               device          of the model's tensors
               options         those of transformers' `sdpa_mask`, for the dense mask
    returns:   a Mask. Reading whether tokens are padding waits for the device once, as transformers' own does; not if traced
    """
    if isinstance(attention_mask, Mask):
        return attention_mask
    padded = attention_mask is not None
    make = partial(sdpa_mask, batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, device=device,
                   **(options | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}))
    shape = batch_size, 1, q_length, kv_length
    found = _found(mask_function, options)
    if found is None:
        return _dense(shape, make, padded, "the mask's function is none that mimw can read, as one of chunks or blocks is not")
    bounds = found.left, found.right
    kept = partial(Mask, shape, make, bounds, padded=padded)
    real = None if attention_mask is None else _of_keys(attention_mask, kv_length, kv_offset)
    if isinstance(q_offset, Tensor) and q_length > 1 and not torch.compiler.is_compiling():
        q_offset = int(q_offset)        # to fill a static cache: worth waiting for
    if isinstance(q_offset, Tensor):
        if found.right != 0 or found.packed is not None or real is not None and not _all(real, q_offset + q_length - kv_offset):
            return _dense(shape, make, padded, "tokens are padded, and a static cache keeps its length on the device")
        return kept(kv_length, lengths=q_offset + q_length - kv_offset)
    first = q_offset - kv_offset        # the key at the first query's position
    keys = min(kv_length, first + q_length) if found.right == 0 else kv_length
    if (found.left is not None or found.right is not None) and (first + q_length != keys or keys <= 0):
        return _dense(shape, make, padded, "the last query is not at the last key")
    if found.packed is not None:
        return _packed(shape, make, found, real)
    if real is None:
        return kept(keys)
    if found.left is None and found.right is None:
        return kept(keys) if not torch.compiler.is_compiling() and bool(real.all()) else kept(keys, seen=real)
    if torch.compiler.is_compiling():
        return _dense(shape, make, padded, "tokens may be padded, and a graph that is traced cannot ask")
    return _padded(kept, real[:, :keys], first, q_length, partial(_dense, shape, make, padded))


def _found(mask_function: Callable, options: dict[str, Any]) -> Pattern | None:
    if not torch.compiler.is_compiling():
        return read(mask_function)
    if mask_function is causal_mask_function:
        return Pattern(right=0)
    # A closure cannot be looked at in a trace. Of all makers of masks those of causal ones alone allow the skip, and not if
    # something was put on top of the causal mask; the only other one with a local size is that of chunks.
    window, config = options.get("local_size"), options.get("config")
    if options.get("allow_is_causal_skip") and window is not None and getattr(config, "attention_chunk_size", None) is None:
        return Pattern(window - 1, 0) if window == getattr(config, "sliding_window", None) else None
    return None


def _dense(shape: tuple[int, int, int, int], make: Callable[[], Tensor], padded: bool, why: str) -> Mask:
    once("attention", why)
    return Mask(shape, make, (None, None), shape[3], reason=why, padded=padded)


def _of_keys(attention_mask: Tensor, kv_length: int, kv_offset: int) -> Tensor:
    """(batch, keys): True for real tokens. Behind the mask's end is nothing real."""
    lacking = kv_length + kv_offset - attention_mask.shape[1]
    return (pad(attention_mask, (0, lacking)) if lacking > 0 else attention_mask)[:, kv_offset:kv_offset + kv_length].bool()


def _all(real: Tensor, length: Tensor) -> bool:
    """True if the first `length` keys are real; which a trace cannot ask."""
    behind = torch.arange(real.shape[1], device=real.device) >= length
    return not torch.compiler.is_compiling() and bool((real | behind).all())


def _packed(shape: tuple[int, int, int, int], make: Callable[[], Tensor], found: Pattern, real: Tensor | None) -> Mask:
    batch, _, length, kv_length = shape
    if real is not None or length != kv_length or found.packed.shape != (batch, length):
        return _dense(shape, make, real is not None, "packed sequences are padded, or have a cache")
    if torch.compiler.is_compiling():
        return _dense(shape, make, False, "sequences may be packed, and a graph that is traced cannot ask; give cu_seq_lens_q, "
                      "cu_seq_lens_k, max_length_q and max_length_k, or use_cache=True")
    begins = found.packed.diff(dim=1, prepend=found.packed[:, :1] - 1).flatten() != 0
    starts = pad(begins.nonzero().flatten(), (0, 1), value=batch * length).int()
    longest = int(starts.diff().max())
    return Mask(shape, make, (found.left, found.right), length, sequences=Sequences(starts, starts, longest, longest))


def _padded(kept: Callable[..., Mask], real: Tensor, first: int, q_length: int, dense: Callable[[str], Mask]) -> Mask:
    """Rows of real tokens side by side, with padding on either side or none: three sequences each, so that nothing is moved. The
    first has the queries in front of real ones and no keys, the second the keys there and no queries, the third what is real."""
    batch, keys = real.shape
    count = real.sum(1)
    start = torch.where(count > 0, real.byte().argmax(1), keys)
    end = start + count
    at = torch.arange(keys, device=real.device)
    whole = (real == ((at >= start[:, None]) & (at < end[:, None]))).all()
    nothing_padded, whole = torch.stack((real.all(), whole)).tolist()
    if nothing_padded:
        return kept(keys)
    if not whole:
        return dense("padding lies between real tokens")
    row = torch.arange(batch, device=real.device)
    from_query, to_query = ((x - first).clamp(0, q_length) + row * q_length for x in (start, end))
    of_q = torch.stack((from_query, from_query, to_query), 1).flatten()
    start, end = start + row * keys, end + row * keys
    of_k = torch.stack((pad(end[:-1], (1, 0)), start, end), 1).flatten()
    of_q = pad(of_q, (0, 1), value=batch * q_length)        # the last queries, which see nothing
    of_q, of_k = (pad(x, (1, 0)).int() for x in (of_q, torch.cat((of_k, of_k[-1:]))))
    return kept(keys, sequences=Sequences(of_q, of_k, q_length, keys))


__all__ = ["Mask", "Sequences", "mask_of"]
