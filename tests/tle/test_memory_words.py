"""`alloc`, `slot`, `local_ptr`, `copy`, `memory_space`: what they record, and what they refuse."""

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import OutsideKernel
from mimw.runtime.compile_kernel import compile_kernel
from tests.language.harness import Kernel


@pytest.fixture
def kernel():
    return Kernel()


def ops(kernel):
    return [line.split(" = ")[-1] for line in kernel.text()]


class TestScopes:

    def test_both_spellings_are_the_same_objects(self):
        assert tle.gpu.storage_kind.smem is tle.gpu.smem and tle.gpu.storage_kind.tmem is tle.gpu.tmem
        assert isinstance(tle.gpu.smem, tle.gpu.scope)
        assert tle.gpu.smem.name == "share_memory" and tle.gpu.tmem.name == "tensor_memory"

    def test_both_spellings_in_a_kernel(self):

        @mimw.jit
        def both(x):
            one = tle.gpu.alloc([16], tl.float32, scope=tle.gpu.smem)
            other = tle.gpu.alloc([16], tl.float32, None, tle.gpu.storage_kind.smem)
            tl.store(tle.gpu.local_ptr(one), tl.load(tle.gpu.local_ptr(other)))

        assert compile_kernel(both, {"x": "*fp32"}).stages["ir"].count("local_alloc") == 2


class TestAlloc:

    def test_attributes(self, kernel):
        buffer = kernel(tle.gpu.alloc, [4, 8], tl.float16)
        assert isinstance(buffer, tle.gpu.buffered_tensor) and isinstance(buffer, tlx.buffered_tensor)
        assert tuple(buffer.shape) == (4, 8) and buffer.dtype == tl.float16
        assert tuple(buffer.type.shape) == (4, 8) and buffer.type.element_ty == tl.float16 and buffer.type.layout is None
        assert buffer.type.storage is tlx.storage_kind.smem
        assert buffer.type.storage == tle.gpu.smem and buffer.type.storage != tle.gpu.tmem

    @pytest.mark.parametrize("shape, stored", [([4, 8], "fp16[4, 8]"), ([5], "fp16[8]"), ([3, 5, 6], "fp16[3, 8, 8]"),
                                               ([], "fp16[1]")])
    def test_memory_is_padded_to_powers_of_two_but_for_leading_slots(self, kernel, shape, stored):
        buffer = kernel(tle.gpu.alloc, shape, tl.float16)
        assert tuple(buffer.shape) == tuple(shape) and ops(kernel) == [f"local_alloc buffer<{stored}> : buffer<{stored}>"]

    def test_bool_takes_a_byte(self, kernel):
        assert kernel(tle.gpu.alloc, [8], tl.int1).dtype == tl.int1 and ops(kernel) == ["local_alloc buffer<i8[8]> : buffer<i8[8]>"]

    def test_a_layout_is_pinned(self, kernel):
        kernel(tle.gpu.alloc, [8, 16], tl.float16, layout=tle.gpu.swizzled_shared_layout.make_default(2))
        assert "layout=SwizzledShared(vector=1, per_phase=1, max_phase=1, order=[1, 0])" in kernel.text()[0]

    @pytest.mark.parametrize("arguments, keywords, what", [
        ((8, tl.float16), {}, "shape must be a list or tuple"),
        (([8, 0], tl.float16), {}, "every extent must be a positive compile-time int"),
        (([8, -4], tl.float16), {}, "every extent"),
        (([8, 2.0], tl.float16), {}, "every extent"),
        (([True], tl.float16), {}, "every extent"),
        (([8], 16), {}, "dtype must be a scalar tl.dtype"),
        (([8], tl.pointer_type(tl.float16)), {}, "dtype must be a scalar tl.dtype"),
        (([8], tl.float16), dict(scope="smem"), "scope must be a tle.gpu.scope"),
        (([8], tl.float16), dict(scope=tle.gpu.tmem), "tensor memory not supported on this target"),
        (([8], tl.float16), dict(layout="plain"), "layout must be a shared layout"),
        (([8], tl.float16), dict(layout=tle.gpu.tensor_memory_layout.make_default([8, 8])), "layout must be a shared layout"),
        (([8], tl.float16), dict(init_value=3), "init_value must be a tensor"),
        (([3, 8], tl.float16), dict(layout=tle.gpu.swizzled_shared_layout.make_default(2)), "first extent must be a power of two"),
        (([8], tl.float16), dict(nv_mma_shared_layout=1), "nv_mma_shared_layout must be a bool"),
    ])
    def test_refusals(self, kernel, arguments, keywords, what):
        with pytest.raises(ValueError, match=what):
            kernel(tle.gpu.alloc, *arguments, **keywords)

    @pytest.mark.parametrize("dtype, shape", [(tl.float16, (16, )), (tl.float32, (8, )), (tl.float16, ())])
    def test_an_init_value_must_fit(self, kernel, dtype, shape):
        with pytest.raises(ValueError, match="init_value must be a fp16 tensor of the shape"):
            kernel(tle.gpu.alloc, [8], tl.float16, init_value=kernel.tensor("x", dtype, *shape))

    def test_a_run_time_extent(self, kernel):
        with pytest.raises(ValueError, match="every extent"):
            kernel(tle.gpu.alloc, [kernel.tensor("n", tl.int32)], tl.float16)

    def test_outside_a_kernel(self):
        """As Triton's words, which raise a ValueError."""
        with pytest.raises(OutsideKernel, match="outside a kernel") as found:
            tle.gpu.alloc([8], tl.float16)
        assert isinstance(found.value, ValueError) and isinstance(found.value, RuntimeError)


class TestSlot:

    def test_drops_the_leading_dimension(self, kernel):
        slot = kernel(kernel(tle.gpu.alloc, [3, 8, 16], tl.float16).slot, kernel.tensor("i", tl.int32))
        assert tuple(slot.shape) == (8, 16) and ops(kernel)[-1].startswith("buffer_index")
        assert ops(kernel)[-1].endswith(": buffer<fp16[8, 16]>")
        assert tuple(kernel(slot.slot, 2).shape) == (16, )

    @pytest.mark.parametrize("stage", [1.5, "a", None])
    def test_stages_that_are_no_numbers(self, kernel, stage):
        with pytest.raises(ValueError, match="`stage` must be an int or a scalar int32"):
            kernel(kernel(tle.gpu.alloc, [3, 8], tl.float16).slot, stage)

    @pytest.mark.parametrize("dtype, shape", [(tl.int64, ()), (tl.int32, (4, )), (tl.float32, ())])
    def test_stages_of_another_type(self, kernel, dtype, shape):
        with pytest.raises(ValueError, match="`stage` must be an int or a scalar int32"):
            kernel(kernel(tle.gpu.alloc, [3, 8], tl.float16).slot, kernel.tensor("i", dtype, *shape))

    def test_rank_1(self, kernel):
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            kernel(kernel(tle.gpu.alloc, [8], tl.float16).slot, 0)


class TestLocalPtr:

    @pytest.fixture
    def buffer(self, kernel):
        return kernel(tle.gpu.alloc, [4, 8], tl.float16)

    def test_types(self, kernel, buffer):
        pointer = tl.pointer_type(tl.float16, "shared")
        assert kernel(tle.gpu.local_ptr, buffer).type == tl.block_type(pointer, [4, 8])
        rows, cols = kernel.tensor("r", tl.int64, 2, 16), kernel.tensor("c", tl.int8, 2, 16)
        assert kernel(tle.gpu.local_ptr, buffer, (rows, cols)).type == tl.block_type(pointer, [2, 16])
        assert kernel(tle.gpu.local_ptr, buffer, [1, kernel.tensor("i", tl.int64)]).type == pointer
        assert kernel(tle.gpu.local_ptr, kernel(tle.gpu.alloc, [], tl.float16)).type == pointer
        assert pointer != tl.pointer_type(tl.float16)

    def test_recorded(self, kernel, buffer):
        kernel(tle.gpu.local_ptr, buffer)
        assert ops(kernel)[-1] == "local_ptr %0, shape=[4, 8], pointee=fp16 : shared *fp16[4, 8]"

    @pytest.mark.parametrize("indices, what", [
        (0, "must be a tuple or list"), ((), "0 indices for a buffer of rank 2"), ((1, ), "1 indices for a buffer of rank 2"),
        ((1, 2, 3), "3 indices"), ((1, 2.0), "index 1 must be an integer"), ((1, None), "index 1 must be an integer"),
    ])
    def test_refusals(self, kernel, buffer, indices, what):
        with pytest.raises(ValueError, match=what):
            kernel(tle.gpu.local_ptr, buffer, indices)

    def test_indices_broadcast_as_numpys_do(self, kernel, buffer):
        column, row, number = kernel.tensor("a", tl.int32, 4, 1), kernel.tensor("b", tl.int32, 8), kernel.tensor("i", tl.int32)
        for pair in ((column, row), (row, column), (column, kernel.tensor("r", tl.int32, 1, 8))):
            assert kernel(tle.gpu.local_ptr, buffer, pair).type.shape == [4, 8]
        for pair in ((number, row), (0, row), (row, number)):
            assert kernel(tle.gpu.local_ptr, buffer, pair).type.shape == [8]
        with pytest.raises(ValueError, match=r"\[4, 1\], \[2, 8\] do not broadcast to one shape"):
            kernel(tle.gpu.local_ptr, buffer, (column, kernel.tensor("c", tl.int32, 2, 8)))
        with pytest.raises(ValueError, match="index 0 must be an integer"):
            kernel(tle.gpu.local_ptr, buffer, (kernel.tensor("f", tl.float32, 4), kernel.tensor("g", tl.int32, 4)))

    def test_not_a_buffer(self, kernel):
        with pytest.raises(ValueError, match="`buffer` must be a buffered_tensor"):
            kernel(tle.gpu.local_ptr, kernel.tensor("x", tl.float16, 4))

    def test_a_full_view_of_what_is_no_tile(self, kernel):
        with pytest.raises(ValueError, match="power of 2"):
            kernel(tle.gpu.local_ptr, kernel(tle.gpu.alloc, [12], tl.float16))


class TestCopy:

    @pytest.fixture
    def buffer(self, kernel):
        return kernel(tle.gpu.alloc, [8, 16], tl.float16)

    @pytest.fixture
    def desc(self, kernel):
        return kernel.descriptor("desc", tl.float16, 8, 16)

    @pytest.fixture
    def pointers(self, kernel):
        return kernel.tensor("x", tl.pointer_type(tl.float16), 8, 16)

    def test_by_descriptor(self, kernel, buffer, desc):
        kernel(tle.gpu.copy, desc, buffer, [8, 16], [0, kernel.tensor("i", tl.int32)])
        kernel(tle.gpu.copy, buffer, desc, (8, 16), (0, 0))
        assert [op.split()[0] for op in ops(kernel)[1:]] == ["tma_fetch", "fence", "tma_store", "tma_store_wait"]

    def test_refusals(self, kernel, buffer, desc, pointers):
        other = kernel(tle.gpu.alloc, [8, 16], tl.float16)
        wide, shared = kernel.descriptor("wide", tl.float32, 8, 16), kernel(tle.gpu.local_ptr, other)
        narrow = kernel.tensor("n", tl.pointer_type(tl.float16), 4, 16)
        floats = kernel.tensor("f", tl.pointer_type(tl.float32), 8, 16)
        slice_of_one = kernel(tle.gpu.alloc, [1, 8, 16], tl.float16)
        cases = [
            ((buffer, other, [8, 16]), "both operands are buffers"),
            ((desc, desc, [8, 16]), "one operand must be a buffered_tensor"),
            ((pointers, desc, [8, 16]), "one operand must be a buffered_tensor"),
            ((buffer, 3, [8, 16]), "pointers to global memory"),
            ((shared, buffer, [8, 16]), "must point to global memory"),
            ((desc, buffer, [8, 16]), "needs `offsets`"),
            ((desc, buffer, [8, 16], [0]), "expected 2 offsets"),
            ((desc, buffer, [8, 16], [0, 0, 0]), "expected 2 offsets"),
            ((desc, buffer, [8, 16], [0, 0.5]), "each offset must be an int"),
            ((desc, buffer, [4, 16], [0, 0]), "must be equal"),
            ((desc, slice_of_one, [1, 8, 16], [0, 0]), "must be equal"),
            ((wide, buffer, [8, 16], [0, 0]), "is of fp32, the buffer of fp16"),
            ((pointers, buffer, 8), "shape must be a list"),
            ((pointers, buffer, [8]), "is no box"),
            ((pointers, buffer, [8, 32]), "is no box"),
            ((narrow, buffer, [8, 16]), "it must be the buffer's"),
            ((floats, buffer, [8, 16]), "are to fp32"),
            ((pointers, buffer, [8, 16], [0, 0]), "belong to a tensor descriptor"),
            ((desc, buffer, [8, 16], [0, 0], 1), "`barrier` is not offered"),
        ]
        for arguments, what in cases:
            with pytest.raises(ValueError, match=what):
                kernel(tle.gpu.copy, *arguments)


class TestMemorySpace:

    def test_is_a_wish(self, kernel):
        tile = kernel.tensor("x", tl.float16, 8)
        assert kernel(tle.gpu.memory_space, tile, "shared_memory") is tile

    def test_refusals(self, kernel):
        with pytest.raises(ValueError, match="`input` must be a tensor"):
            kernel(tle.gpu.memory_space, 3, "register")
        with pytest.raises(ValueError, match="`space` must be a compile-time string"):
            kernel(tle.gpu.memory_space, kernel.tensor("x", tl.float16, 8), 3)


def refusal(fn, signature, **constexprs):
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(fn, signature, constexprs)
    return caught.value


class TestWhatPointersCannotDo:
    """Seen when the whole kernel is there."""

    def test_two_buffers_in_one_pointer(self):

        @mimw.jit
        def choose(x, which):
            one, other = tle.gpu.alloc([16], tl.float32), tle.gpu.alloc([16], tl.float32)
            pointers = tle.gpu.local_ptr(one)
            if which > 0:
                pointers = tle.gpu.local_ptr(other)
            tl.store(x + tl.arange(0, 16), tl.load(pointers))

        text = str(refusal(choose, {"x": "*fp32", "which": "i32"}))
        assert "chosen at run time between several buffers: one and other" in text and "Mend:" in text

    def test_shared_and_global_in_one_pointer(self):

        @mimw.jit
        def mix(x, which):
            pointers = tle.gpu.local_ptr(tle.gpu.alloc([16], tl.float32))
            tl.store(tl.where(which > 0, pointers, x + tl.arange(0, 16)), 0.0)

        error = refusal(mix, {"x": "*fp32", "which": "i32"})
        while error.__cause__ is not None:
            error = error.__cause__
        assert str(error) == "invalid operands of type shared pointer<fp32> and pointer<fp32>"

    def test_another_width(self):

        @mimw.jit
        def narrow(x):
            pointers = tle.gpu.local_ptr(tle.gpu.alloc([16], tl.float32)).to(tl.pointer_type(tl.int8, "shared"), bitcast=True)
            tl.store(x + tl.arange(0, 16), tl.load(pointers))

        assert "takes i8 through a pointer into a buffer of fp32" in str(refusal(narrow, {"x": "*i8"}))

    def test_as_a_number(self):

        @mimw.jit
        def number(x):
            tl.store(x + tl.arange(0, 16), tle.gpu.local_ptr(tle.gpu.alloc([16], tl.float32)).to(tl.int64))

        assert "cannot be used by ptr_to_int" in str(refusal(number, {"x": "*i64"}))
