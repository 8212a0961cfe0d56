"""What each op is: one row per op. This table is the language of the waist; every reader of the IR goes by it.

A row gives the op's operands in order and its attributes (the notation is `ir.operands`; `verify` holds every op to it), its *type
rule* (argument list and attributes -> result types), its *layout rule*, its *effects* and its *facts*. For example:

    _define("tma_load", "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?",
            None, "none", "read write async", writes="buffer", barrier="complete", brings="descriptor", copy="in")

The layout rules, which `constraints` implements:

    none       no tile is touched, or any layout will do for every operand
    free       makes a tile in whatever layout is asked for
    same       every tile operand and result is in one layout (`broadcast`: of the result's shape)
    scan       as `same`, in a blocked layout: Triton scans no other
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

Facts, by the operands they are about (`tests/ir/test_table_facts.py` goes over all rows, so that none is forgotten):

    touches         how the op accesses memory, an entry for each operand: `buffer=read` or `buffer=write` through the generic
                    proxy, `buffer=async-read` or `buffer=async-write` through the asynchronous one (PTX ISA, "Proxies";
                    docs/MEMORY_MODEL.md, rule 17), `buffer=peer-read` and `buffer=peer-write` generic accesses to another
                    CTA's shared memory. A buffer is shared memory, a pointer or a descriptor global memory. From it follow
                    `reads` and `writes`, the buffers whose elements the op reads and changes; an atomic does both
    releases        the op may let another task or CTA go on, with what its task did before
    view_of         the operand that the result is a part, or another view, of
    mentions        buffers and barriers that the op names, and does not touch
    barrier         what the op does with its operand `barrier`: `wait`; `arrive`; `expect` (arrives, and announces bytes);
                    `announce` (announces bytes only); `complete` (a copy brings bytes); `meet` (a whole rendezvous)
    brings          what a `complete` brings: the bytes of a descriptor's block, of a buffer, of a tile, or a number of bytes
    peers           the operand or attribute with the ranks of the CTAs in which the buffers that are written, or the barrier, lie
    copy            `in` brings global memory on chip, `out` takes it back, `peer` goes to another CTA
    blocks          for what the op may wait without end, if others do not do their part: an mbarrier's phase ("barrier"), a
                    "named barrier", the "cluster" barrier, a "meeting" of other CTAs, memory that somebody else writes
                    ("poll"), the kernel "before" it in the stream; a watchdog's stamps stand around these ops
                    (passes/stamp_waits.py)
    traits          `dot`, a matrix product; `observer`, which changes nothing for who does not look

Ops named as one of Triton's `create_*` methods, less the prefix, take that method's arguments in that order, so both
readers (the compiler's replay and the simulator) can pass them on as they are. Ops marked `ours` are the orchestration.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from .operands import Operand, parse
from .type_rules import (
    TypeRule,
    accumulator,
    as_operand,
    bool_like,
    described,
    expanded,
    gathered,
    gathered_rows,
    given,
    halves,
    joined,
    listed,
    mapped,
    of_values,
    pointed,
    pointee,
    reduced,
    reshaped,
    scalar,
    scanned,
    transposed,
)
from .types import I32, I64, TOKEN, Barrier, Buffer, Descriptor, DescriptorSlots, Pointer, Storage, Tensor, Type, element_of, like


@dataclass(frozen=True)
class OpDef:
    """One row of the table. `reads`, `writes` and `mentions` are names of operands that are buffers."""

    name: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Operand]
    results: TypeRule
    layout: str
    effects: frozenset[str]
    ours: bool = False
    doc: str = ""
    touches: tuple[tuple[str, str], ...] = ()
    releases: bool = False
    view_of: str = ""
    mentions: tuple[str, ...] = ()
    barrier: str = ""
    brings: str = ""
    peers: str = ""
    copy: str = ""
    blocks: str = ""
    traits: frozenset[str] = frozenset()
    params: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def stores_registers(self) -> bool:
        """True if what the op writes into buffers of its own CTA are values of the task."""
        return bool(self.writes) and not self.copy and not self.peers


OPS: dict[str, OpDef] = {}


def _define(names: str, operands: str, results: TypeRule | None, layout: str, effects: str, *, attrs: str = "",
            traits: str = "", touches: str = "", blocks: dict[str, str] | str = "", **facts) -> None:
    parsed, attributes = parse(operands), {one.name: one for one in parse(attrs)}
    facts |= {fact: tuple(facts[fact].split()) for fact in ("mentions", ) if fact in facts}
    touches, changed = tuple(tuple(entry.split("=")) for entry in touches.split()), frozenset(effects.split())
    buffers = {one.name for one in parsed if "Buffer" in one.text}
    reads, writes = (tuple(name for name, access in touches if name in buffers and access.endswith(kind))
                     for kind in ("read", "write"))
    if changed == {"read", "write"} and results and not facts.get("copy"):
        reads = writes
    for name in names.split():
        OPS[name] = OpDef(name, parsed, attributes, results or (lambda args, attrs: ()), layout, changed,
                          traits=frozenset(traits.split()),
                          blocks=blocks if isinstance(blocks, str) else blocks.get(name, ""),
                          params=tuple(one.name for one in parsed), touches=touches, reads=reads,
                          writes=writes, **facts)


# ---- Triton's ops ----------------------------------------------------------------------------------------------------

_define("constant", "value:const type:#type", given(1), "free", "pure", attrs="layout:const?",
        doc="A number, or a tile filled with it. attrs: layout (pinned by the author, or None).")
_define("poison", "type:#type", given(0), "free", "pure", doc="A value nobody may use.")
_define("get_program_id get_num_programs", "axis:#int", scalar(I32), "none", "pure")

_define("add sub mul sdiv udiv srem urem shl lshr ashr and or xor umulhi minsi minui maxsi maxui", "lhs:int~ rhs:int~",
        as_operand(0), "same", "pure")
_define("fadd fsub fmul fdiv frem precise_divf approx_divf minimumf minnumf maximumf maxnumf", "lhs:float~ rhs:float~",
        as_operand(0), "same", "pure")
_define("addptr", "lhs:ptr~ rhs:int~", as_operand(0), "same", "pure")
_define("icmpSLE icmpSLT icmpSGE icmpSGT icmpULE icmpULT icmpUGE icmpUGT icmpEQ icmpNE", "lhs:int~|ptr~ rhs:int~|ptr~",
        bool_like, "same", "pure")
_define("fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE",
        "lhs:float~ rhs:float~", bool_like, "same", "pure")
_define("fneg fabs ceil floor exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf", "value:float~", as_operand(0),
        "same", "pure")
_define("iabs", "value:int~", as_operand(0), "same", "pure")
_define("fma", "x:float~ y:float~ z:float~", as_operand(0), "same", "pure")
_define("clampf", "value:float~ low:float~ high:float~ propagate_nan:const", as_operand(0), "same", "pure")
_define("select", "condition:i1~ if_true:num~ if_false:num~", as_operand(1), "same", "pure")
_define("int_cast", "value:int~ type:#type signed:const", given(1), "same", "pure")
_define("si_to_fp ui_to_fp", "value:int~ type:#type", given(1), "same", "pure")
_define("fp_to_si fp_to_ui fp_ext fp_trunc", "value:float~ type:#type", given(1), "same", "pure")
_define("bitcast", "value:num~ type:#type", given(1), "same", "pure")
_define("int_to_ptr", "value:int~ type:#type", given(1), "same", "pure")
_define("ptr_to_int", "value:ptr~ type:#type", given(1), "same", "pure")
_define("fp_to_fp", "value:float~ type:#type rounding:const?", given(1), "same", "pure")
_define("extern_elementwise", "library:#str path:#str symbol:#str values:num~* type:#type is_pure:const", given(4),
        "same", "write")
_define("inline_asm", "assembly:#str constraints:#str values:num~* types:#type* is_pure:const pack:const", listed(3),
        "same", "write")

_define("make_range", "type:#type start:#int end:#int", given(0), "free", "pure")
_define("splat", "type:#type value:num", given(0), "free", "pure")
_define("unsplat", "value:num[]", lambda args, attrs: (args[0].type.element, ), "none", "pure")
_define("broadcast", "value:num[] type:#shape|#type",
        lambda args, attrs: (args[1] if isinstance(args[1], Type) else Tensor(args[0].type.element, tuple(args[1])), ),
        "same", "pure")
_define("expand_dims", "value:num[] axis:#int", expanded, "expand", "pure")
_define("reshape", "value:num~ shape:#shape can_reorder:const", reshaped, "inferred", "pure")
_define("trans", "value:num[] order:#shape", transposed, "inferred", "pure")
_define("join", "lhs:num~ rhs:num~", joined, "inferred", "pure")
_define("split", "value:num[]", halves, "inferred", "pure")
_define("gather", "source:num[] indices:int[] axis:#int", gathered, "inferred", "pure")
_define("histogram", "value:int[] bins:#int mask:i1[]?", lambda args, attrs: (Tensor(I32, (args[1], )), ), "inferred",
        "pure")
_define("reduce", "values:num[]* axis:#int", reduced, "reduce", "pure control")
_define("scan", "values:num[]* axis:#int reverse:const", scanned, "scan", "pure control")
_define("map_elementwise", "values:num[]* types:#type* pack:const", mapped, "same", "pure control")

_define("load", "pointer:ptr~ cache_policy:const? is_volatile:const", pointee(0), "memory", "read",
        touches="pointer=read")
_define("masked_load", "pointer:ptr~ mask:i1~? other:num~? cache_policy:const? is_volatile:const", pointee(0), "memory",
        "read", touches="pointer=read")
_define("store", "pointer:ptr~ value:num~ cache_policy:const?", None, "memory", "write", touches="pointer=write")
_define("masked_store", "pointer:ptr~ value:num~ mask:i1~ cache_policy:const?", None, "memory", "write",
        touches="pointer=write")
_define("atomic_rmw", "kind:const pointer:ptr~ value:num~ mask:i1~? order:const? scope:const?", as_operand(2), "memory",
        "read write", touches="pointer=write", releases=True)
_define("atomic_cas", "pointer:ptr~ compare:num~ value:num~ order:const? scope:const?", as_operand(2), "memory",
        "read write", touches="pointer=write", releases=True)
_define("atomic_load", "pointer:ptr~ mask:i1~? order:const? scope:const?", pointee(0), "memory", "read",
        touches="pointer=read")
_define("atomic_store", "pointer:ptr~ value:num~ mask:i1~? order:const? scope:const?", None, "memory", "write",
        touches="pointer=write", releases=True)
_define("atomic_poll", "pointer:ptr~ expected:num~ timeout:int|const? order:const? scope:const?", bool_like, "memory",
        "read", touches="pointer=read", blocks="poll")

_define("make_tensor_descriptor", "base:ptr shape:int* strides:int* block:#shape signed:const padding:const",
        lambda args, attrs: (Descriptor(args[0].type.pointee, tuple(args[3]), args[4]), ), "none", "write")
_define("descriptor_load", "descriptor:Descriptor offsets:int* cache_policy:const?", described, "free", "read",
        touches="descriptor=async-read", copy="in")
_define("descriptor_store", "descriptor:Descriptor value:num[] offsets:int*", None, "none", "write",
        touches="descriptor=async-write", copy="out")
_define("descriptor_reduce", "kind:const descriptor:Descriptor value:num[] offsets:int*", None, "none", "write",
        touches="descriptor=async-write", copy="out")
_define("descriptor_gather", "descriptor:Descriptor rows:int[] column:int type:#type", gathered_rows, "free", "read",
        touches="descriptor=async-read", copy="in")
_define("descriptor_scatter", "descriptor:Descriptor value:num[] rows:int[] column:int", None, "none", "write",
        touches="descriptor=async-write", copy="out")

_define("dot", "a:num[] b:num[] acc:num[] precision:const? max_imprecise:const", accumulator, "dot", "pure",
        traits="dot")
_define("dot_scaled",
        "a:num[] a_scale:num[]? a_format:const b:num[] b_scale:num[]? b_format:const fast_math:const a_k_pack:const "
        "b_k_pack:const acc:num[]", lambda args, attrs: (args[9].type, ), "dot", "pure", traits="dot")

_define("barrier grid_dependency_wait grid_dependency_launch_dependents", "", None, "none", "sync",
        blocks={"grid_dependency_wait": "before"})
_define("print", "prefix:#str hex:const values:num~* signed:const", None, "none", "debug", traits="observer")
_define("assert", "condition:int~ message:const", None, "none", "debug", traits="observer")
_define("assume", "condition:int~", None, "none", "debug", traits="observer")
_define("hint", "value:num~ attribute:#str numbers:const", None, "none", "debug", traits="observer",
        doc="A fact about the value that Triton's axis analysis uses.")

_define("if", "condition:int types:#type*", listed(1), "same", "control", doc="Blocks: then, else. Attrs: none.")
# What Triton's generator says of a loop.
_LOOP = ("tt.num_stages:const? tt.loop_unroll_factor:const? tt.disallow_acc_multi_buffer:const? tt.flatten:const? "
         "tt.warp_specialize:const? llvm.loop_annotation:const?")
_define("for", "start:int end:int step:int inits:value*", of_values(3), "same", "control", attrs=_LOOP,
        doc="Block arguments: the induction variable, then one per carried value.")
_define("while", "inits:value*", of_values(0), "same", "control", attrs=_LOOP,
        doc="Blocks: before (ends in `condition`), after (ends in `yield`).")
_define("condition", "condition:int values:value*", None, "none", "control")
_define("yield", "values:value*", None, "none", "control")

# ---- orchestration: what the tasks are, where tiles live, who waits for what -----------------------------------------

_define("warp_specialize", "", lambda args, attrs: attrs.get("types", ()), "none", "control sync", ours=True,
        attrs="tasks:const types:#type*? exclusive:#bool? shares_captures:#bool? registers:const? internal:#bool?",
        releases=True,
        doc="attrs: tasks, one `Task` a block; block 0 is the default task, whose `yield` gives the results, of the "
        "`types`. All start together; the op ends when all have ended. shares_captures: tiles from outside may be used "
        "(`passes.share_captures`). exclusive: the author wants no other region. registers: what to ask of the "
        "hardware for each task (`passes.grant_registers`). internal: the compiler made it, and its tasks are not the "
        "author's.")

_define("alias_storage", "space:#str limit:#int?", lambda args, attrs: (Storage(*args), ), "none", "write", ours=True,
        attrs="bytes:#int? alignment:#int?",
        doc="Memory for buffer arrays to share. attrs: bytes and alignment, once `place_aliases` has run.")
_define("alias_overlap", "storage:Storage buffers:Buffers*", None, "none", "write", ours=True, attrs="tree:const",
        mentions="storage buffers",
        doc="Which buffers overlay. attrs: tree, (kind, group size, children) with indices into `buffers` as leaves.")
_define("local_alloc", "type:#type reuse:Buffers|Storage?", given(0), "none", "write", ours=True,
        attrs="layout:const? place:const? plain:#bool?", view_of="reuse",
        doc="A buffer array, uninitialised, in memory of its own or in `reuse`, a storage or another buffer. attrs: "
        "layout (pinned by the author, or None); place (where in the storage), once `place_aliases` has run; plain, if "
        "no tensor core is to read it where it lies.")
_define("buffer_index", "buffer:Buffers index:int|#int",
        lambda args, attrs:
            (args[0].type.single() if args[0].type.count else Buffer(args[0].type.element,
            args[0].type.shape[1:] or (1, ), 0, args[0].type.space), ), "none", "pure", ours=True, view_of="buffer",
        doc="One buffer of an array, or one slice along the leading dimension of a single buffer.")
_define("buffer_slice", "buffer:Buffer offsets:int|#int* shape:#shape",
        lambda args, attrs: (Buffer(args[0].type.element, tuple(args[2]), 0, args[0].type.space), ), "none", "pure",
        ours=True, view_of="buffer", doc="A box of a single buffer; offsets are ints or i32 values.")
_define("buffer_trans", "buffer:Buffer order:#shape",
        lambda args, attrs:
            (Buffer(args[0].type.element, tuple(args[0].type.shape[i] for i in args[1]), 0, args[0].type.space), ),
        "none", "pure", ours=True, view_of="buffer", doc="A permuted view of a single buffer.")
_define("buffer_reinterpret", "buffer:Buffers type:#type", given(1), "none", "pure", ours=True, attrs="layout:const?",
        view_of="buffer",
        doc="The same bytes as another type. An array keeps its number of buffers, or becomes one buffer. attrs: "
        "layout (pinned by the author, or None).")
_define("buffer_flat", "buffer:Buffers",
        lambda args, attrs:
            (Buffer(args[0].type.element, (prod(args[0].type.shape) * max(1, args[0].type.count), ), 0,
            args[0].type.space), ), "none", "pure", ours=True, view_of="buffer",
        doc="All elements of a buffer or array in row-major order, wherever they lie; for picked elements only.")
_define("local_ptr", "buffer:Buffers indices:int~*? shape:#shape pointee:#type", pointed, "same", "pure", ours=True,
        view_of="buffer",
        doc="Pointers to elements of a buffer of the logical `shape`, as `indices` say, one per dimension (None: to "
        "all of them). Gone once `shared_pointers` has run.")
_define("local_load", "buffer:Buffer token:Token? mask:i1[]?",
        lambda args, attrs: (Tensor(args[0].type.element, args[0].type.shape), ), "free", "read", ours=True,
        attrs="layout:const?", touches="buffer=read",
        doc="A buffer into registers; with a mask, the elements where it is true: the others are not read.")
_define("local_gather", "buffer:Buffer indices:int[] axis:#int token:Token? mask:i1[]?",
        lambda args, attrs: (Tensor(args[0].type.element, args[1].type.shape), ), "same", "read", ours=True,
        touches="buffer=read",
        doc="result[i0, ..] = buffer[i0, .., indices[i0, ..] along axis, ..]; mask: as for local_load.")
_define("local_scatter", "buffer:Buffer value:num[] indices:int[] axis:#int token:Token?", None, "same", "write",
        ours=True, touches="buffer=write",
        doc="buffer[i0, .., indices[i0, ..] along axis, ..] = value[i0, ..], through the generic proxy.")
_define("local_masked_scatter", "buffer:Buffer value:num[] indices:int[] mask:i1[]", None, "once", "write", ours=True,
        touches="buffer=write",
        doc="buffer[indices[i]] = value[i] where mask[i]; the buffer is flat, so are the tiles.")
_define("local_atomic_rmw", "kind:const buffer:Buffer value:num[] indices:int[] mask:i1[]?", as_operand(2), "same",
        "read write", ours=True, touches="buffer=write",
        doc="buffer[indices[i]] becomes kind(buffer[indices[i]], value[i]) where mask[i], each i once; gives what was "
        "there.")
_define("local_atomic_cas", "buffer:Buffer compare:num[] value:num[] indices:int[]", as_operand(2), "once",
        "read write", ours=True, touches="buffer=write",
        doc="buffer[indices[i]] becomes value[i] if it is compare[i], each i once; gives what was there.")
_define("local_store", "buffer:Buffer value:num[] mask:i1[]?", None, "none", "write", ours=True, attrs="run:#int?",
        touches="buffer=write",
        doc="Registers into a buffer, through the generic proxy; with a mask, only where it is true. attrs: run, if there is a "
        "mask, as many neighbours along the last dimension are surely masked together.")

_define("alloc_barriers", "count:#int arrive_count:#int",
        lambda args, attrs: (Barrier(args[0], attrs.get("per_thread", False)), ), "none", "sync write", ours=True,
        attrs="per_thread:#bool? pipe:const?",
        doc="`count` mbarriers, each completing a phase after `arrive_count` arrivals and its expected bytes. attrs: "
        "per_thread.")
_define("barrier_index", "barrier:Barriers index:int|#int", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ),
        "none", "pure", ours=True, view_of="barrier")
_define("barrier_expect", "barrier:Barrier bytes:#int predicate:i1?", None, "none", "sync", ours=True, releases=True,
        barrier="expect", doc="One arrival that also adds `bytes` to what the current phase waits for.")
_define("barrier_bytes", "barrier:Barrier bytes:#int", None, "none", "sync", ours=True, barrier="announce",
        doc="No arrival: the current phase, which some arrival must still be missing in, waits for `bytes` more.")
_define("barrier_wait", "barrier:Barrier phase:i32 predicate:i1?", None, "none", "sync wait", ours=True, barrier="wait",
        blocks="barrier", doc="Until the phase of that parity has completed. `phase` is i32.")
_define("barrier_arrive", "barrier:Barrier count:#int predicate:i1?", None, "none", "sync", ours=True, releases=True,
        barrier="arrive",
        doc="`count` arrivals of the task, or of each of its threads on a per-thread barrier; releases.")
_define("named_barrier_wait named_barrier_arrive", "barrier:#int threads:#int", None, "none", "sync", ours=True,
        releases=True, blocks={"named_barrier_wait": "named barrier"},
        doc="Hardware barrier number `barrier`: it opens when `threads` threads have come; a wait stays until then.")
_define("fence", "scope:#str", None, "none", "sync", ours=True, attrs="cluster:#bool? proxy:#bool?",
        doc="'async_shared' | 'gpu' | 'sys', as an author says; 'handover', by the compiler: async_shared, so that "
        "copies may overwrite. attrs: cluster, if other CTAs' shared memory is meant, too; proxy, if a gpu or sys "
        "fence is one between proxies, too.")

_define("async_load", "pointer:ptr[] buffer:Buffer mask:i1[]? other:num[]? cache_policy:const? is_volatile:const",
        scalar(TOKEN), "memory", "read write async", ours=True, attrs="of_copy:#bool?",
        touches="pointer=read buffer=write", copy="in",
        doc="cp.async: pointers' elements into the buffer, or `other` (None: 0); done when its group has been waited "
        "for.")
_define("bulk_load", "pointer:ptr~ barrier:Barrier buffer:Buffer bytes:int|#int", scalar(TOKEN), "same",
        "read write async", ours=True, touches="pointer=async-read buffer=async-write", barrier="complete",
        brings="bytes", copy="in",
        doc="Consecutive bytes (an int or i32) from the first of the pointers on into the buffer; completes them on "
        "the barrier.")
_define("bulk_store", "pointer:ptr~ buffer:Buffer bytes:int|#int", None, "none", "read write async", ours=True,
        touches="pointer=async-write buffer=async-read", copy="out",
        doc="Consecutive bytes (an int or i32) from the buffer to global memory, one bulk group of its own.")
_define("async_commit", "tokens:Token*", scalar(TOKEN), "none", "async", ours=True, attrs="of_copy:#bool?",
        doc="Closes the task's current cp.async group.")
_define("async_wait", "pending:#int tokens:Token*", scalar(TOKEN), "none", "sync wait", ours=True, attrs="of_copy:#bool?",
        doc="Until at most `pending` newest cp.async groups are unfinished.")
_define("tma_load",
        "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?", None,
        "none", "read write async", ours=True, touches="descriptor=async-read buffer=async-write", barrier="complete",
        brings="descriptor", copy="in", doc="TMA tile load; completes block_bytes on the barrier.")
_define("tma_fetch", "descriptor:Descriptor offsets:i32* buffer:Buffer cache_policy:const?", None, "none", "read write",
        ours=True, attrs="bytes:#int? more:#bool?", touches="descriptor=async-read buffer=async-write", copy="in",
        doc="TMA tile load that is there when the op is over. attrs: bytes that the wait is told of here, those of the "
        "whole run of fetches or 0; more, if the next fetch waits for this one, too.")
_define("tma_store", "descriptor:Descriptor offsets:i32* buffer:Buffer cache_policy:const? reduce:#str", None, "none",
        "read write async", ours=True, touches="descriptor=async-write buffer=async-read", copy="out",
        doc="TMA tile store (reduce: '' or add, min, max, and, or, xor), one bulk group of its own.")
_define("tma_prefetch", "descriptor:Descriptor offsets:i32* predicate:i1? cache_policy:const?", None, "none", "read",
        ours=True, doc="A hint: the block will be read from L2 soon.")
_define("prefetch", "pointer:ptr~ mask:i1~? level:#str", None, "same", "read", ours=True,
        doc="A hint: these lines will be read from L1 or L2.")
_define("prefetch_descriptor", "descriptor:Descriptor", None, "none", "read", ours=True,
        doc="A hint: the descriptor will be used soon.")
_define("tma_store_wait", "pending:#int", None, "none", "sync wait", ours=True,
        doc="Until at most `pending` newest TMA store groups of this task are incomplete.")

_define("cluster_cta_rank cluster_size_1d", "", scalar(I32), "none", "pure", ours=True,
        doc="This CTA's linear rank in its cluster, x fastest, and the number of CTAs there; 0 and 1 without a cluster.")
_define("cluster_barrier", "", None, "none", "sync", ours=True, releases=True, blocks="cluster",
        doc="Arrive (release) and wait (acquire) with all threads of all CTAs of the cluster.")
_define("distributed_barrier", "", None, "none", "sync", ours=True, attrs="grid:#bool ranks:#shape?", releases=True,
        doc="Among CTAs; gone once `place_meetings` has run. attrs: grid, all CTAs of the launch; ranks, those of the "
        "cluster (None: all).")
_define("group_barrier", "barrier:Barrier", None, "none", "sync", ours=True, attrs="ranks:#shape", releases=True,
        barrier="meet", peers="ranks", blocks="meeting",
        doc="Among the CTAs with the ranks in attrs, through the same mbarrier in each; nothing happens in the others.")
_define("grid_barrier", "", None, "none", "sync", ours=True, releases=True, blocks="meeting",
        doc="Among all CTAs of a cooperative launch.")
_define("fence_mbarrier_init", "", None, "none", "sync", ours=True,
        doc="Barriers made before are made for the whole cluster after a cluster_barrier.")
_define("remote_view", "barrier:Barrier rank:i32", lambda args, attrs: (Barrier(0, args[0].type.per_thread), ), "none",
        "pure", ours=True, view_of="barrier", peers="rank",
        doc="The same barrier of another CTA; nothing reads through it.")
_define("remote_arrive", "barrier:Barrier count:#int rank:i32 predicate:i1?", None, "none", "sync", ours=True,
        attrs="scope:#str?", releases=True, barrier="arrive", peers="rank",
        doc="`count` arrivals on the same barrier of CTA `rank`; releases to the cluster. attrs: scope, 'cta' where "
        "that is enough.")
_define("remote_store", "buffer:Buffer value:num[] rank:i32", None, "linear", "write", ours=True,
        touches="buffer=peer-write", peers="rank", copy="peer",
        doc="A flat tile into the same place of CTA `rank`, through the generic proxy; seen there after a release and "
        "an acquire.")
_define("remote_ptr", "pointer:ptr~ rank:i32~",
        lambda args, attrs: (like(args[0].type, Pointer(element_of(args[0].type).pointee, "cluster")), ), "same",
        "pure", ours=True, attrs="run:#int?",
        doc="Pointers to the same elements of CTA `rank`'s buffer; `rank` is i32, or a tile with one for each. Gone "
        "once `shared_pointers` has run. attrs: run, if so many neighbours are known to lie one after the other.")
_define("remote_load", "buffer:Buffers position:int[] rank:int[] mask:i1[]? other:num[]?",
        lambda args, attrs: (Tensor(args[0].type.element, args[1].type.shape), ), "run", "read", ours=True,
        attrs="run:#int", touches="buffer=peer-read", peers="rank",
        doc="result[i] = buffer[position[i]] of CTA rank[i] where mask[i], else other[i] or 0; row-major positions, "
        "flat tiles. attrs: run, as many neighbours lie in one aligned stretch and are masked together.")
_define("remote_scatter", "buffer:Buffers position:int[] rank:int[] value:num[] mask:i1[]?", None, "run", "write",
        ours=True, attrs="run:#int", touches="buffer=peer-write", peers="rank",
        doc="buffer[position[i]] of CTA rank[i] = value[i] where mask[i]. attrs: run.")
_define("remote_rmw",
        "kind:const buffer:Buffers position:int[] rank:int[] value:num[] mask:i1[]? order:const? scope:const?",
        lambda args, attrs: (args[4].type, ), "run", "read write", ours=True, attrs="run:#int used:#bool",
        touches="buffer=peer-write", peers="rank",
        doc="buffer[position[i]] of CTA rank[i] becomes kind(it, value[i]) where mask[i], each i once; gives what was "
        "there. attrs: run (1); used, whether anybody wants to know.")
_define("remote_cas", "buffer:Buffers position:int[] rank:int[] compare:num[] value:num[] order:const? scope:const?",
        lambda args, attrs: (args[4].type, ), "run", "read write", ours=True, attrs="run:#int used:#bool",
        touches="buffer=peer-write", peers="rank",
        doc="buffer[position[i]] of CTA rank[i] becomes value[i] if it is compare[i]; gives what was there. attrs: as "
        "above.")
_define("async_remote_store", "buffer:Buffer value:num[] rank:i32 barrier:Barrier", None, "linear", "write async",
        ours=True, touches="buffer=peer-write", releases=True, barrier="complete", brings="value", peers="rank",
        copy="peer",
        doc="A flat tile into the same place of CTA `rank`; completes its bytes on the same barrier there.")
_define("async_remote_copy", "buffer:Buffer source:Buffer rank:i32 barrier:Barrier", None, "none", "read write async",
        ours=True, touches="buffer=async-write source=async-read", barrier="complete", brings="source", peers="rank",
        copy="peer",
        doc="A bulk copy from `source` into the place of `buffer` in CTA `rank`; completes its bytes on the same "
        "barrier there.")
_define("tma_load_multicast",
        "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer targets:i32* predicate:i1? "
        "cache_policy:const?", None, "none", "read write async", ours=True,
        touches="descriptor=async-read buffer=async-write", barrier="complete", brings="descriptor", peers="targets",
        copy="in",
        doc="TMA tile load into the same place of each CTA of `targets` (a tuple of ranks); completes block_bytes on "
        "the same barrier in each of them.")
_define("descriptor_slots", "count:#int", lambda args, attrs: (DescriptorSlots(args[0]), ), "none", "write", ours=True,
        doc="Room for `count` TMA descriptors in global memory, private to the CTA.")
_define("descriptor_slot", "slots:Slots index:int|#int", scalar(DescriptorSlots(0)), "none", "pure", ours=True,
        view_of="slots")
_define("fill_descriptor_slot", "slot:Slot? base:ptr shape:int* strides:int* padding:const",
        lambda args, attrs: (attrs["type"], ), "none", "read write", ours=True, attrs="type:#type",
        doc="Makes a descriptor in a slot; `base` to `padding` as make_tensor_descriptor. attrs: type.")
_define("view_descriptor_slot", "slot:Slot?", lambda args, attrs: (attrs["type"], ), "none", "read", ours=True,
        attrs="type:#type", doc="The descriptor that was made in a slot. attrs: type.")

_define("async_dot", "a:Buffer|num[] b:Buffer|num[] acc:num[]? precision:const? max_imprecise:const",
        lambda args, attrs: (attrs["type"], ), "mma", "read async", ours=True, attrs="type:#type emulated:#bool?",
        touches="a=async-read b=async-read", traits="dot",
        doc="One wgmma group: a (buffer or tile) x b (buffer) + acc (tile or None). attrs: type; emulated, if it is "
        "more precise than the tensor core: then a and b are tiles, and it is done at once.")
_define("async_dot_wait", "pending:#int value:num[]", as_operand(1), "mma_wait", "sync wait", ours=True,
        doc="Until at most `pending` newest wgmma groups of this task are unfinished.")

_define("require_layout", "value:num[] layout:const pin:const", as_operand(0), "pin", "pure", ours=True,
        doc="The tile in that register layout; with `pin`, no later pass moves it.")
_define("release_layout", "value:num[]", as_operand(0), "pin", "pure", ours=True,
        doc="The tile, free of what the author pinned.")
_define("assert_same_layout", "lhs:num[] rhs:num[]|const", None, "pin", "debug", ours=True, traits="observer",
        doc="Both in one layout; `rhs` a tile or a layout.")
_define("dump_layout", "value:num[]|Buffers", None, "pin", "debug", ours=True, mentions="value", traits="observer",
        doc="Prints how a tile or buffer lies, while compiling.")

_define("thread_id", "axis:#int", scalar(I32), "none", "read", ours=True,
        doc="Hardware thread index in the CTA; differs per lane.")
_define("vote_ballot", "mask:#int predicate:i1~", lambda args, attrs: (like(args[1].type, I32), ), "same", "sync",
        ours=True,
        doc="One bit a lane of the warp: does it own an element that is true? Every element gets its owner's ballot.")
_define("clock64", "", lambda args, attrs: (attrs["type"], ), "none", "read sync", ours=True, attrs="type:#type",
        doc="attrs: type (i64).")

_define("time_base", "", scalar(I64), "none", "read", ours=True, attrs="lane:#int lanes:#int capacity:#int every:#int",
        doc="Where the task's time stamps go; 0 in threads and CTAs that leave none. attrs: lane, lanes, capacity, "
        "every.")
_define("time_stamp", "base:i64 count:i32", scalar(I32), "none", "write", ours=True,
        attrs="event:#int kind:#str label:#str lane:#int capacity:#int",
        doc="Record number `count` at `base`: the clock and what the time since the record before was; gives count + "
        "1. attrs: event (0 begins a lane, 1 ends it), kind, label, capacity.")

_STAMPED = "stamp:#int state:#str lane:#int table:const first:#bool"
_define("wait_stamp", "", None, "none", "write", ours=True, attrs=_STAMPED,
        doc="One lane of each warp notes what the warp does now. attrs: stamp, its number; table, an `ir.WaitTable`.")
_define("wait_words", "barriers:Barriers", None, "none", "sync write", ours=True, attrs="first:#int table:const",
        mentions="barriers", doc="Notes where the barriers lie. attrs: first, the number of the first one; table.")
_define("watched_wait", "barrier:Barrier phase:i32 predicate:i1? arrays:Barriers*", None, "none", "sync", ours=True,
        attrs=f"{_STAMPED} after:#int rows:#shape", mentions="barrier arrays",
        doc="Stands before a `barrier_wait` with the same arguments: one lane of each warp waits here first and, while "
        "that takes long, notes it and copies the words of the arrays of barriers. attrs: stamp; after, what the warp "
        "does then; rows, the number of each array's first barrier; table.")


def result_types(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Type, ...]:
    """The types of an op's results by its row's rule."""
    return OPS[name].results(args, attrs)


def is_pure(name: str) -> bool:
    """True if an op without uses may be dropped."""
    return "pure" in OPS[name].effects
