"""Linear attention by the library's kernels on sm_90: plans of their launches, for a batch or for packed sequences.

Input: tensors like those to come. Output: a plan, or the reason against one. For example:

    if takes("linear_attention", *against(q, v)):
        plan = forward_plan(of, scale)
        o, final = plan(q, k, v, g, beta, initial_state, None, None, ends)      ends: of cu_seqlens, None for a batch

Launches go by a table of chunks and one of spans, which lie on the device. Those of a batch are made with the plan, those of packed
sequences when their numbers are new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mimw.kernels import linear_attention as library
from mimw.kernels import linear_attention_backward as gradients
from mimw.kernels.linear_attention.launches import WIDTHS

from .contract import Extents
from .launching import programs
from .notes import another_chip, in_fp32
from .steps import named

KEPT = 16               # lists of packed sequences whose tables and launches are kept
GIVEN = "q", "k", "v", "g", "beta"
FORWARD = (*GIVEN, "initial", "A_log", "dt_bias")
WHOLE = "initial", "dfinal", "A_log", "dt_bias"         # tensors that have no rows
Ends = tuple[int, ...] | None


def against(q: Tensor, v: Tensor) -> Iterator[str | bool | None]:
    """Reasons against the kernels, in turn, of which some are none."""
    yield from (another_chip(q), in_fp32(q))
    for name, x in (("keys", q), ("values", v)):
        yield x.shape[3] not in WIDTHS and f"{name} have {x.shape[3]} columns, and it takes {' or '.join(map(str, WIDTHS))}"


def forward_plan(of: Extents, scale: float, l2norm: bool = False, making: tuple = ()) -> Callable[..., tuple[Tensor, Tensor]]:
    """The plan (q, k, v, g, beta, initial_state, A_log, dt_bias, ends) -> (o, final); with `l2norm` of q and k divided by their
    norms; `making` has what `library.Raw` takes behind dt_bias."""

    def made(ends: Ends, *given: Tensor | None) -> Callable[..., tuple[Tensor, Tensor]]:
        tables = _tables(given[0], given[2], ends).map(_to(given[0]))

        def arrays_of(*given: Tensor | None) -> dict[str, Any]:
            q, k, v, g, beta, *_ = given
            work = library.workspace(k, v, g, beta, tables, _empty_on(q), l2norm=l2norm)
            return dict(zip(FORWARD, given), o=torch.empty_like(v), final=_states(of, q), work=work)

        arrays = arrays_of(*map(_like, given))
        raw = library.Raw(arrays["A_log"], arrays["dt_bias"], *making)
        launches = library.forward(*(arrays[name] for name in GIVEN), tables, arrays["work"], scale, o=arrays["o"],
                                   initial=arrays["initial"], final=arrays["final"], l2norm=l2norm, raw=raw)
        launch = named(given[0], _flat(arrays, tables), launches)

        def run(*given: Tensor | None) -> tuple[Tensor, Tensor]:
            arrays = arrays_of(*given)
            launch(_flat(arrays, tables))
            return arrays["o"], arrays["final"]

        return run

    return _by_ends(of.T, FORWARD, made)


def backward_plan(of: Extents, scale: float) -> Callable[..., tuple[Tensor | None, ...]]:
    """The plan (do, dfinal, q, k, v, g, beta, initial_state, ends) -> (dq, dk, dv, dg, dbeta, dinitial), None of what is not there.
    What the forward pass had is computed anew: new values and the states before each chunk."""

    def made(ends: Ends, *given: Tensor | None) -> Callable[..., tuple[Tensor | None, ...]]:
        _, _, q, _, v, *_ = given
        on_host = _tables(q, v, ends)
        tables, back, chunks = on_host.map(_to(q)), gradients.tables(on_host).map(_to(q)), on_host.chunks.shape[0]

        def arrays_of(*given: Tensor | None) -> dict[str, Any]:
            do, dfinal, q, k, v, g, beta, initial = given
            empty = _empty_on(q)
            arrays = dict(zip(("do", "dfinal", *GIVEN, "initial"), given))
            work = library.workspace(k, v, g, beta, tables, empty)
            arrays |= dict(work=work, new=torch.empty_like(v), states=empty((chunks, *v.shape[2:], q.shape[3]), None))
            arrays |= {f"d{name}": None if one is None else torch.empty_like(one) for name, one in zip(GIVEN, (q, k, v, g, beta))}
            arrays["dinitial"] = _states(of, q)
            given = gradients.Given(q, k, v, g, beta, arrays["new"], arrays["states"], do)
            return arrays | dict(given=given, back=gradients.workspace(given, back, empty, work))

        arrays = arrays_of(*map(_like, given))
        work, results = arrays["work"], gradients.Results(*(arrays[f"d{name}"] for name in GIVEN))
        launches = library.forward(*(arrays[name] for name in GIVEN), tables, work, scale, new=arrays["new"],
                                   states=arrays["states"], initial=arrays["initial"])
        launches += gradients.launches(arrays["given"], arrays["back"], results, back, work, arrays["dfinal"], arrays["dinitial"],
                                       scale, programs(q))
        launch = named(q, _flat(arrays, tables, back), launches)

        def run(*given: Tensor | None) -> tuple[Tensor | None, ...]:
            arrays = arrays_of(*given)
            launch(_flat(arrays, tables, back))
            return *(arrays[f"d{name}"] for name in GIVEN), arrays["dinitial"]

        return run

    return _by_ends(of.T, ("do", "dfinal", *GIVEN, "initial"), made)


def _by_ends(rows: int, names: tuple[str, ...], made: Callable[..., Callable]) -> Callable:
    """A plan for tensors of these names, then ends, whose launches are made for each list of ends, and kept for the last few. Rows
    in no sequence are not looked at, and are 0 in results, of which the last one is of states."""
    kept: OrderedDict[Ends, Callable] = OrderedDict()

    def plan(*given: Any) -> tuple[Tensor | None, ...]:
        *given, ends = given
        some = ends is not None and ends[-1] < rows
        if some:
            given = [one if one is None or name in WHOLE else one[:, :ends[-1]] for name, one in zip(names, given)]
        ready = [_ready(one) for one in given]
        run = kept.get(ends)
        if run is None:
            run = kept[ends] = made(ends, *ready)
            while len(kept) > KEPT:
                kept.popitem(last=False)
        *found, states = run(*ready)
        kept.move_to_end(ends)
        return *(map(partial(_whole, rows), found) if some else found), states

    return plan


def _whole(rows: int, part: Tensor | None) -> Tensor | None:
    """The tensor with as many rows as there are, 0 behind its own."""
    if part is None:
        return None
    whole = part.new_zeros((part.shape[0], rows, *part.shape[2:]))
    whole[:, :part.shape[1]] = part
    return whole


def _tables(q: Tensor, v: Tensor, ends: Ends) -> library.Tables:
    """The tables of a call, as numpy: as many parts of each sequence as fill the GPU."""
    batch, rows, heads, columns = v.shape
    longest = rows if ends is None else max(other - one for one, other in zip(ends, ends[1:]))
    parts = library.parts_for(batch if ends is None else len(ends) - 1, longest, heads, columns, programs(q), q.shape[3])
    return library.tables(batch, rows if ends is None else ends[-1], ends, parts)


def _to(on: Tensor) -> Callable[[Any], Tensor]:
    """Numpy to where a tensor is."""
    return lambda one: torch.from_numpy(one).to(on.device)


def _flat(arrays: Mapping[str, Any], *tables: library.Tables | gradients.Tables) -> dict[str, Tensor | None]:
    """The arrays by name, also those of named tuples, and of tables; of several names for one memory the last counts."""
    found: dict[str, Tensor | None] = {}
    for name, one in (*arrays.items(), *((f"table{at}", one) for at, one in enumerate(tables))):
        if isinstance(one, tuple):
            found |= {f"{name}.{field}": array for field, array in zip(one._fields, one)}
        else:
            found[name] = one
    return found


def _empty_on(on: Tensor) -> Callable[..., Tensor]:
    return lambda shape, kind: on.new_empty(shape, dtype=torch.float32 if kind else on.dtype)


def _states(of: Extents, on: Tensor) -> Tensor:
    return on.new_empty((of.sequences, of.HV, of.K, of.V), dtype=torch.float32)


def _like(one: Tensor | None) -> Tensor | None:
    """Memory of its own, since a call may give one tensor twice."""
    return None if one is None else torch.empty_like(one)


def _ready(one: Tensor | None) -> Tensor | None:
    """Contiguous and aligned."""
    if one is None:
        return None
    one = one.contiguous()
    return one if one.data_ptr() % 16 == 0 else one.clone()


__all__ = ["against", "backward_plan", "forward_plan"]
