"""Definitions of all ops: one row per op, by family. This table is the language of the waist; every reader of the IR goes by
it.

Input: the declarations in the files of this folder. Output: `OPS`, a row (`OpDef`) for each op name, which is `op.row` of every op.
A row gives the op's operands in order and its attributes (the notation is `ir.operands`; `verify` holds every op to it), its *type
rule* (argument list and attributes -> result types), its *layout rule*, its *effects* and its *facts*. For example:

    define("tma_load", "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?",
           None, "none", "read write async", touches="descriptor=async-read buffer=async-write", barrier="complete",
           brings="descriptor", copy="in")

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
    rows       the operand `rows` is flat: as the chip's copies of rows take it; a result in the default of its shape
    pin        what the author says about the layout of a tile: fix it, free it, compare it, show it
    mma_wait   the result of an asynchronous dot: same layout in and out, no conversion before it
    tensor_memory  as tensor memory gives its lanes to warps: a load's result, and what a store takes

and special cases of them (`rule`): `spread` (`same`: a strong layout spreads to the broadcast tile), `neighbours` (`same`:
neighbours of a row in one thread), `sliced` (`same`: a slice in the operand's layout), `moved` (`inferred`: a tile from tensor
memory stays where it is), `cut` (`inferred`: columns of a tensor core's sums stay in their registers), `pairs` (`inferred`: both
elements of a pair in one thread), `scaled` (`dot`: `tl.dot_scaled`),
`vectors` (`free`: wide reads), `stored` (a masked store), `require`, `release` and `compare` (`pin`), `carried` and `tasks`
(regions).

Effects: `pure` may be dropped when unused; `read` and `write` touch memory; `sync` orders tasks (`sync wait`: it acquires
only, so it publishes nothing that the task has done); `async` starts something that finishes later; `control` has regions or ends
one; `debug` prints or asserts.

Facts, by the operands they are about (`tests/ir/test_table_facts.py` goes over all rows, so that none is forgotten):

    touches         how the op accesses memory, an entry for each operand: `buffer=read` or `buffer=write` through the generic
                    proxy, `buffer=async-read` or `buffer=async-write` through the asynchronous one (PTX ISA, "Proxies";
                    docs/MEMORY_MODEL.md, rule 17), `buffer=peer-read` and `buffer=peer-write` generic accesses to another
                    CTA's shared memory. A buffer is shared memory, a pointer or a descriptor global memory. From it follow
                    `reads` and `writes`, the buffers whose elements the op reads and changes; an atomic does both
    releases        the op may let another task or CTA go on, with what its task did before
    view_of         the operand that the result is a part, or another view, of
    view            how: a `slot` of an array; a `part` of a tile; a `box` of it with steps; the tile `transposed`, `retyped`, or
                    `flat`, in row-major
                    order; a `pointer` to elements; the same thing of a `peer`; `placed`, with memory of its own unless it
                    reuses some; a tensor descriptor that begins elsewhere, `moved`
    allocates       what the op makes in shared memory: a `buffer` array, `barriers`, or a `storage` for arrays to share
    elements_of     the operands whose elements the result consists of, as they are
    pointer_of      the operand whose memory the result, another pointer, points into as well
    folds           what the op gives for two numbers, a function
    absorbs         the number that decides the result alone, whatever the other operand is
    neutral         the number that changes no other, whichever operand it is; for an integer also `lowest`, `highest` or
                    `unsigned highest` of its type
    relation        what a comparison of integers tests: `<`, `<=`, `>`, `>=`, `==` or `!=`
    mentions        buffers and barriers that the op names, and does not touch
    barrier         what the op does with its operand `barrier`: `wait`; `test`, a wait that gives up at once; `arrive`;
                    `expect` (arrives, and announces bytes); `commit` (arrives when earlier work of the tensor cores is done);
                    `announce` (announces bytes only); `complete` (a copy brings bytes); `meet` (a whole rendezvous);
                    `init` and `invalidate`, with which it begins and ends
    brings          what a `complete` brings: the bytes of a descriptor's block, of a buffer, of a tile, or a number of bytes
    peers           the operand or attribute with the ranks of the CTAs in which the buffers that are written, or the barrier, lie
    copy            `in` brings global memory on chip, `out` takes it back, `peer` goes to another CTA
    blocks          for what the op may wait without end, if others do not do their part: an mbarrier's phase ("barrier"), a
                    "named barrier", the "cluster" barrier, a "rendezvous" of other CTAs, memory that others write
                    ("poll"), the kernel "before" it in the stream; a watchdog's stamps stand around these ops
                    (passes/stamp_waits.py)
    end             the end of a pipe that calls the op, `writer` or `reader`
    regions         the names of the op's blocks, in order; of the last one there may be more (the tasks of a `warp_specialize`)
    hands_on        how values go in and out of the regions, read by `ir.flow`: `inits->body,results` hands the operand `inits` to
                    the last arguments of the block `body` and to the results; a region hands on what its terminator yields
    time            what a profile calls the time that the op takes: `wait`, `copy`, `dot`, `store`; `work` belongs to its
                    task's own work, also where it touches no tile
    cost            what cost models charge for the op (`costs`): `free` takes no time; `move` renames registers; `int`, `float`,
                    `compare`, `convert`, `division`, `special` (the special-function unit) and `approximate` are arithmetic,
                    so many elements a cycle; `dot` keeps its task busy on the tensor cores; `shared` and `global` access these
                    memories; `sync` is one operation of a barrier or of a unit that copies
    needs           the feature that a chip must have (`target.FEATURES`; `passes.check_target` looks), with `needed_if` only ops of
                    which that attribute is true, or that operand has that value; `word` is the op as an author knows it,
                    and `instead` what does the same on a chip without the feature
    becomes         the op in words on a chip that lacks the feature and maps it (`Target.mapped`): rewritten by a pass
    lies            how a buffer has to lie in shared memory for the op, an entry for each operand: `view`, as what it is a view of;
                    `free`, in any layout, read or written tile by tile by threads; `tile`, in any layout of the whole tile;
                    `block`, as TMA moves a descriptor's block; `moved`, as AMD's data mover does, in plain
                    rows, padded if the author says so; `gathered`, as TMA moves a block of the tile's shape; `lhs` or
                    `rhs`, as wgmma reads that operand; `left` or `right`, as tcgen05.mma does; `columns`, in tensor memory;
                    `packed`, as tcgen05.cp reads what goes there; `rows`, a tile in plain rows, or `elements` picked from some;
                    `bytes`, its elements one after the other; `alike`, as the other operand marked so; `picked`, best in plain
                    rows, for `flat` operands, which are what picks
    rule            the layout rule of the op's tiles, where it is a special case of the one named before
    end             the end of a pipe that calls the op, `writer` or `reader`
    traits          `dot`, a matrix product; `observer`, an op that changes nothing for a program without it; `branch` runs one of
                    its regions, `loop` runs them again and again; `terminator` ends a block and hands its operand `values` to the
                    op around; `combines` calls its region with two elements of each tile, `maps` with `pack` neighbours; `atomic`
                    reads, changes or awaits memory by its order, in one step; `number`: a reader can follow which number the op
                    gives; `sum`, `quotient` and `remainder` are these of their operands; `fuses` is one instruction with a
                    product before it; `whole` writes a buffer as a whole, if there is no mask; `reduces` may combine what it
                    writes with what is there; `assembly` is the author's; `named` is about a hardware barrier with a number;
                    `scaled` multiplies blocks by their scales; `pairs` is done by the tensor cores of a pair of CTAs, `pair_load`
                    brings bytes to the barrier of one CTA of a pair; `steals` takes work that another CTA would have done;
                    `mover` is done by AMD's tensor data mover;
                    `fenced`, and `dot`, read what their own task wrote behind a proxy fence of the compiler's;
                    `clusters_only` is an illegal instruction in a launch without clusters; `reshape` keeps all elements in
                    row-major order; `collective` needs all threads of a task, as do ops with the effects `sync` and `async`, less
                    those with the trait `alone`; `lanes` takes a number that differs between the threads of a task; `by_cta`
                    gives one that differs between the CTAs of a cluster; `fetch` is a
                    copy by TMA that is there when the op is over, alone or with the fetches right behind it (`join_copies`);
                    `declared` is done by native code, as its author says (`raw_call`);
                    `ttgir` is recorded by no word: the reader of TTGIR makes it, for the simulator, and nothing is compiled of it;
                    `pipe` is an op on a pipe, gone once `passes/expand_pipes.py` has run; `dsa` is an op on a local memory that
                    software manages, gone on GPUs once `passes/expand_dsa.py` has run

Ops named as one of Triton's `create_*` methods, less the prefix, take that method's arguments in that order, so both
readers (the compiler's replay and the simulator) can pass them on as they are. Ops marked `ours` are the orchestration.
"""

from __future__ import annotations

from typing import Any

from ..types import Type
from . import (  # noqa: F401
    barriers,
    buffers,
    cluster,
    control,
    copies,
    debug,
    descriptors,
    dsa,
    launch_control,
    layouts,
    matrix_registers,
    memory,
    mma,
    mover,
    multimem,
    pairs,
    pipes,
    raw,
    raw_mlir,
    rounding,
    rows,
    scheduling,
    threads,
    tiles,  # noqa: F401
    tmem,
    warp_stages,
    world,
)
from .table import OPS, OpDef

__all__ = ["OPS", "OpDef", "is_pure", "result_types"]


def result_types(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Type, ...]:
    """The types of an op's results by its row's rule."""
    return OPS[name].results(args, attrs)


def is_pure(name: str) -> bool:
    """True if an op without uses may be dropped."""
    return "pure" in OPS[name].effects
