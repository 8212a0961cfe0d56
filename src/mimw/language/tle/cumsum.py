"""`tle.cumsum`: the sums before each element, and the sum of all, with one exchange between warps.

Input: the arguments of a kernel's call. Output: ops `scan` and `reduce`, with `require_layout` for the rows. For
example:

    before, total = tle.cumsum(x)                   x = 1 2 3 4: before = 0 1 3 6, total = 10
    after, total = tle.cumsum(x, reverse=True)      after = 9 7 4 0

The vector is cut into rows of one warp's registers. Each warp scans and sums its rows by shuffles; the sums of the rows
(32 at most) then go to all warps, which is the only way through shared memory, and each warp adds up those before its
own rows.
"""

from __future__ import annotations

import triton.language.core as tl

from ...ir.layouts import Blocked, RegisterLayout, Slice
from ..core import word
from ..described import described
from ..refuse import refuse

_MOST_ROWS = 32  # whose sums one warp adds up in one step
_WIDEST = 16     # bytes that a thread loads at once


@word
def cumsum(input, axis: tl.constexpr = 0, reverse: tl.constexpr = False, dtype: tl.constexpr = None, _semantic=None):
    """(sums before each element, sum of all).

    args:      input   - block tensor of rank 1; a scalar gives (0, itself)
               axis    - 0 or -1
               reverse - sums of what comes after each element instead
               dtype   - (opt) of the sums, to which `input` is cast first; by default int32 or uint32 for narrower integers and
                         bool, fp32 for bf16, else that of `input`
    returns:   exclusive, of the input's shape, and total, a scalar
    errors:    ValueError for other ranks, axes, and element types that have no sum
    not:       a fixed order of floating-point additions. Integers wrap. An infinity or NaN shows only in sums that hold it.
    lowers to: tt.scan and tt.reduce
    example:   before, total = tle.cumsum(keep)
    """
    if not isinstance(reverse, bool):
        refuse(ValueError, f"tle.cumsum: reverse must be a compile-time bool, got {reverse!r}")
    if axis not in (0, -1) or isinstance(axis, bool):
        refuse(ValueError, f"tle.cumsum: axis must be 0, got {axis!r}")
    if dtype is not None and (not isinstance(dtype, tl.dtype) or dtype.is_block()):
        refuse(ValueError, f"tle.cumsum: dtype must be an element type such as tl.int32, got {dtype!r}")
    if isinstance(input, (int, float)):
        input = _semantic.to_tensor(input)
    if not isinstance(input, tl.tensor) or input.type.is_block() and len(input.shape) != 1:
        refuse(ValueError, f"tle.cumsum: `input` must be a block tensor of rank 1, got {described(input)}")
    values = _semantic.cast(input, dtype or _sum_type(input.dtype))
    if not values.dtype.is_int() and not values.dtype.is_floating() or values.dtype.primitive_bitwidth < 8 or values.dtype.is_fp8():
        refuse(ValueError, f"tle.cumsum: elements of {values.dtype} cannot be added; give a wider dtype")
    if not values.type.is_block():
        return tl.tuple([_semantic.cast(_semantic.to_tensor(0), values.dtype), values])
    task = _semantic.builder.task
    warps = task.num_warps if task is not None else getattr(_semantic.builder.options, "num_warps", 4)
    lanes = getattr(_semantic.builder.options, "warp_size", 32)
    return tl.tuple(list(_exclusive(values, reverse, warps, lanes, _semantic)))


def _sum_type(dtype: tl.dtype) -> tl.dtype:
    if dtype.is_bool():
        return tl.int32
    if dtype.is_int() and dtype.primitive_bitwidth < 32:
        return tl.int32 if dtype.is_int_signed() else tl.uint32
    return tl.float32 if dtype.is_bf16() else dtype


def _exclusive(values: tl.tensor, reverse: bool, warps: int, lanes: int, semantic) -> tuple[tl.tensor, tl.tensor]:
    numel = int(values.shape[0])
    if numel & (numel - 1):     # no number of rows: one row, scanned as tl.cumsum scans
        row = semantic.reshape(values, [1, numel], can_reorder=False)
        before = _scan_rows(row, reverse, semantic)
        return semantic.reshape(before, [numel], can_reorder=False), _sum(_sum(row, 1, semantic), 0, semantic)
    each = max(1, min(numel // (lanes * warps), _WIDEST * 8 // values.dtype.primitive_bitwidth))
    length = min(numel, lanes * each)
    count = numel // length
    layout = Blocked((1, each), (1, lanes), (warps, 1), (1, 0))
    rows = _in_layout(semantic.reshape(values, [count, length], can_reorder=False), layout, semantic)
    before = _scan_rows(rows, reverse, semantic)
    sums = _sum(rows, 1, semantic)
    if count == 1:
        return semantic.reshape(before, [numel], can_reorder=False), _sum(sums, 0, semantic)
    if count > _MOST_ROWS:
        base, total = _exclusive(sums, reverse, warps, lanes, semantic)
    else:
        base, total = _sums_of_rows_before(sums, reverse, layout, semantic)
    base = semantic.expand_dims(_in_layout(base, Slice(1, layout), semantic), 1)
    return semantic.reshape(semantic.add(before, base, False), [numel], can_reorder=False), total


def _scan_rows(rows: tl.tensor, reverse: bool, semantic) -> tl.tensor:
    """The sums before each element in its row. Floats carry them along, since x + y - y need not be x."""
    if rows.dtype.is_int():
        (upto, ) = _scan((rows, ), reverse, lambda a, b: [_add(a[0], b[0], semantic)], semantic)
        return semantic.sub(upto, rows, False)
    nothing = semantic.full([int(extent) for extent in rows.shape], 0, rows.dtype)
    # (sum of all but the last, sum of all) of two stretches, one after the other
    before, _ = _scan((nothing, rows), reverse,
                      lambda a, b: [_add(a[1], b[0], semantic), _add(a[1], b[1], semantic)], semantic)
    return before


def _sums_of_rows_before(sums: tl.tensor, reverse: bool, layout: Blocked, semantic) -> tuple[tl.tensor, tl.tensor]:
    """A square with one line per row, that of the rows' sums, of which each line adds up those before it. Lying as the rows do,
    it needs no other exchange."""
    count = int(sums.shape[0])
    everywhere = _in_layout(sums, Slice(0, layout), semantic, pin=True)  # else Triton moves the total before the exchange
    total = _sum(everywhere, 0, semantic)
    line, column = semantic.expand_dims(semantic.arange(0, count), 1), semantic.expand_dims(semantic.arange(0, count), 0)
    earlier = semantic.greater_than(column, line) if reverse else semantic.less_than(column, line)
    shown = semantic.broadcast_impl_shape(semantic.expand_dims(everywhere, 0), [count, count])
    zero = semantic.full([count, count], 0, sums.dtype)
    return _sum(semantic.where(semantic.broadcast_impl_shape(earlier, [count, count]), shown, zero), 1, semantic), total


def _in_layout(value: tl.tensor, layout: RegisterLayout, semantic, pin: bool = False) -> tl.tensor:
    return tl.tensor(semantic.builder.record("require_layout", value.handle, layout, pin).results[0], value.type)


def _add(a: tl.tensor, b: tl.tensor, semantic) -> tl.tensor:
    return semantic.add(a, b, False)


def _scan(inputs: tuple, reverse: bool, combine, semantic) -> tuple:
    return semantic.associative_scan(list(inputs), 1, lambda op: _region(op, inputs, combine, "scan", semantic), reverse)


def _sum(value: tl.tensor, axis: int, semantic) -> tl.tensor:
    def region(op):
        _region(op, (value, ), lambda a, b: [_add(a[0], b[0], semantic)], "reduce", semantic)

    return semantic.reduction([value], axis, region)[0]


def _region(op, inputs: tuple, combine, kind: str, semantic) -> None:
    """Fill in how a scan or reduction combines two elements, each a list of scalars."""
    builder, types = semantic.builder, [value.type.scalar for value in inputs]
    point = builder.get_insertion_point()
    block = builder.create_block_with_parent(op.get_region(0), [type_.to_ir(builder) for type_ in types * 2])
    args = [tl.tensor(block.arg(index), type_) for index, type_ in enumerate(types * 2)]
    results = combine(args[:len(inputs)], args[len(inputs):])
    getattr(builder, f"create_{kind}_ret")(*(result.handle for result in results))
    builder.restore_insertion_point(point)
