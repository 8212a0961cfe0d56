"""What each op is: one row per op. This table is the language of the waist; every reader of the IR goes by it.

A row gives the op's parameters in order, its *type rule* (argument list and attributes -> result types), its *layout rule*
and its *effects*. The layout rules, which `constraints` implements:

    none       no tile is touched, or any layout will do for every operand
    free       makes a tile in whatever layout is asked for
    same       every tile operand and result is in one layout (`broadcast`: of the result's shape)
    memory     as `same`, and the layout is chosen so that global accesses coalesce
    expand     the operand is the result's layout with the new axis sliced away
    reduce     the result is the operand's layout with the axis sliced away
    inferred   operands in their shape's default; Triton derives the result's layout, which is then made the default
    dot        `tl.dot`: operands as dot operands of the accumulator's layout
    mma        `async_dot`: tensor-core accumulator in and out; a register A operand as its dot operand
    run        flat tiles, all in one layout: `attrs["run"]` neighbouring elements in one thread, then in the next thread
    once       flat tiles: one element a thread, a round of all threads after the other
    linear     the operand is flat: neighbouring elements in one thread, then in the next thread
    pin        what the author says about the layout of a tile: fix it, free it, compare it, show it
    mma_wait   the result of an asynchronous dot: same layout in and out, no conversion before it

Effects: `pure` may be dropped when unused; `read` and `write` touch memory; `sync` orders tasks (`sync wait`: it acquires
only, so it tells nobody what the task has done); `async` starts something that finishes later; `control` has regions or ends
one; `debug` prints or asserts.

`touches` says how an op accesses memory, an entry for each operand: `buffer=read` or `buffer=write` through the generic
proxy, `buffer=async-read` or `buffer=async-write` through the asynchronous one (PTX ISA, "Proxies"; docs/MEMORY_MODEL.md,
rule 17). A buffer is shared memory, a pointer or a descriptor global memory. `peer-read` and `peer-write` are generic accesses
to another CTA's shared memory. `releases` says that an op may let another task or CTA go on, with what its task did before.

`blocks` says for what an op may wait without end, if others do not do their part: an mbarrier's phase ("barrier"), a
"named barrier", the "cluster" barrier, a "meeting" of other CTAs, memory that somebody else writes ("poll"), the kernel
"before" it in the stream. A watchdog's stamps stand around these ops (passes/stamp_waits.py).

Ops named as one of Triton's `create_*` methods, less the prefix, take that method's arguments in that order, so both
readers (the compiler's replay and the simulator) can pass them on as they are. Ops marked `ours` are the orchestration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from .types import (
    I1,
    I32,
    I64,
    TOKEN,
    Barrier,
    Buffer,
    Descriptor,
    DescriptorSlots,
    Pointer,
    Storage,
    Tensor,
    Type,
    element_of,
    like,
)

TypeRule = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Type, ...]]


@dataclass(frozen=True)
class OpDef:
    """One row of the table."""

    name: str
    params: tuple[str, ...]
    results: TypeRule
    layout: str
    effects: frozenset[str]
    ours: bool = False
    doc: str = ""
    touches: tuple[tuple[str, str], ...] = ()
    releases: bool = False
    blocks: str = ""


OPS: dict[str, OpDef] = {}


def _define(names: str, params: str, results: TypeRule | None, layout: str, effects: str, *, ours=False, doc="", touches="",
            releases=False, blocks: dict[str, str] | str = "") -> None:
    accesses = tuple(tuple(entry.split("=")) for entry in touches.split())
    for name in names.split():
        OPS[name] = OpDef(name, tuple(params.split()), results or (lambda args, attrs: ()), layout,
                          frozenset(effects.split()), ours, doc, accesses, releases,
                          blocks if isinstance(blocks, str) else blocks.get(name, ""))


# ---- type rules ------------------------------------------------------------------------------------------------------

def _as(index: int) -> TypeRule:
    return lambda args, attrs: (args[index].type, )


def _given(index: int) -> TypeRule:
    return lambda args, attrs: (args[index], )


def _scalar(type_: Type) -> TypeRule:
    return lambda args, attrs: (type_, )


def _bool_like(args, attrs):
    return (like(args[0].type, I1), )


def _pointee(index: int) -> TypeRule:
    return lambda args, attrs: (like(args[index].type, element_of(args[index].type).pointee), )


def _expanded(args, attrs):
    shape = list(args[0].type.shape)
    axis = args[1] + len(shape) + 1 if args[1] < 0 else args[1]
    return (Tensor(args[0].type.element, (*shape[:axis], 1, *shape[axis:])), )


def _reshaped(args, attrs):
    return (Tensor(element_of(args[0].type), tuple(args[1])), )


def _transposed(args, attrs):
    return (Tensor(args[0].type.element, tuple(args[0].type.shape[i] for i in args[1])), )


def _joined(args, attrs):
    first = args[0].type
    return (Tensor(element_of(first), (*getattr(first, "shape", ()), 2)), )


def _split(args, attrs):
    source = args[0].type
    half = Tensor(source.element, source.shape[:-1]) if len(source.shape) > 1 else source.element
    return half, half


def _concatenated(args, attrs):
    return (Tensor(args[0].type.element, (args[0].type.shape[0] + args[1].type.shape[0], )), )


def _without_axis(type_: Tensor, axis: int) -> Type:
    shape = tuple(extent for i, extent in enumerate(type_.shape) if i != axis)
    return Tensor(type_.element, shape) if shape else type_.element


def _reduced(args, attrs):
    return tuple(_without_axis(value.type, args[1]) for value in args[0])


def _scanned(args, attrs):
    return tuple(value.type for value in args[0])


def _mapped(args, attrs):
    return tuple(like(args[0][0].type, element) for element in args[1])


def _gathered(args, attrs):
    return (Tensor(args[0].type.element, args[1].type.shape), )


def _described(args, attrs):
    return (Tensor(args[0].type.element, args[0].type.shape), )


def _gathered_rows(args, attrs):
    return (args[3], )


def _pointed(args, attrs):
    buffer, indices, shape, pointee = args
    pointer = Pointer(pointee, "shared")
    if indices is None:
        return (Tensor(pointer, tuple(shape)) if shape else pointer, )
    return (like(indices[0].type, pointer) if indices else pointer, )


def _listed(index: int) -> TypeRule:
    return lambda args, attrs: tuple(args[index])


def _values(index: int) -> TypeRule:
    return lambda args, attrs: tuple(value.type for value in args[index])


def _dot(args, attrs):
    return (args[2].type, )


# ---- Triton's ops ----------------------------------------------------------------------------------------------------

_define("constant", "value type", _given(1), "free", "pure", doc="A number, or a tile filled with it.")
_define("poison", "type", _given(0), "free", "pure", doc="A value nobody may use.")
_define("get_program_id get_num_programs", "axis", _scalar(I32), "none", "pure")

_define("add sub mul sdiv udiv srem urem shl lshr ashr and or xor umulhi minsi minui maxsi maxui "
        "fadd fsub fmul fdiv frem precise_divf approx_divf minimumf minnumf maximumf maxnumf addptr",
        "lhs rhs", _as(0), "same", "pure")
_define("icmpSLE icmpSLT icmpSGE icmpSGT icmpULE icmpULT icmpUGE icmpUGT icmpEQ icmpNE "
        "fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE",
        "lhs rhs", _bool_like, "same", "pure")
_define("fneg fabs iabs ceil floor exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf", "value", _as(0), "same", "pure")
_define("fma", "x y z", _as(0), "same", "pure")
_define("clampf", "value low high propagate_nan", _as(0), "same", "pure")
_define("select", "condition if_true if_false", _as(1), "same", "pure")
_define("int_cast", "value type signed", _given(1), "same", "pure")
_define("si_to_fp ui_to_fp fp_to_si fp_to_ui fp_ext fp_trunc bitcast int_to_ptr ptr_to_int", "value type", _given(1),
        "same", "pure")
_define("fp_to_fp", "value type rounding", _given(1), "same", "pure")
_define("extern_elementwise", "library path symbol values type is_pure", _given(4), "same", "write")
_define("inline_asm", "assembly constraints values types is_pure pack", _listed(3), "same", "write")

_define("make_range", "type start end", _given(0), "free", "pure")
_define("splat", "type value", _given(0), "free", "pure")
_define("unsplat", "value", lambda args, attrs: (args[0].type.element, ), "none", "pure")
_define("broadcast", "value type", lambda args, attrs: (
    args[1] if isinstance(args[1], Type) else Tensor(args[0].type.element, tuple(args[1])), ), "same", "pure")
_define("expand_dims", "value axis", _expanded, "expand", "pure")
_define("reshape", "value shape can_reorder", _reshaped, "inferred", "pure")
_define("trans", "value order", _transposed, "inferred", "pure")
_define("join", "lhs rhs", _joined, "inferred", "pure")
_define("split", "value", _split, "inferred", "pure")
_define("cat", "lhs rhs", _concatenated, "inferred", "pure")
_define("gather", "source indices axis", _gathered, "inferred", "pure")
_define("histogram", "value bins mask", lambda args, attrs: (Tensor(I32, (args[1], )), ), "inferred", "pure")
_define("reduce", "values axis", _reduced, "reduce", "pure control")
_define("scan", "values axis reverse", _scanned, "same", "pure control")
_define("map_elementwise", "values types pack", _mapped, "same", "pure control")

_define("load", "pointer cache_policy is_volatile", _pointee(0), "memory", "read", touches="pointer=read")
_define("masked_load", "pointer mask other cache_policy is_volatile", _pointee(0), "memory", "read", touches="pointer=read")
_define("store", "pointer value cache_policy", None, "memory", "write", touches="pointer=write")
_define("masked_store", "pointer value mask cache_policy", None, "memory", "write", touches="pointer=write")
_define("atomic_rmw", "kind pointer value mask order scope", _as(2), "memory", "read write",
        touches="pointer=write", releases=True)
_define("atomic_cas", "pointer compare value order scope", _as(2), "memory", "read write",
        touches="pointer=write", releases=True)
_define("atomic_load", "pointer mask order scope", _pointee(0), "memory", "read", touches="pointer=read")
_define("atomic_store", "pointer value mask order scope", None, "memory", "write", touches="pointer=write", releases=True)
_define("atomic_poll", "pointer expected timeout order scope", _bool_like, "memory", "read", touches="pointer=read",
        blocks="poll")

_define("make_tensor_descriptor", "base shape strides block signed padding",
        lambda args, attrs: (Descriptor(args[0].type.pointee, tuple(args[3]), args[4]), ), "none", "write")
_define("descriptor_load", "descriptor offsets cache_policy", _described, "free", "read", touches="descriptor=async-read")
_define("descriptor_store", "descriptor value offsets", None, "none", "write", touches="descriptor=async-write")
_define("descriptor_reduce", "kind descriptor value offsets", None, "none", "write", touches="descriptor=async-write")
_define("descriptor_gather", "descriptor rows column type", _gathered_rows, "free", "read", touches="descriptor=async-read")
_define("descriptor_scatter", "descriptor value rows column", None, "none", "write", touches="descriptor=async-write")

_define("dot", "a b acc precision max_imprecise", _dot, "dot", "pure")
_define("dot_scaled", "a a_scale a_format b b_scale b_format fast_math a_k_pack b_k_pack acc",
        lambda args, attrs: (args[9].type, ), "dot", "pure")

_define("barrier grid_dependency_wait grid_dependency_launch_dependents", "", None, "none", "sync",
        blocks={"grid_dependency_wait": "before"})
_define("print", "prefix hex values signed", None, "none", "debug")
_define("assert", "condition message", None, "none", "debug")
_define("assume", "condition", None, "none", "debug")
_define("hint", "value attribute numbers", None, "none", "debug", doc="A fact about the value that Triton's axis analysis uses.")

_define("if", "condition types", _listed(1), "same", "control", doc="Blocks: then, else. Attrs: none.")
_define("for", "start end step inits", _values(3), "same", "control",
        doc="Block arguments: the induction variable, then one per carried value.")
_define("while", "inits", _values(0), "same", "control", doc="Blocks: before (ends in `condition`), after (ends in `yield`).")
_define("condition", "condition values", None, "none", "control")
_define("yield", "values", None, "none", "control")

# ---- orchestration: what the tasks are, where tiles live, who waits for what -----------------------------------------

_define("warp_specialize", "", lambda args, attrs: attrs.get("types", ()), "none", "control sync", ours=True,
        doc="attrs: tasks, one `Task` a block; block 0 is the default task, whose `yield` gives the results, of the `types`. All "
        "start together; the op ends when all have ended. shares_captures: tiles from outside may be used "
        "(`passes.share_captures`).", releases=True)

_define("alias_storage", "space limit", lambda args, attrs: (Storage(*args), ), "none", "write", ours=True,
        doc="Memory for buffer arrays to share. attrs: bytes and alignment, once `place_aliases` has run.")
_define("alias_overlap", "storage buffers", None, "none", "write", ours=True,
        doc="Which buffers overlay. attrs: tree, (kind, group size, children) with indices into `buffers` as leaves.")
_define("local_alloc", "type reuse", _given(0), "none", "write", ours=True,
        doc="A buffer array, uninitialised, in memory of its own or in `reuse`, a storage or another buffer. attrs: layout "
        "(pinned by the author, or None); place (where in the storage), once `place_aliases` has run.")
_define("buffer_index", "buffer index", lambda args, attrs: (
    args[0].type.single() if args[0].type.count else Buffer(
        args[0].type.element, args[0].type.shape[1:] or (1, ), 0, args[0].type.space), ), "none", "pure", ours=True,
        doc="One buffer of an array, or one slice along the leading dimension of a single buffer.")
_define("buffer_slice", "buffer offsets shape", lambda args, attrs: (
    Buffer(args[0].type.element, tuple(args[2]), 0, args[0].type.space), ), "none", "pure", ours=True,
        doc="A box of a single buffer; offsets are ints or i32 values.")
_define("buffer_trans", "buffer order", lambda args, attrs: (
    Buffer(args[0].type.element, tuple(args[0].type.shape[i] for i in args[1]), 0, args[0].type.space), ), "none", "pure",
        ours=True, doc="A permuted view of a single buffer.")
_define("buffer_reinterpret", "buffer type", _given(1), "none", "pure", ours=True,
        doc="The same bytes as another type. An array keeps its number of buffers, or becomes one buffer. attrs: layout (pinned by "
        "the author, or None).")
_define("buffer_flat", "buffer", lambda args, attrs: (
    Buffer(args[0].type.element, (prod(args[0].type.shape) * max(1, args[0].type.count), ), 0, args[0].type.space), ), "none",
        "pure", ours=True, doc="All elements of a buffer or array in row-major order, wherever they lie; for picked elements only.")
_define("local_ptr", "buffer indices shape pointee", _pointed, "same", "pure", ours=True,
        doc="Pointers to elements of a buffer of the logical `shape`, as `indices` say, one per dimension (None: to all of them). "
        "Gone once `shared_pointers` has run.")
_define("local_load", "buffer token mask", lambda args, attrs: (Tensor(args[0].type.element, args[0].type.shape), ), "free",
        "read", ours=True, doc="A buffer into registers; with a mask, the elements where it is true: the others are not read.",
        touches="buffer=read")
_define("local_gather", "buffer indices axis token mask", lambda args, attrs: (
    Tensor(args[0].type.element, args[1].type.shape), ), "same", "read", ours=True,
        doc="result[i0, ..] = buffer[i0, .., indices[i0, ..] along axis, ..]; mask: as for local_load.", touches="buffer=read")
_define("local_scatter", "buffer value indices axis token", None, "same", "write", ours=True,
        doc="buffer[i0, .., indices[i0, ..] along axis, ..] = value[i0, ..], through the generic proxy.",
        touches="buffer=write")
_define("local_masked_scatter", "buffer value indices mask", None, "once", "write", ours=True,
        doc="buffer[indices[i]] = value[i] where mask[i]; the buffer is flat, so are the tiles.", touches="buffer=write")
_define("local_atomic_rmw", "kind buffer value indices mask", _as(2), "same", "read write", ours=True,
        doc="buffer[indices[i]] becomes kind(buffer[indices[i]], value[i]) where mask[i], each i once; gives what was there.",
        touches="buffer=write")
_define("local_atomic_cas", "buffer compare value indices", _as(2), "once", "read write", ours=True,
        doc="buffer[indices[i]] becomes value[i] if it is compare[i], each i once; gives what was there.",
        touches="buffer=write")
_define("local_store", "buffer value mask", None, "none", "write", ours=True, touches="buffer=write",
        doc="Registers into a buffer, through the generic proxy; with a mask, only where it is true. attrs: run, if there is a "
        "mask, as many neighbours along the last dimension are surely masked together.")

_define("alloc_barriers", "count arrive_count", lambda args, attrs: (Barrier(args[0], attrs.get("per_thread", False)), ),
        "none", "sync write", ours=True,
        doc="`count` mbarriers, each completing a phase after `arrive_count` arrivals and its expected bytes. attrs: per_thread.")
_define("barrier_index", "barrier index", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ), "none", "pure",
        ours=True)
_define("barrier_expect", "barrier bytes predicate", None, "none", "sync", ours=True,
        doc="One arrival that also adds `bytes` to what the current phase waits for.", releases=True)
_define("barrier_bytes", "barrier bytes", None, "none", "sync", ours=True,
        doc="No arrival: the current phase, which some arrival must still be missing in, waits for `bytes` more.")
_define("barrier_wait", "barrier phase predicate", None, "none", "sync wait", ours=True,
        doc="Until the phase of that parity has completed. `phase` is i32.", blocks="barrier")
_define("barrier_arrive", "barrier count predicate", None, "none", "sync", ours=True,
        doc="`count` arrivals of the task, or of each of its threads on a per-thread barrier; releases.", releases=True)
_define("named_barrier_wait named_barrier_arrive", "barrier threads", None, "none", "sync", ours=True,
        doc="Hardware barrier number `barrier`: it opens when `threads` threads have come; a wait stays until then.",
        releases=True, blocks={"named_barrier_wait": "named barrier"})
_define("fence", "scope", None, "none", "sync", ours=True,
        doc="'async_shared' | 'gpu' | 'sys', as an author says; 'handover', by the compiler: async_shared, so that copies may "
        "overwrite. attrs: cluster, if other CTAs' shared memory is meant, too; proxy, if a gpu or sys fence is one between "
        "proxies, too.")

_define("async_load", "pointer buffer mask other cache_policy is_volatile", _scalar(TOKEN), "memory", "read write async",
        ours=True,
        doc="cp.async: pointers' elements into the buffer, or `other` (None: 0); done when its group has been waited for.",
        touches="pointer=read buffer=write")
_define("bulk_load", "pointer barrier buffer bytes", _scalar(TOKEN), "same", "read write async", ours=True,
        doc="Consecutive bytes (an int or i32) from the first of the pointers on into the buffer; completes them on the barrier.",
        touches="pointer=async-read buffer=async-write")
_define("bulk_store", "pointer buffer bytes", None, "none", "read write async", ours=True,
        doc="Consecutive bytes (an int or i32) from the buffer to global memory, one bulk group of its own.",
        touches="pointer=async-write buffer=async-read")
_define("async_commit", "tokens", _scalar(TOKEN), "none", "async", ours=True, doc="Closes the task's current cp.async group.")
_define("async_wait", "pending tokens", _scalar(TOKEN), "none", "sync wait", ours=True,
        doc="Until at most `pending` newest cp.async groups are unfinished.")
_define("tma_load", "descriptor offsets barrier buffer predicate cache_policy", None, "none", "read write async", ours=True,
        doc="TMA tile load; completes block_bytes on the barrier.", touches="descriptor=async-read buffer=async-write")
_define("tma_fetch", "descriptor offsets buffer cache_policy", None, "none", "read write", ours=True,
        doc="TMA tile load that is there when the op is over.", touches="descriptor=async-read buffer=async-write")
_define("tma_store", "descriptor offsets buffer cache_policy reduce", None, "none", "read write async", ours=True,
        doc="TMA tile store (reduce: '' or add, min, max, and, or, xor), one bulk group of its own.",
        touches="descriptor=async-write buffer=async-read")
_define("tma_prefetch", "descriptor offsets predicate cache_policy", None, "none", "read", ours=True,
        doc="A hint: the block will be read from L2 soon.")
_define("prefetch", "pointer mask level", None, "same", "read", ours=True, doc="A hint: these lines will be read from L1 or L2.")
_define("prefetch_descriptor", "descriptor", None, "none", "read", ours=True, doc="A hint: the descriptor will be used soon.")
_define("tma_store_wait", "pending", None, "none", "sync wait", ours=True,
        doc="Until at most `pending` newest TMA store groups of this task are incomplete.")

_define("cluster_cta_rank cluster_size_1d", "", _scalar(I32), "none", "pure", ours=True,
        doc="This CTA's linear rank in its cluster, x fastest, and the number of CTAs there; 0 and 1 without a cluster.")
_define("cluster_barrier", "", None, "none", "sync", ours=True,
        doc="Arrive (release) and wait (acquire) with all threads of all CTAs of the cluster.", releases=True,
        blocks="cluster")
_define("distributed_barrier", "", None, "none", "sync", ours=True,
        doc="Among CTAs; gone once `place_meetings` has run. attrs: grid, all CTAs of the launch; ranks, those of the cluster "
        "(None: all).", releases=True)
_define("group_barrier", "barrier", None, "none", "sync", ours=True,
        doc="Among the CTAs with the ranks in attrs, through the same mbarrier in each; nothing happens in the others.",
        releases=True, blocks="meeting")
_define("grid_barrier", "", None, "none", "sync", ours=True, doc="Among all CTAs of a cooperative launch.", releases=True,
        blocks="meeting")
_define("fence_mbarrier_init", "", None, "none", "sync", ours=True,
        doc="Barriers made before are made for the whole cluster after a cluster_barrier.")
_define("remote_view", "barrier rank", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ), "none", "pure", ours=True,
        doc="The same barrier of another CTA; nothing reads through it.")
_define("remote_arrive", "barrier count rank predicate", None, "none", "sync", ours=True,
        doc="`count` arrivals on the same barrier of CTA `rank`; releases to the cluster.", releases=True)
_define("remote_store", "buffer value rank", None, "linear", "write", ours=True,
        doc="A flat tile into the same place of CTA `rank`, through the generic proxy; seen there after a release and an acquire.",
        touches="buffer=peer-write")
_define("remote_ptr", "pointer rank", lambda args, attrs: (
    like(args[0].type, Pointer(element_of(args[0].type).pointee, "cluster")), ), "same", "pure", ours=True,
        doc="Pointers to the same elements of CTA `rank`'s buffer; `rank` is i32, or a tile with one for each. Gone once "
        "`shared_pointers` has run. attrs: run, if so many neighbours are known to lie one after the other.")
_define("remote_load", "buffer position rank mask other", lambda args, attrs: (
    Tensor(args[0].type.element, args[1].type.shape), ), "run", "read", ours=True,
        doc="result[i] = buffer[position[i]] of CTA rank[i] where mask[i], else other[i] or 0; row-major positions, flat tiles. "
        "attrs: run, as many neighbours lie in one aligned stretch and are masked together.", touches="buffer=peer-read")
_define("remote_scatter", "buffer position rank value mask", None, "run", "write", ours=True,
        doc="buffer[position[i]] of CTA rank[i] = value[i] where mask[i]. attrs: run.", touches="buffer=peer-write")
_define("remote_rmw", "kind buffer position rank value mask order scope", lambda args, attrs: (args[4].type, ), "run", "read write",
        ours=True, doc="buffer[position[i]] of CTA rank[i] becomes kind(it, value[i]) where mask[i], each i once; gives what was "
        "there. attrs: run (1); used, whether anybody wants to know.", touches="buffer=peer-write")
_define("remote_cas", "buffer position rank compare value order scope", lambda args, attrs: (args[4].type, ), "run", "read write",
        ours=True, doc="buffer[position[i]] of CTA rank[i] becomes value[i] if it is compare[i]; gives what was there. attrs: as "
        "above.", touches="buffer=peer-write")
_define("async_remote_store", "buffer value rank barrier", None, "linear", "write async", ours=True,
        doc="A flat tile into the same place of CTA `rank`; completes its bytes on the same barrier there.",
        touches="buffer=peer-write", releases=True)
_define("async_remote_copy", "buffer source rank barrier", None, "none", "read write async", ours=True,
        doc="A bulk copy from `source` into the place of `buffer` in CTA `rank`; completes its bytes on the same barrier there.",
        touches="buffer=async-write source=async-read")
_define("tma_load_multicast", "descriptor offsets barrier buffer targets predicate cache_policy", None, "none",
        "read write async", ours=True,
        doc="TMA tile load into the same place of each CTA of `targets` (a tuple of ranks); completes block_bytes on the same "
            "barrier in each of them.", touches="descriptor=async-read buffer=async-write")
_define("descriptor_slots", "count", lambda args, attrs: (DescriptorSlots(args[0]), ), "none", "write", ours=True,
        doc="Room for `count` TMA descriptors in global memory, private to the CTA.")
_define("descriptor_slot", "slots index", _scalar(DescriptorSlots(0)), "none", "pure", ours=True)
_define("fill_descriptor_slot", "slot base shape strides padding", lambda args, attrs: (attrs["type"], ), "none",
        "read write", ours=True, doc="Makes a descriptor in a slot; `base` to `padding` as make_tensor_descriptor. attrs: type.")
_define("view_descriptor_slot", "slot", lambda args, attrs: (attrs["type"], ), "none", "read", ours=True,
        doc="The descriptor that was made in a slot. attrs: type.")

_define("async_dot", "a b acc precision max_imprecise", lambda args, attrs: (attrs["type"], ), "mma", "read async",
        ours=True, doc="One wgmma group: a (buffer or tile) x b (buffer) + acc (tile or None). attrs: type; emulated, "
        "if it is more precise than the tensor core: then a and b are tiles, and it is done at once.",
        touches="a=async-read b=async-read")
_define("async_dot_wait", "pending value", _as(1), "mma_wait", "sync wait", ours=True,
        doc="Until at most `pending` newest wgmma groups of this task are unfinished.")

_define("require_layout", "value layout pin", _as(0), "pin", "pure", ours=True,
        doc="The tile in that register layout; with `pin`, no later pass moves it.")
_define("release_layout", "value", _as(0), "pin", "pure", ours=True, doc="The tile, free of what the author pinned.")
_define("assert_same_layout", "lhs rhs", None, "pin", "debug", ours=True, doc="Both in one layout; `rhs` a tile or a layout.")
_define("dump_layout", "value", None, "pin", "debug", ours=True, doc="Prints how a tile or buffer lies, while compiling.")

_define("thread_id", "axis", _scalar(I32), "none", "read", ours=True, doc="Hardware thread index in the CTA; differs per lane.")
_define("vote_ballot", "mask predicate", lambda args, attrs: (like(args[1].type, I32), ), "same", "sync", ours=True,
        doc="One bit a lane of the warp: does it own an element that is true? Every element gets its owner's ballot.")
_define("clock64", "", lambda args, attrs: (attrs["type"], ), "none", "read sync", ours=True, doc="attrs: type (i64).")

_define("time_base", "", _scalar(I64), "none", "read", ours=True,
        doc="Where the task's time stamps go; 0 in threads and CTAs that leave none. attrs: lane, lanes, capacity, every.")
_define("time_stamp", "base count", _scalar(I32), "none", "write", ours=True,
        doc="Record number `count` at `base`: the clock and what the time since the record before was; gives count + 1. "
            "attrs: event (0 begins a lane, 1 ends it), kind, label, capacity.")

_define("wait_stamp", "", None, "none", "write", ours=True,
        doc="One lane of each warp notes what the warp does now. attrs: stamp, its number; table, an `ir.WaitTable`.")
_define("wait_words", "barriers", None, "none", "sync write", ours=True,
        doc="Notes where the barriers lie. attrs: first, the number of the first one; table.")
_define("watched_wait", "barrier phase predicate arrays", None, "none", "sync", ours=True,
        doc="Stands before a `barrier_wait` with the same arguments: one lane of each warp waits here first and, while that takes "
        "long, notes it and copies the words of the arrays of barriers. attrs: stamp; after, what the warp does then; rows, the "
        "number of each array's first barrier; table.")


def result_types(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Type, ...]:
    """The types of an op's results by its row's rule."""
    return OPS[name].results(args, attrs)


def is_pure(name: str) -> bool:
    """True if an op without uses may be dropped."""
    return "pure" in OPS[name].effects


def pointer_element(type_: Type) -> Type | None:
    """The pointee of a pointer or of a tile of pointers, else None."""
    element = element_of(type_)
    return element.pointee if isinstance(element, Pointer) else None
