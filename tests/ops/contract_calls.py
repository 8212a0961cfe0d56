"""Calls drawn from contracts: valid ones, of small shapes, any strides and types; and the same with one mistake.

Input: an operator, a generator of random numbers. Output: arguments by name. For example:

    given = drawn(OPERATORS["matmul"], Random(1))       {"a": a tensor, "b": ..., "out_dtype": None}
    for name, wrong in mistakes(OPERATORS["matmul"], given, Random(1)): ...     the name of what is wrong, and the arguments
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch

from mimw.kernels.contract.extents import BROADCAST, Extents, Shape
from mimw.kernels.contract.types import of
from mimw.ops.operator import Operator

# What the schema leaves open, and extents that rules tie down.
OPTIONS = {
    "layer_norm": dict(eps=1e-5, dims=1), "add_layer_norm": dict(eps=1e-5, dims=2), "rms_norm": dict(eps=1e-5, dims=1),
    "add_rms_norm": dict(eps=1e-5, dims=1), "norm_backward": dict(dw=True, db=False, dims=1), "softmax": dict(dim=0),
    "log_softmax": dict(dim=-1), "softmax_backward": dict(dim=-1, log=False, dtype=torch.float32), "topk": dict(k=1),
    "topk_selector": dict(k=2), "moe_align": dict(num_experts=4, block_size=2), "sparse_mla": dict(value_dim=2),
    "mla_decode": dict(value_dim=2),
    "rope": dict(interleaved=False, back=False), "rope_of_two": dict(interleaved=True, back=False),
    "rope_": dict(interleaved=False, back=True), "rope_of_two_": dict(interleaved=False, back=False),
    "cross_entropy": dict(ignored=-100, smoothing=0.0, z=0.0), "cross_entropy_": dict(ignored=-100, smoothing=0.0, z=0.0),
    "linear_sums": dict(cap=2.0, sums=True),
    "linear_cross_entropy": dict(ignored=-100, smoothing=0.0, z=0.0, cap=0.0, mean=True, sums=torch.float32, kept=torch.float32,
                                 of_x=True, of_weight=True, of_bias=False),
    "cross_entropy_backward": dict(ignored=-100, smoothing=0.0, z=0.0),
    "cross_entropy_backward_": dict(ignored=-100, smoothing=0.0, z=0.0), "attention_varlen": dict(max_seqlen_q=3, max_seqlen_k=3),
    "attention_varlen_backward": dict(max_seqlen_q=3, max_seqlen_k=3)}
EXTENTS = {
    "moe_scaled": dict(inner=128, hidden=144, experts=2), "attention": dict(heads=4, kv_heads=2),
    "attention_with": dict(heads=4, kv_heads=2), "attention_mod": dict(heads=4, kv_heads=2),
    "attention_decode": dict(heads=4, kv_heads=2, most_pages=2), "attention_varlen": dict(heads=4, kv_heads=2),
    "mla_decode": dict(kv_heads=1, width=5, cache_width=5, most_pages=2),
    "linear_attention": dict(B=1, H=1, HV=2, ends=2, states=1), "linear_attention_step": dict(H=1, HV=2, N=2, slots=2),
    "linear_attention_backward": dict(B=1, H=1, HV=2, ends=2, states=1),
    "sparse_mla": dict(H=4, HKV=2, W=5), "rope": dict(half=2, dim=5, table=7), "rope_of_two": dict(half=2, dim=5, table=7),
    "rope_": dict(half=2, dim=5, table=7), "rope_of_two_": dict(half=2, dim=5, table=7), "topk": {},
    "simplicial_attention": dict(heads=4, kv_heads=2, seq_q=2, seq_k=3)}
TRIES = 400


def drawn(operator: Operator, random: Random) -> dict:
    """Arguments that the operator's contract takes."""
    for _ in range(TRIES):
        given = _some(operator, random)
        if operator.contract.takes(**given):
            return given
    raise AssertionError(f"{operator.name}: {TRIES} calls were drawn from its contract, and it takes none of them")


def mistakes(operator: Operator, given: dict, random: Random) -> Iterator[tuple[str, dict]]:
    """Name of a tensor, and the call with its rank, its type, its device, or an extent that others have, too, wrong."""
    lines = {line.name: line for line in operator.contract.tensors if given.get(line.name) is not None}
    shared = [name for line in lines.values() for name in _own(line)]
    for name, line in lines.items():
        tensor = given[name]
        if not any(one.group for shape in line.shapes for one in shape.extents):
            yield name, given | {name: tensor.new_zeros((1, ) * 6)}
        if line.words != "any":
            yield name, given | {name: tensor.to(torch.complex64)}
        if len(lines) > 1:
            yield name, given | {name: tensor.to("meta")}
        own = _own(line)
        places = [place for place, one in enumerate(own) if one and shared.count(one) > 1]
        if places and len(tensor.shape) == len(own):
            place = random.choice(places)
            longer = [extent + 1 if at == place else extent for at, extent in enumerate(tensor.shape)]
            yield name, given | {name: tensor.new_zeros(longer)}


def _own(line) -> list[str]:
    """The names of extents that the tensor has itself, "" for others; none where it may have several shapes."""
    if len(line.shapes) > 1:
        return []
    return [one.name if one.is_name and len(one.choices) == 1 else "" for shape in line.shapes for one in shape.extents]


def _some(operator: Operator, random: Random) -> dict:
    contract, known = operator.contract, Extents(**operator.named() | OPTIONS.get(operator.name, {}))
    known.front = tuple(random.randint(1, 2) for _ in range(random.randint(0, 2)))
    for name in sorted({name for line in contract.tensors for shape in line.shapes for name in shape.names} - {"front"}):
        if not hasattr(known, name):
            setattr(known, name, EXTENTS.get(operator.name, {}).get(name, random.randint(1, 4)))
    options = {name: value for name, value in operator.named().items() if name not in {line.name for line in contract.tensors}}
    given = options | OPTIONS.get(operator.name, {})
    for option in contract.options:
        if given.get(option.name) is None and random.random() < 0.5:
            given[option.name] = getattr(torch, random.choice(option.types))
    tensors: dict[str, torch.Tensor] = {}
    for line in sorted(contract.tensors, key=lambda one: one.like is not None):
        if line.optional and random.random() < 0.5:
            continue
        shape = _shape(random.choice(line.shapes), known, random)
        type_ = of(tensors[line.like]) if line.like in tensors else random.choice(line.types or ("float32", "bfloat16"))
        tensors[line.name] = _lying(shape, getattr(torch, type_), random)
    if "score_mod" in options:      # the first element of each table
        tables = [one for name, one in sorted(tensors.items()) if name.startswith("table")]
        read = [f"f{number}[{', '.join('0' * one.dim())}]" for number, one in enumerate(tables)]
        given["score_mod"] = " + ".join(["s", *read])
    return given | {line.name: tensors.get(line.name) for line in contract.tensors}


def _shape(shape: Shape, known: Extents, random: Random) -> list[int]:
    found = []
    for one in shape.extents:
        if one.text == BROADCAST:
            found.extend(known.front if random.random() < 0.7 else ())
        elif one.group:
            value = getattr(known, one.name)
            if not isinstance(value, tuple):
                value = (value, ) * (getattr(known, one.length) if one.length else random.randint(1, 2))
                setattr(known, one.name, value)
            found.extend(value)
        else:
            found.append(known.value(random.choice(one.codes)))
    return found


def _lying(shape: list[int], dtype: torch.dtype, random: Random) -> torch.Tensor:
    """Zeros of this shape: contiguous, transposed, or every second of a longer one."""
    way = random.choice(("contiguous", "transposed", "apart"))
    if way == "transposed" and len(shape) > 1:
        return torch.zeros([*shape[:-2], shape[-1], shape[-2]], dtype=dtype).transpose(-1, -2)
    if way == "apart" and shape:
        return torch.zeros([*shape[:-1], 2 * shape[-1]], dtype=dtype)[..., ::2]
    return torch.zeros(shape, dtype=dtype)
