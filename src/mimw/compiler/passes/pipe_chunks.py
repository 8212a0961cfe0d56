"""Chunks of a pipe's writer: the copies into a slot between `pipe_acquire` and `pipe_commit`, which the commit completes.

Input: a program before the pass `expand_pipes`. Output: a `Chunk` for each acquire and each commit. For example:

    %x = pipe_acquire %p, chunk=%k
    tma_fetch %source, [%k], %x        a copy of the chunk: only the reader's wait needs its bytes
    pipe_commit %p, chunk=%k           all copies are TMA copies: the barrier's bytes are known before the first of them

A chunk is complete after one arrival and the bytes of its TMA copies. The bytes of the copies in the block of acquire and
commit are certain, and one `barrier_expect` announces them all; a copy under an `if` or in a loop announces its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import KernelError
from ...ir import Block, Buffer, Op, Program, Value
from ...ir.ops import is_pure
from ...ir.types import Barrier
from ..analysis.pipes import pipe_label, pipes_of

TMA, THREADS = "TMA", "pointers"


@dataclass(eq=False)
class Chunk:
    """One chunk of the pipe that `make` makes: from its `acquire` in `block` (None: the commit sees no acquire) to its `commit`
    (None: there is none). `tiles` are the TMA copies into the slot with their blocks, `together` those of them whose bytes one
    expect announces; with `ahead` the expect stands in front of the first of them, and the commit leaves nothing to do. `in_block`
    is true if the commit stands in the block of the acquire."""

    make: Op
    acquire: Op | None = None
    block: Block | None = None
    commit: Op | None = None
    transports: dict[str, str] = field(default_factory=dict)
    tiles: list[tuple[Op, Block]] = field(default_factory=list)
    together: list[Op] = field(default_factory=list)
    ahead: bool = False
    in_block: bool = False

    @property
    def bytes(self) -> int:
        """The bytes that one expect announces."""
        return sum(tile.buffer.type.bytes for tile in self.together)


@dataclass
class Chunks:
    """`of_copy`, `of_acquire`, `of_commit`: the chunk of each copy into a slot, of each acquire and of each commit. `by_threads`:
    commits of a pipe into which cp.async may have copied before, so that they wait for its groups."""

    of_copy: dict[Op, Chunk] = field(default_factory=dict)
    of_acquire: dict[Op, Chunk] = field(default_factory=dict)
    of_commit: dict[Op, Chunk] = field(default_factory=dict)
    by_threads: set[Op] = field(default_factory=set)


def pipe_chunks(program: Program) -> Chunks:
    """The chunks of all pipes. KernelError for a field that is filled in two ways in one chunk: nothing orders the two."""
    finder = _Finder(pipes_of(program))
    finder.visit(program.body, ())
    finder.find_threads()
    return finder.chunks


def _completes_elsewhere(op: Op) -> bool:
    """True of a TMA load that the author completes on a barrier."""
    return op.row.barrier == "complete" and "descriptor" in op.row.places and not op.row.peers


class _Finder:
    """One walk in program order. `fields` says of a view into which field of which chunk it leads."""

    def __init__(self, makes: dict[Value, Op]):
        self.makes, self.chunks = makes, Chunks()
        self.open: list[Chunk] = []
        self.fields: dict[Value, tuple[Chunk, str]] = {}
        self.copied: list[tuple[int, tuple[Op, ...], Op]] = []      # where cp.async fills a chunk of which pipe
        self.commits: list[tuple[int, tuple[Op, ...], Op]] = []
        self.count = 0

    def visit(self, block: Block, loops: tuple[Op, ...]) -> None:
        for op in block.ops:
            self.count += 1
            if op.name == "pipe_acquire":
                chunk = self.chunks.of_acquire[op] = Chunk(self.makes[op.pipe], op, block)
                self.open.append(chunk)
                self.fields |= {view: (chunk, name) for view, name in zip(op.results, chunk.make.attrs["names"], strict=True)}
            elif op.name == "pipe_commit":
                self.commit(op, block, loops)
            elif op.row.view_of and op.results and isinstance(op.result.type, Buffer):
                if (part := self.fields.get(getattr(op, op.row.view_of))) is not None:
                    self.fields[op.result] = part
            elif op.row.copy == "in" and op.row.writes:
                self.copy(op, block, loops)
            inside = (*loops, op) if "loop" in op.row.traits else loops
            for inner in op.blocks:
                self.visit(inner, inside)

    def copy(self, op: Op, block: Block, loops: tuple[Op, ...]) -> None:
        """A copy that is there when it is over may finish with its chunk instead; others the author completes."""
        part = self.fields.get(op.buffer)
        by_author = op.row.barrier or "of_copy" in op.row.attributes and "of_copy" not in op.attrs
        if part is None or part[0] not in self.open or by_author:
            return
        chunk, name = part
        transport = TMA if ("buffer", "async-write") in op.row.touches else THREADS
        had = chunk.transports.setdefault(name, transport)
        if had != transport:
            raise KernelError(f"{pipe_label(chunk.make)}: field {name!r} is filled by {had} and by {transport} in one chunk; order "
                              "between them is not kept", op.site, hint="fill a field in one way.")
        self.chunks.of_copy[op] = chunk
        if transport == TMA:
            chunk.tiles.append((op, block))
        else:
            self.copied.append((self.count, loops, chunk.make))

    def commit(self, op: Op, block: Block, loops: tuple[Op, ...]) -> None:
        make = self.makes[op.pipe]
        chunk = next((chunk for chunk in reversed(self.open) if chunk.make is make), None)
        if chunk is None:
            chunk = Chunk(make)
        else:
            self.open.remove(chunk)
        chunk.commit, self.chunks.of_commit[op] = op, chunk
        self.commits.append((self.count, loops, op))
        if block is not chunk.block:
            return
        chunk.in_block = True
        chunk.together = [tile for tile, place in chunk.tiles if place is block]
        if chunk.bytes > Barrier.MOST_BYTES:
            raise KernelError(f"{pipe_label(make)}: {chunk.bytes} bytes a chunk are more than the {Barrier.MOST_BYTES} that a "
                              "barrier counts.", op.site)
        self.refuse_pointers(chunk, block)
        if chunk.together and len(chunk.together) == len(chunk.tiles):
            since = block.ops[block.ops.index(chunk.together[0]):block.ops.index(op)]
            chunk.ahead = all(is_pure(one.name) or _completes_elsewhere(one) or one in chunk.together for one in since)

    def refuse_pointers(self, chunk: Chunk, block: Block) -> None:
        """Refuse pointers into a field that a TMA copy of the same chunk fills: nothing orders the two."""
        if not chunk.tiles:
            return
        first, place = chunk.tiles[0]
        since = block.ops[block.ops.index(first) if place is block else 0:block.ops.index(chunk.commit)]
        for op in (inner for outer in since for inner in outer.walk() if inner.name == "local_ptr"):
            part = self.fields.get(op.buffer)
            if part is not None and part[0] is chunk and chunk.transports.get(part[1]) == TMA:
                raise KernelError(
                    f"{pipe_label(chunk.make)}: field {part[1]!r} is filled by TMA and touched through local_ptr in one chunk; the "
                    "copy is complete only for the reader that waits", chunk.commit.site, op.site, hint="fill a field in one way.")

    def find_threads(self) -> None:
        """A copy by threads may come before a commit that it precedes, or with which it shares a loop."""
        for at, loops, op in self.commits:
            make = self.makes[op.pipe]
            if any(filled is make and (before < at or set(around) & set(loops)) for before, around, filled in self.copied):
                self.chunks.by_threads.add(op)
