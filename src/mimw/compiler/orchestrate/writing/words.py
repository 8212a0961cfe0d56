"""Words of TLX and TLE on buffers, barriers, copies and clusters as text.

Input: an op. Output: its text, or a line. For example:

    buffer_slice %b, [0, 0], [64, 64]               tlx.local_slice(b, [0, 0], [64, 64])
    tma_fetch %desc, [%m, %k], %slot                tle.gpu.copy(desc, slot, [128, 64], [m, k])
    barrier_wait %full, %phase, %predicate          tlx.barrier_wait(full, phase, pred=predicate)
"""

from __future__ import annotations

from typing import Any

from ....ir import Op, Value
from ....ir.types import element_of
from .descriptors import offsets
from .memory import beside_pointer, given, hints
from .rows import EXPRESSIONS, STATEMENTS, expression, statement, unwritten
from .signs import allocated
from .texts import ATOM, Text, has_sign, listed, literal, reads_as, shape_of, type_name

_CALLS = {      # op: word, operands by position, operands by keyword
    "barrier_wait": ("tlx.barrier_wait", "barrier phase", {"pred": "predicate"}),
    "barrier_expect": ("tlx.barrier_expect_bytes", "barrier bytes", {"pred": "predicate"}),
    "barrier_arrive": ("tlx.barrier_arrive", "barrier count", {"pred": "predicate"}),
    "remote_arrive": ("tlx.barrier_arrive", "barrier count rank", {"pred": "predicate"}),
    "named_barrier_wait": ("tlx.named_barrier_wait", "barrier threads", {}),
    "named_barrier_arrive": ("tlx.named_barrier_arrive", "barrier threads", {}),
    "cluster_barrier": ("tlx.cluster_barrier", "", {}),
    "fence_mbarrier_init": ("tlx.fence_mbarrier_init_cluster", "", {}),
    "fence": ("tlx.fence", "scope", {}),
    "tma_store_wait": ("tlx.async_descriptor_store_wait", "pending", {}),
    "async_remote_copy": ("tlx.async_remote_shmem_copy", "buffer source rank barrier", {}),
    "barrier": ("tl.debug_barrier", "", {}),
    "prefetch": ("tlx.prefetch", "pointer level", {"mask": "mask"}),
}
_VALUES = {
    "barrier_test": ("tlx.barrier_try_wait", "barrier phase", {}),
    "remote_view": ("tlx.remote_view", "barrier rank", {}),
    "cluster_cta_rank": ("tlx.cluster_cta_rank", "", {}),
    "cluster_size_1d": ("tlx.cluster_size_1d", "", {}),
    "thread_id": ("tlx.thread_id", "axis", {}),
    "descriptor_slots": ("tlx.allocate_tensor_descriptor", "count", {}),
    "local_gather": ("tlx.local_gather", "buffer indices axis", {"token": "token"}),
}
_LANES = 32     # of a warp, by which `alloc_warp_barrier` counts
_SIGNED = ("cluster_cta_rank", "cluster_size_1d", "thread_id", "local_gather")


def plain(op: Op, *known: str) -> None:
    """Refuse an op with attributes that no word gives it."""
    more = [name for name, given_ in op.attrs.items() if given_ not in (None, False) and name not in known]
    if more:
        raise unwritten(op, f"it has {', '.join(map(str, more))}")


def argument(w, op: Op, arg: Any) -> str:
    """An argument of a word: a value, a number, a text, or some of them."""
    if isinstance(arg, Value):
        return scalar(w, arg)
    if isinstance(arg, tuple):
        return "[" + ", ".join(argument(w, op, one) for one in arg) + "]"
    return f'"{arg}"' if isinstance(arg, str) else repr(arg)


def scalar(w, value: Value) -> str:
    """A value, of which a word makes an i32 scalar if it is a number."""
    number = w.constant(value)
    if number is not None and reads_as(number.value, number.type):
        return literal(number.value, number.type)
    return w.code(value)


def call(w, op: Op, word: str, places: str, keywords: dict[str, str]) -> str:
    args = [argument(w, op, getattr(op, name)) for name in places.split()]
    args += [f"{keyword}={argument(w, op, getattr(op, name))}" for keyword, name in keywords.items()
             if getattr(op, name) is not None]
    return f"{word}({', '.join(args)})"


def _add() -> None:
    for name, rule in _CALLS.items():
        def write(w, op: Op, rule=rule) -> None:
            plain(op)
            if "chunk" in op.row.places and op.chunk is not None:
                raise unwritten(op, "a pipe made it")
            w.line(call(w, op, *rule), w.note(op))
        STATEMENTS[name] = write
    for name, rule in _VALUES.items():
        def give(w, op: Op, rule=rule) -> Text:
            plain(op)
            return Text(call(w, op, *rule), ATOM, True if op.name in _SIGNED else None)
        EXPRESSIONS[name] = give


_add()


@expression("alloc_barriers")
def _barriers(w, op: Op) -> Text:
    plain(op, "per_thread")
    if not op.attrs.get("per_thread"):
        more = "" if op.arrive_count == 1 else f", arrive_count={op.arrive_count}"
        return Text(f"tlx.alloc_barriers({op.count}{more})")
    if op.arrive_count % _LANES:
        raise unwritten(op, f"{op.arrive_count} arrivals are not those of whole warps")
    return Text(f"tlx.alloc_warp_barrier({op.count}, num_warps={op.arrive_count // _LANES})")


# ---- buffers -------------------------------------------------------------------------------------------------------------

def element_sign(w, buffer: Value) -> bool:
    """The sign of a buffer's integers: that of the descriptors by which it is filled and emptied."""
    return w.buffer_signs.get(allocated(w.program, buffer), True)


@expression("local_alloc")
def _alloc(w, op: Op) -> Text:
    plain(op, "plain")
    type_ = op.type
    element = type_name(type_.element, element_sign(w, op.result))
    if not type_.count:
        if op.reuse is not None or type_.space != "smem":
            raise unwritten(op, "a single buffer that shares memory, or is elsewhere")
        more = ", nv_mma_shared_layout=False" if op.attrs.get("plain") else ""
        return Text(f"tle.gpu.alloc({listed(type_.shape)}, {element}{more})")
    plain(op)
    if type_.space not in ("smem", "tmem"):
        raise unwritten(op, f"in {type_.space}")
    more = ", tlx.storage_kind.tmem" if type_.space == "tmem" else ""
    more += "" if op.reuse is None else f", reuse={w.code(op.reuse)}"
    return Text(f"tlx.local_alloc({_tuple(type_.shape)}, {element}, {type_.count}{more})")


def _tuple(shape: tuple[int, ...]) -> str:
    return f"({shape[0]}, )" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


@expression("buffer_index barrier_index")
def _one(w, op: Op) -> Text:
    array = op.buffer if op.name == "buffer_index" else op.barrier
    plain(op)
    return Text(f"{w.code(array, ATOM)}[{argument(w, op, op.index)}]")


@expression("descriptor_slot")
def _one_slot(w, op: Op) -> Text:
    return Text(f"{w.code(op.slots, ATOM)}[{argument(w, op, op.index)}]")


@expression("buffer_slice")
def _slice(w, op: Op) -> Text:
    return Text(f"tlx.local_slice({w.code(op.buffer)}, {argument(w, op, tuple(op.offsets))}, {listed(tuple(op.shape))})")


@expression("buffer_trans")
def _turned(w, op: Op) -> Text:
    dims = "" if tuple(op.order) == (1, 0) else f", {_tuple(tuple(op.order))}"
    return Text(f"tlx.local_trans({w.code(op.buffer)}{dims})")


@expression("buffer_reinterpret")
def _retyped(w, op: Op) -> Text:
    plain(op)
    made, had = op.type, op.buffer.type
    if made.space != "smem" or made.count not in (0, had.count):
        raise unwritten(op, "it changes the number of buffers")
    shape = "" if made.shape == had.shape else f", {listed(made.shape)}"
    return Text(f"tlx.local_reinterpret({w.code(op.buffer)}, {type_name(made.element, element_sign(w, op.result))}{shape})")


@expression("local_load")
def _read(w, op: Op) -> Text:
    plain(op)
    if op.mask is not None:
        raise unwritten(op, "it has a mask")
    token = "" if op.token is None else f", {w.code(op.token)}"
    sign = element_sign(w, op.buffer) if has_sign(op.result.type) else None
    return Text(f"tlx.local_load({w.code(op.buffer)}{token})", ATOM, sign)


@statement("local_store")
def _write(w, op: Op) -> None:
    plain(op)
    if op.mask is not None:
        raise unwritten(op, "it has a mask")
    sign = element_sign(w, op.buffer) if has_sign(op.value.type) else None
    value = w.with_sign(w.typed(op.value), op.value.type, sign)
    w.line(f"tlx.local_store({w.code(op.buffer)}, {value.code})", w.note(op))


@statement("remote_store async_remote_store")
def _store_there(w, op: Op) -> None:
    """The word takes a tile of the buffer's shape, and flattens it."""
    flat, shape = w.inlining.inlined(op.value), op.buffer.type.shape
    value = flat.value if flat is not None and flat.name == "reshape" else op.value
    if shape_of(value.type) != shape:
        raise unwritten(op, "its tile does not have the buffer's shape")
    text = w.with_sign(w.typed(value), value.type, element_sign(w, op.buffer) if has_sign(value.type) else None)
    word, more = ("tlx.remote_shmem_store", "") if op.name == "remote_store" else \
        ("tlx.async_remote_shmem_store", f", {w.code(op.barrier)}")
    w.line(f"{word}({w.code(op.buffer)}, {text.code}, {argument(w, op, op.rank)}{more})", w.note(op))


@statement("prefetch_descriptor")
def _soon(w, op: Op) -> None:
    w.line(f"tlx.prefetch({w.code(op.descriptor)}, tensormap=True)")


@statement("local_scatter")
def _scatter(w, op: Op) -> None:
    sign = element_sign(w, op.buffer) if has_sign(op.value.type) else None
    value, token = w.with_sign(w.typed(op.value), op.value.type, sign), "" if op.token is None else f", {w.code(op.token)}"
    w.line(f"tlx.local_scatter({w.code(op.buffer)}, {value.code}, {w.code(op.indices)}, {op.axis}{token})", w.note(op))


@expression("local_ptr")
def _pointers(w, op: Op) -> Text:
    buffer = op.buffer.type
    if tuple(op.shape) != buffer.shape or op.pointee != buffer.element or buffer.count:
        raise unwritten(op, "the buffer is padded")
    at = "" if op.indices is None else f", {argument(w, op, tuple(op.indices))}"
    return Text(f"tle.gpu.local_ptr({w.code(op.buffer)}{at})", ATOM, element_sign(w, op.buffer))


# ---- copies --------------------------------------------------------------------------------------------------------------

def source(w, op: Op) -> str:
    """The pointers of a copy into a buffer, to elements of the sign that the buffer's have."""
    text, element = w.text(op.pointer), element_of(op.pointer.type)
    signed = element_sign(w, op.buffer)
    if element.space != "global" or not has_sign(element.pointee) or text.signed is signed:
        return text.code
    return f"{text.inside(ATOM)}.to({type_name(element, signed)})"


@statement("async_load async_commit async_wait")
def _copy_in(w, op: Op) -> None:
    if op.attrs.get("of_copy"):
        _copy_at_once(w, op)
        return
    plain(op)
    if op.name == "async_commit":
        code = f"tlx.async_load_commit_group({argument(w, op, tuple(op.tokens)) if op.tokens else ''})"
    elif op.name == "async_wait":
        code = f"tlx.async_load_wait_group({op.pending}{', ' + argument(w, op, tuple(op.tokens)) if op.tokens else ''})"
    else:
        mask = "" if op.mask is None else f", mask={w.code(beside_pointer(w, op.pointer, op.mask))}"
        other = "" if op.other is None else f", other={given(w, op.other).code}"
        volatile = ", is_volatile=True" if op.is_volatile else ""
        code = f"tlx.async_load({source(w, op)}, {w.code(op.buffer)}{mask}{other}{hints(op)}{volatile})"
    if op.result in w.live:
        w.bind(op.result, Text(code), "token", w.note(op))
    else:
        w.line(code, w.note(op))


def _copy_at_once(w, op: Op) -> None:
    """A copy by pointers that is there when the word is over: one word for the copy, its group and the wait."""
    if op.name != "async_load":
        return
    if op.mask is not None or op.other is not None or hints(op):
        raise unwritten(op, "the copy is not of a whole tile")
    w.line(f"tle.gpu.copy({source(w, op)}, {w.code(op.buffer)}, {listed(op.buffer.type.shape)})", w.note(op))


@expression("bulk_load")
def _bulk_in(w, op: Op) -> Text:
    size = f", bulk_size={argument(w, op, op.bytes)}"
    return Text(f"tlx.async_load({w.code(op.pointer)}, {w.code(op.buffer)}, bulk=True{size}, barrier={w.code(op.barrier)}"
                f"{hints(op)})")


@statement("bulk_store")
def _bulk_out(w, op: Op) -> None:
    w.line(f"tlx.async_store({w.code(op.pointer)}, {w.code(op.buffer)}, {argument(w, op, op.bytes)}{_eviction(op)})", w.note(op))


@statement("tma_fetch")
def _fetch(w, op: Op) -> None:
    plain(op)
    shape = listed(shape_of(op.buffer.type) or op.buffer.type.shape)
    at = offsets(w, op.offsets)
    w.line(f"tle.gpu.copy({w.code(op.descriptor)}, {w.code(op.buffer)}, {shape}, {at}{_eviction(op)})", w.note(op))


@statement("tma_load")
def _load(w, op: Op) -> None:
    more = "" if op.predicate is None else f", pred={w.code(op.predicate)}"
    w.line(f"tlx.async_descriptor_load({w.code(op.descriptor)}, {w.code(op.buffer)}, {offsets(w, op.offsets)}, "
           f"{w.code(op.barrier)}{more}{hints(op)})", w.note(op))


@statement("tma_load_multicast")
def _load_for_all(w, op: Op) -> None:
    more = "" if op.predicate is None else f", pred={w.code(op.predicate)}"
    ranks = argument(w, op, tuple(getattr(op, op.row.peers)))
    w.line(f"tlx.async_descriptor_load({w.code(op.descriptor)}, {w.code(op.buffer)}, {offsets(w, op.offsets)}, "
           f"{w.code(op.barrier)}{more}, multicast_targets={ranks}{hints(op)})", w.note(op))


@statement("tma_store")
def _copy_out(w, op: Op) -> None:
    more = _eviction(op) + (f', store_reduce="{op.reduce}"' if op.reduce else "")
    at = offsets(w, op.offsets)
    w.line(f"tlx.async_descriptor_store({w.code(op.descriptor)}, {w.code(op.buffer)}, {at}{more})", w.note(op))


def _eviction(op: Op) -> str:
    found = hints(op)
    if "cache_modifier" in found:
        raise unwritten(op, "it has a cache modifier")
    return found
