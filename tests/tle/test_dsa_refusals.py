"""What the words of `tle.dsa` refuse: each kind of wrong argument, with the class of the error and the user's line."""

import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import record_kernel

UB = tle.dsa.ascend.UB
SIGNATURE = {"x": "*fp32", "i": "*i32", "n": "i32"}


def buffer(shape, dtype="float32"):
    return f"tle.dsa.alloc({shape}, tl.{dtype}, UB)"


CASES = [
    # alloc
    (TypeError, "mem_addr_space", "tle.dsa.alloc([4], tl.float32)"),
    (ValueError, "must be an address space, got None", "tle.dsa.alloc([4], tl.float32, None)"),
    (ValueError, "must be an address space, got 'UB'", "tle.dsa.alloc([4], tl.float32, 'UB')"),
    (ValueError, "`shape` must be a list or tuple of at least one int", "tle.dsa.alloc([], tl.float32, UB)"),
    (ValueError, "positive compile-time int, got 0", "tle.dsa.alloc([4, 0], tl.float32, UB)"),
    (ValueError, "must be a compile-time int, got the run-time value", "tle.dsa.alloc([n], tl.float32, UB)"),
    (ValueError, "dtype must be a scalar tl.dtype", "tle.dsa.alloc([4], 4, UB)"),
    # copy
    (ValueError, "at least one extent", "tle.dsa.copy(x + at, a, [])"),
    (ValueError, "both operands are buffers", "tle.dsa.copy(a, a, [50])"),
    (ValueError, "one operand must be a buffer", "tle.dsa.copy(x + at, x + at, [50])"),
    (ValueError, "must be pointers to global memory, got <['64'], fp32>", "tle.dsa.copy(tl.load(x + at), a, [50])"),
    (ValueError, "these come from local_ptr", "tle.dsa.copy(tle.dsa.local_ptr(a, [at]), a, [50])"),
    (ValueError, "`shape` has 2 extents, the buffer [50] has rank 1", "tle.dsa.copy(x + at, a, [5, 5])"),
    (ValueError, "pointers of the shape [1, 64] for a buffer of rank 1", "tle.dsa.copy(x + at[None, :], a, [50])"),
    (ValueError, "extent 51 of `shape` does not fit into the 50 elements", "tle.dsa.copy(a, x + at, [51])"),
    (ValueError, "is more than the 32 pointers", "tle.dsa.copy(x + tl.arange(0, 32), a, [50])"),
    (ValueError, "must be an int or an integer scalar, got 1.5", "tle.dsa.copy(x + at, a, [1.5])"),
    (ValueError, "the pointers are to int32, the buffer is of fp32", "tle.dsa.copy(i + at, a, [50])"),
    (ValueError, "must be a constexpr", "tle.dsa.copy(x + at, a, [50], n > 2)"),
    (ValueError, "must be a compile-time bool, got 3", "tle.dsa.copy(x + at, a, [50], inter_no_alias=3)"),
    # local_ptr
    (ValueError, "is no buffer of tle.dsa", "tle.dsa.local_ptr(tle.gpu.alloc([64], tl.float32))"),
    (ValueError, "`buffer` must be a buffered_tensor", "tle.gpu.local_ptr(a)"),
    (ValueError, "cannot be on", "tle.dsa.local_ptr(a)"),
    (ValueError, "2 indices for a buffer of rank 1", "tle.dsa.local_ptr(a, [at, at])"),
    (ValueError, "[64], [32] do not broadcast", f"tle.dsa.local_ptr({buffer([4, 4])}, [at, tl.arange(0, 32)])"),
    # to_tensor, to_buffer
    (ValueError, "must be a buffer of tle.dsa", "tle.dsa.to_tensor(x)"),
    (ValueError, "cannot be on", "tle.dsa.to_tensor(a)"),
    (ValueError, "has 32 elements, the buffer", f"tle.dsa.to_tensor({buffer([64])}, target_shape=[4, 8])"),
    (ValueError, "`writable` must be", f"tle.dsa.to_tensor({buffer([64])}, 2)"),
    (TypeError, "must be a block tensor, got the scalar int32", "tle.dsa.to_buffer(n, UB)"),
    (ValueError, "`bind_buffer` must be None", "tle.dsa.to_buffer(at, UB, a)"),
    (ValueError, "must be an address space", "tle.dsa.to_buffer(at, 'UB')"),
    # arithmetic
    (ValueError, "`lhs` has [50] and `rhs` [25]", f"tle.dsa.add(a, {buffer([25])}, a)"),
    (ValueError, "`lhs` has [50] and `out` [50, 1]", f"tle.dsa.max(a, a, {buffer([50, 1])})"),
    (ValueError, "`lhs` holds fp32 and `out` fp16", f"tle.dsa.sub(a, a, {buffer([50], 'float16')})"),
    (ValueError, "`rhs` must be a buffer of tle.dsa, got 2", "tle.dsa.mul(a, 2, a)"),
    (ValueError, "buffers of floats or integers", f"b = {buffer([8], 'int1')}\n    tle.dsa.div(b, b, b)"),
    # loops and hints
    (RuntimeError, "is used as `with", "tle.dsa.hint(inter_no_alias=True)"),
    (ValueError, "must be known at compile time", "with tle.dsa.hint(inter_no_alias=n > 2):\n        a = a"),
    # slices and views
    (ValueError, "`full` must be a block tensor", "tle.dsa.extract_slice(n, [], [], [])"),
    (ValueError, "`offsets` has 2 entries for the shape [64] of rank 1", "tle.dsa.extract_slice(at, [0, 0], [4], [1])"),
    (ValueError, "`sizes` has 2 entries", "tle.dsa.extract_slice(at, [0], [4, 4], [1])"),
    (ValueError, "the box ends at element 64 of 64", "tle.dsa.extract_slice(at, [4], [16], [4])"),
    (ValueError, "-1 in `offsets` is outside", "tle.dsa.extract_slice(at, [-1], [16], [1])"),
    (ValueError, "must be a compile-time int, got the run-time value", "tle.dsa.extract_slice(at, [0], [n], [1])"),
    (ValueError, "cannot be on", "tle.dsa.extract_slice(at, [0], [5], [1])"),
    (ValueError, "`sub` has the shape [64], and `sizes` says [32]", "tle.dsa.insert_slice(at, at, [0], [32], [1])"),
    (ValueError, "`sub` holds fp32, `full` int32", "tle.dsa.insert_slice(at, tl.load(x + at), [0])"),
    (ValueError, "64 in `indice` is outside the 64 elements", "tle.dsa.extract_element(at, (64, ))"),
    (ValueError, "`indice` must be a list or tuple", "tle.dsa.extract_element(at, 3)"),
    (ValueError, "-2 in `offsets` is outside", "tle.dsa.subview(a, [-2], [4], [1])"),
    (ValueError, "the box ends at element 50 of 50", "tle.dsa.subview(a, [1], [50], [1])"),
    (TypeError, "every entry of `sizes` must be a compile-time int", "tle.dsa.subview(a, [0], [n], [1])"),
    (TypeError, "every entry of `strides` must be a compile-time int", "tle.dsa.subview(a, [0], [4], [n])"),
    (ValueError, "must be a buffer of tle.dsa", "tle.dsa.subview(at, [0], [4], [1])"),
]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A kernel for each case, in one file: they are too many to be written out."""
    text = ["import triton.language as tl", "import mimw", "import mimw.tle as tle", "UB = tle.dsa.ascend.UB", ""]
    for number, (_, _, call) in enumerate(CASES):
        text += ["@mimw.jit", f"def kernel_{number}(x, i, n):", "    at = tl.arange(0, 64)", f"    a = {buffer([50])}"]
        text += [f"    {call}", ""]
    path = tmp_path_factory.mktemp("refused") / "kernels.py"
    path.write_text("\n".join(text))
    names: dict = {"__name__": "refused_kernels"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case[2][:40] for case in CASES])
def test_refused(kernels, number):
    error, words, call = CASES[number]
    with pytest.raises(CompilationError) as caught:
        record_kernel(kernels[f"kernel_{number}"], SIGNATURE, {}, "sm_90a")
    cause = caught.value
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert type(cause) is error and words in str(cause), repr(cause)


def test_outside_of_a_kernel():
    """As any word of ours: a call on the host says what is missing."""
    with pytest.raises(RuntimeError, match="outside a kernel"):
        tle.dsa.alloc([4], tl.float32, UB)
    assert mimw.jit
