"""Triton's semantics over our recorder. Hints differ: Triton hangs hints on MLIR values, which do not exist yet.

Input: a word of `tl` and its operands. Output: ops in the recorder. For example:

    tl.multiple_of(n, 16)           hint %n, attribute='tt.divisibility', [16]: lowering makes an attribute of the op
"""

from __future__ import annotations

from math import prod

import triton.language as tl

from ...errors import KernelError
from ...ir.extents import is_odd
from ...ir.tensor_map import block_problem
from ...language.core import capability, chip_of, unwrap
from ...language.refuse import refuse
from ...language.tle.remote_buffer import remote_buffer
from ...language.tle.sharding import ShardedTensor
from ...language.tlx.types import buffered_tensor
from ..triton_port.any_shapes import any_shapes_allowed
from ..triton_port.differences import Semantics


def _pointers(name: str, given):
    """`given`, for the word `name`; ValueError, as Triton's for what is no pointer, with the way from there to pointers."""
    if isinstance(given, ShardedTensor):
        refuse(ValueError, f"{name}: takes pointers, got a {given}",
               mend="take this program's shard by `.handle`, or pointers to another one by tle.remote(tensor, shard)")
    if isinstance(given, (buffered_tensor, remote_buffer)):
        refuse(ValueError, f"{name}: takes pointers, got a {given}",
               mend="take pointers to its elements by tle.gpu.local_ptr(buffer)"
               + (", or all of it by tlx.local_load and tlx.local_store" if isinstance(given, buffered_tensor) else ""))
    return given


class Semantic(Semantics):
    """`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` become ops that lowering turns into attributes."""

    def multiple_of(self, x, values):
        return self._hint("multiple_of", "tt.divisibility", x, values)

    def max_contiguous(self, x, values):
        return self._hint("max_contiguous", "tt.contiguity", x, values)

    def max_constancy(self, x, values):
        return self._hint("max_constancy", "tt.constancy", x, values)

    def make_tensor_descriptor(self, base, shape, strides, block_shape, padding_option="zero"):
        """Make a descriptor as Triton does; a block that TMA cannot copy is refused with the mend."""
        problem = block_problem([unwrap(extent) for extent in block_shape], base.dtype.element_ty.primitive_bitwidth // 8)
        if problem:
            raise KernelError(f"this tensor descriptor is invalid: {problem[0]}.", self.builder.site, hint=f"{problem[1]}.")
        return super().make_tensor_descriptor(base, shape, strides, block_shape, padding_option)

    def arange(self, start, end, *, ret_ty=None):
        """Make a range of any length: Triton's own asks for a power of two."""
        if not (isinstance(start, int) and isinstance(end, int) and any_shapes_allowed() and is_odd((max(1, end - start), ))):
            return super().arange(start, end, ret_ty=ret_ty)
        if start >> 32 or end >> 32:
            raise ValueError("arange must fit in int32")
        ret_ty = ret_ty or tl.block_type(tl.int32, [end - start])
        return self.make_tensor(self.builder.create_make_range(ret_ty.to_ir(self.builder), start, end), ret_ty)

    def load(self, ptr, *args, **keywords):
        return super().load(_pointers("tl.load", ptr), *args, **keywords)

    def store(self, ptr, *args, **keywords):
        return super().store(_pointers("tl.store", ptr), *args, **keywords)

    def atomic_cas(self, ptr, *args, **keywords):
        return super().atomic_cas(_pointers("tl.atomic_cas", ptr), *args, **keywords)

    def _atomic_typechecking_impl(self, ptr, val, mask, op):
        return super()._atomic_typechecking_impl(self._pointers_of(ptr, op), val, mask, op)

    def _pointers_of(self, ptr, op):
        return _pointers(f"tl.atomic_{op}", ptr)

    def reshape(self, input, dst_shape, can_reorder):
        if not input.type.is_block():
            refuse(ValueError, f"tl.reshape takes a tile, not a number of type {input.type}",
                   mend="Triton's tl.flip and tl.bitonic_merge make a number of a tile of one element on their way: `if N > 1:`")
        if is_odd(input.type.shape) and prod(map(unwrap, dst_shape)) != input.numel.value:
            refuse(ValueError, f"reshape: {[*input.type.shape]} has {input.numel.value} elements, and {[*map(unwrap, dst_shape)]} "
                   f"{prod(map(unwrap, dst_shape))}", mend="tl.sort and tl.topk halve a tile again and again: give them "
                   "extents that are powers of two, and fill what is too much by `other=` of the load")
        return super().reshape(input, dst_shape, can_reorder)

    def dot(self, lhs, rhs, acc, input_precision, max_num_imprecise_acc, out_dtype):
        """Multiply as Triton does; refuse an accumulator type that Triton accepts here and fails on later."""
        short = lhs.dtype.is_floating() and lhs.dtype.primitive_bitwidth <= 16 and not lhs.dtype.is_bf16()
        if short and out_dtype is not None and out_dtype not in (tl.float16, tl.bfloat16, tl.float32):
            refuse(ValueError, f"tl.dot: a product of {lhs.dtype} is summed as fp32 or fp16, not as {out_dtype}",
                   mend=f"out_dtype=tl.float32, and .to(tl.{out_dtype.name.replace('fp', 'float')}) behind it")
        if lhs.dtype.is_int() and isinstance(acc, tl.tensor) and acc.dtype != tl.int32:
            refuse(ValueError, f"tl.dot: a product of {lhs.dtype} is summed as int32, and acc holds {acc.dtype}",
                   mend="begin with tl.zeros(shape, tl.int32), and convert the sum behind the last product")
        return super().dot(lhs, rhs, acc, input_precision, max_num_imprecise_acc, out_dtype)

    def descriptor_gather(self, *args, **keywords):
        self._take_row_copies()
        return super().descriptor_gather(*args, **keywords)

    def descriptor_scatter(self, *args, **keywords):
        self._take_row_copies()
        return super().descriptor_scatter(*args, **keywords)

    def _take_row_copies(self):
        """Triton's own path copies picked rows by instructions for four rows (PTX ISA, .tile::gather4 and .tile::scatter4: sm_100a
        and its family) on every chip with TMA, and ptxas refuses them on all others. Ours copies row by row there."""
        chip = chip_of(self)
        if chip and chip.has("tma") and not chip.has("gather4"):
            self.builder.uses_words = True

    def _has_native_tma(self):
        """Triton asks the GPU that is there; what counts is the chip that the kernel is compiled for."""
        return (capability(self) or 0) >= 90

    def cat(self, lhs, rhs, can_reorder):
        """Elements stay in order, also where the author lets Triton reorder them: the simulator has no layouts to take one from."""
        return tl.cat(lhs, rhs, _semantic=self)

    def binary_op_sanitize_overflow_impl(self, lhs, rhs, binary_op):
        """Triton records the check and then drops its assertion, unless debugging is on."""
        if self.builder.options.debug:
            super().binary_op_sanitize_overflow_impl(lhs, rhs, binary_op)

    def _hint(self, word, attribute, x, values):
        x = self.to_tensor(x)
        if max(1, len(x.shape)) != len(values):
            raise ValueError(f"Shape of input to {word} does not match the length of values")
        self.builder.record("hint", x.handle, attribute, tuple(values))
        return x
