"""What depends on a tile's idle elements, and how each such op is told to leave them alone: for `pad_tiles`.

Input: an op of the program as the author has it. Output: ops on padded tiles, in the writer of a `Padding`. For example, of a
tile of 176 elements in one of 256:

    store %p, %x            masked_store %p, %x, (make_range 0 256 < 176)
    histogram %x 12         histogram %x 16 (make_range 0 256 < 176)
    dot %a %b %acc          of zeros along K, by the load or by `select within, %a, 0`

The files `pad_*` beside this one have further ends, each those of one kind of op.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import KernelError
from ...ir import I1, I32, I64, Builder, Op, Pointer, Program, Tensor, Value
from ...ir.dot_scales import scales_of
from ...ir.extents import is_odd, padded, padded_type
from ...ir.types import element_of, like
from ..analysis import uses_of
from .pad_buffers import Lies, Pieces, odd_arrays

End = Callable[["Padding", Op], None]

ENDS: dict[str, End] = {}
_KEEP_ZERO = ("int_cast", "si_to_fp", "ui_to_fp", "fp_ext", "fp_trunc", "fp_to_fp", "bitcast")


def end(*names: str) -> Callable[[End], End]:
    """Register the rewriting of ops of these names that have a tile with odd extents."""

    def register(function: End) -> End:
        ENDS.update(dict.fromkeys(names, function))
        return function

    return register


def refusal(op: Op, why: str = "", mend: str = "") -> KernelError:
    """The error of an op that a tile with odd extents cannot have."""
    shaped = [value.type for value in (*op.operands, *op.results) if getattr(value.type, "shape", ())]
    shapes = dict.fromkeys(map(str, [type_ for type_ in shaped if is_odd(type_.shape)] or shaped))
    return KernelError(
        f"{op.row.word} of {', '.join(shapes)}, {why or 'which moves elements,'} is not offered for extents that are not powers of "
        "two.", op.site, hint=mend or "take extents that are powers of two here, and mask what is too much.")


class Padding:
    """Writes the ops of a padded program.

    fields:  writer     the builder; `writer.now` gives the new value of an old one
             program    the one that is written anew
             flattened  of a flat tile that only reductions take, the tile that it is made of, as the author has it
             arrays     of an array of buffers with odd extents its pieces, None where its extents are padded
             made_of    the same of views of them
             lies       how each view of pieces lies there (`pad_views`)
             picked     of flat views, of which threads pick elements, what makes of the author's numbers those in the new one
             parts      the first columns of a tile, which only products may take
    """

    def __init__(self, writer: Builder, program: Program):
        self.writer, self.program, self.arrays = writer, program, odd_arrays(program)
        self.made_of: dict[Value, Pieces | None] = {}
        self.lies: dict[Value, Lies] = {}
        self.picked: dict[Value, Callable[[Value], Value]] = {}
        self.parts: set[Value] = set()
        self.flattened: dict[Value, Value] = {}

    def pieces(self, op: Op, buffer: Value) -> Pieces | None:
        """The pieces of a buffer; None if it is padded. KernelError, about `op`, for one that a loop or a branch hands on, and for
        a part of a tile that only products may take."""
        if buffer in self.parts:
            raise refusal(op, "a part of a tile that is not for a product,",
                          "take the whole tile, or a part whose extents are powers of two.")
        if buffer not in self.made_of and is_odd(buffer.type.shape):
            raise self.handed_on(op)
        return self.made_of.get(buffer)

    def handed_on(self, op: Op) -> KernelError:
        return refusal(op, "which a loop or a branch passes on,", "pass the number of the buffer on, and index the array there.")

    def in_pieces(self, value: Value) -> bool:
        """True of a view of pieces that is no buffer of its own in the new program."""
        return value in self.lies and not self.lies[value].is_whole

    # ---- which elements are the author's ------------------------------------------------------------------------------

    def within(self, shape: tuple[int, ...], axes: tuple[int, ...] | None = None) -> Value:
        """An i1 tile of the padded shape: true for the elements of `shape`. With `axes` only those extents are looked at."""
        full, found = padded(shape), None
        for axis, (extent, most) in enumerate(zip(shape, full)):
            if extent == most or axes is not None and axis not in axes:
                continue
            line = self.writer.emit("make_range", (Tensor(I32, (most, )), 0, most))
            known = self.writer.emit("icmpSLT", (line, self.writer.constant(extent, line.type)))
            known = self.along(known, full, axis)
            found = known if found is None else self.writer.emit("and", (found, known))
        return found

    def inside(self, shape: tuple[int, ...], axis: int) -> Value:
        """An i32 tile of the padded shape: the number of each element along an axis, of idle ones that of the author's last one."""
        full = padded(shape)
        line = self.writer.emit("make_range", (Tensor(I32, (full[axis], )), 0, full[axis]))
        return self.along(self.writer.by_constant("minsi", line, shape[axis] - 1), full, axis)

    def along(self, line: Value, shape: tuple[int, ...], axis: int) -> Value:
        """The numbers of a line along an axis of a tile of that shape."""
        for other in range(len(shape)):
            line = line if other == axis else self.writer.emit("expand_dims", (line, other))
        return line if line.type.shape == shape else self.writer.emit("broadcast", (line, Tensor(element_of(line.type), shape)))

    def last(self, tile: Value, shape: tuple[int, ...]) -> Value:
        """A tile of the new program, whose idle elements are copies of the author's last ones along each axis."""
        for axis, extent in enumerate(shape):
            if is_odd((extent, )):
                tile = self.gathered(tile, self.inside(shape, axis), axis)
        return tile

    def gathered(self, tile: Value, indices: Value, axis: int) -> Value:
        """Elements of a tile by their numbers along an axis. Triton gathers no pointers, so these go as numbers."""
        if not isinstance(element_of(tile.type), Pointer):
            return self.writer.emit("gather", (tile, indices, axis))
        numbers = self.writer.emit("gather", (self.writer.emit("ptr_to_int", (tile, like(tile.type, I64))), indices, axis))
        return self.writer.emit("int_to_ptr", (numbers, like(numbers.type, element_of(tile.type))))

    def both(self, mask: Value | None, shape: tuple[int, ...]) -> Value:
        """A mask of the old program, or none, and the elements of `shape`; the mask alone if none of these is idle."""
        if not is_odd(shape):
            return self.writer.now(mask)
        within = self.within(shape)
        return within if mask is None else self.writer.emit("and", (self.writer.now(mask), within))

    def chosen(self, value: Value, number: float | int, axes: tuple[int, ...] | None = None) -> Value:
        """The tile `value` of the old program, with `number` in its idle elements, along `axes`."""
        now = self.writer.now(value)
        return self.writer.emit("select", (self.within(value.type.shape, axes), now, self.writer.constant(number, now.type)))

    def zero_behind(self, value: Value, axis: int) -> Value:
        """The tile `value` of the old program, with zeros in what is idle along an axis."""
        if not is_odd((value.type.shape[axis], )) or _load_of(self.program, value) is not None:
            return self.writer.now(value)
        return self.chosen(value, 0, (axis, ))

    def indices(self, value: Value) -> Value:
        """Indices of the old program; idle ones point to the first element: any other could lie outside."""
        return self.chosen(value, 0) if is_odd(value.type.shape) else self.writer.now(value)

    # ---- ops ----------------------------------------------------------------------------------------------------------

    def again(self, op: Op, **changed) -> None:
        """The op on the padded tiles, with other operands, which are of the new program."""
        given = {param: self.writer.now(arg) for param, arg in zip(op.row.params, op.args)} | changed
        results = tuple(Value(padded_type(value.type), value.name, value.number) for value in op.results)
        self.writer.env.update(zip(op.results, results))
        args = tuple(given.values())
        self.writer.ops.append(Op(op.name, args, results, op.blocks, op.attrs, op.site))

    def masked(self, op: Op) -> None:
        """An access by pointers under a mask: idle elements are masked off."""
        self.again(op, mask=self.both(op.mask, op.pointer.type.shape))


@end("load", "masked_load")
def load(padding: Padding, op: Op) -> None:
    """Idle elements are masked off. Those of a product's operand are zeros then: what stood between a load and its product would
    keep Triton from multiplying what the copies of a loop bring where they lie."""
    writer, args = padding.writer, dict(zip(op.row.params, op.args))
    mask, other = args.get("mask"), writer.now(args.get("other"))
    if other is None and op in zeroed_loads(padding.program):
        other = writer.constant(0, padded_type(op.result.type))
    args = (writer.now(op.pointer), padding.both(mask, op.pointer.type.shape), other, op.cache_policy, op.is_volatile)
    writer.env[op.result] = writer.emit("masked_load", args)


def zeroed_loads(program: Program) -> frozenset[Op]:
    """The loads of operands of products whose depth is no power of two, where nothing says what they give behind their mask."""
    return program.kept(_zeroed_loads)


def _zeroed_loads(program: Program) -> frozenset[Op]:
    products = program.where(lambda row: "dot" in row.traits and row.layout == "dot")
    loads = {_load_of(program, tile) for op in products if is_odd((op.a.type.shape[-1], )) for tile in (op.a, op.b, *scales_of(op))}
    return frozenset(loads - {None})


def _load_of(program: Program, value: Value) -> Op | None:
    """The load, behind whose mask are zeros or anything, of which a tile is a cast or has the axes in another order."""
    uses = uses_of(program)
    op = uses.definition.get(value)
    while op is not None and (op.name == "trans" or op.name in _KEEP_ZERO):
        op = uses.definition.get(op.value)
    if op is None or op.name not in ("load", "masked_load"):
        return None
    other = op.other if op.name == "masked_load" else None
    while other is not None and (made := uses.definition.get(other)) is not None and made.name != "constant":
        if made.name not in ("splat", "broadcast", *_KEEP_ZERO):
            return None
        other = made.value
    return op if other is None or made is not None and not made.value else None


@end("store")
def store(padding: Padding, op: Op) -> None:
    pointer, value = padding.writer.now((op.pointer, op.value))
    padding.writer.emit("masked_store", (pointer, value, padding.within(op.pointer.type.shape), op.cache_policy))


@end("make_range")
def make_range(padding: Padding, op: Op) -> None:
    type_ = padded_type(op.type)
    padding.again(op, type=type_, end=op.start + type_.shape[0])


@end("hint")
def hint(padding: Padding, op: Op) -> None:
    """Hold each number to its largest power of two: of neighbours that 176 promises, 16 at a time are surely in the padded tile."""
    padding.again(op, numbers=tuple(number & -number for number in op.numbers))


@end("expand_dims", "trans", "join", "split", "unsplat", "cut", "release_layout", "assert_same_layout", "dump_layout")
def in_place(padding: Padding, op: Op) -> None:
    """Ops that give the axes of a tile other names, leave elements out, or speak of its layout: an element's place along each axis
    stays."""
    padding.again(op)


@end("broadcast")
def broadcast(padding: Padding, op: Op) -> None:
    padding.again(op, type=Tensor(element_of(op.value.type), padded(op.result.type.shape)))


@end("gather")
def gather(padding: Padding, op: Op) -> None:
    writer = padding.writer
    writer.env[op.result] = padding.gathered(writer.now(op.source), padding.indices(op.indices), op.axis)


@end("atomic_cas")
def atomic_cas(padding: Padding, op: Op) -> None:
    """Idle elements go where the last ones of the author's go, and put there what is there: they compare with what they write."""
    writer, shape = padding.writer, op.pointer.type.shape
    pointer, compare, value = writer.now((op.pointer, op.compare, op.value))
    padding.again(op, pointer=padding.last(pointer, shape), compare=writer.emit("select", (padding.within(shape), compare, value)))


@end("histogram")
def histogram(padding: Padding, op: Op) -> None:
    padding.again(op, bins=padded((op.bins, ))[0], mask=padding.both(op.mask, op.value.type.shape))


@end("assert", "assume")
def observed(padding: Padding, op: Op) -> None:
    """Conditions hold of idle elements."""
    condition = padding.writer.now(op.condition)
    outside = padding.writer.by_constant("xor", padding.within(op.condition.type.shape), 1)
    if element_of(condition.type) != I1:
        condition = padding.writer.by_constant("icmpNE", condition, 0)
    padding.again(op, condition=padding.writer.emit("or", (condition, outside)))


@end("dot")
def dot(padding: Padding, op: Op) -> None:
    """Idle elements along K are zeros on both sides: what is idle may be NaN."""
    last = len(op.a.type.shape) - 1
    padding.again(op, a=padding.zero_behind(op.a, last), b=padding.zero_behind(op.b, last - 1))


@end("map_elementwise")
def map_elementwise(padding: Padding, op: Op) -> None:
    if op.pack != 1:
        raise refusal(op, "whose function takes neighbours in a thread, some of which may be idle,", "pack=1.")
    padding.again(op)
