"""Calls of the library with what it cannot take: said before anything else, by the name of the argument."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import attention, gemm, moe_align


def half(*shape):
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize("experts, block, text", [
    (0, 4, "num_experts is 0"), (2.5, 4, "num_experts is 2.5"), (4, 0, "block_size is 0"), (4, 1.5, "block_size is 1.5")])
def test_how_many_experts(experts, block, text):
    with pytest.raises(ValueError, match=text):
        moe_align.arguments(*(np.zeros(8, np.int32) for _ in range(5)), experts, block, 4)


@pytest.mark.parametrize("programs", [0, -1, 1.5, None])
def test_no_programs(programs):
    with pytest.raises(ValueError, match=f"programs is {programs}; it must be a whole number of 1 or more"):
        gemm.arguments(half(16, 16), half(16, 16), half(16, 16), programs)
    with pytest.raises(ValueError, match=f"programs is {programs}"):
        attention.arguments(*[half(1, 2, 16, 64)] * 4, np.zeros((1, 2, 16), np.float32), np.zeros(1, np.int32), programs)
    outs = [np.zeros(size, np.int32) for size in (*moe_align.outputs(8, 4, 4), 4)]
    with pytest.raises(ValueError, match=f"sms is {programs}"):
        moe_align.arguments(np.zeros(8, np.int32), *outs, 4, 4, programs)


@pytest.mark.parametrize("name", "abc")
@pytest.mark.parametrize("wrong, text", [(half(16), "has 1 dimensions"), (half(1, 16, 16), "has 3 dimensions"),
                                         (half(0, 16), "is empty"),
                                         (np.zeros((16, 16), np.int16), "(is )?int16; (it may|both must) be")])
def test_matrices_of_a_product(name, wrong, text):
    matrices = {one: half(16, 16) for one in "abc"} | {name: wrong}
    with pytest.raises(ValueError, match=f"{name} {text}"):
        gemm.arguments(**matrices, programs=1)


def test_types_of_attention():
    arrays = dict(q=half(1, 2, 16, 64), k=half(1, 2, 16, 64), v=half(1, 2, 16, 64), o=half(1, 2, 16, 64),
                  lse=np.zeros((1, 2, 16), np.float32), counter=np.zeros(1, np.int32))
    for name, wrong, text in [("lse", half(1, 2, 16), "lse is float16; it may be float32"),
                              ("counter", np.zeros(1, np.int64), "counter is int64; it may be int32"),
                              ("counter", np.zeros((), np.int32), "counter has 0 dimensions"),
                              ("lse", np.zeros((2, 16), np.float32), "lse has 2 dimensions"),
                              ("q", half(2, 16, 64), "q has 3 dimensions")]:
        with pytest.raises(ValueError, match=text):
            attention.arguments(**arrays | {name: wrong}, programs=1)
    integers = {name: np.zeros((1, 2, 16, 64), np.int16) for name in "qkvo"}
    with pytest.raises(ValueError, match="q is int16; it may be bfloat16, float16"):
        attention.arguments(**arrays | integers, programs=1)
    grid, _, _ = attention.arguments(**arrays, programs=np.int64(3))
    assert grid == (2, )


def test_fp8_matrices_pass():
    a = np.zeros((16, 16), ml_dtypes.float8_e4m3fn)
    assert gemm.arguments(a, a.T, np.zeros((16, 16), ml_dtypes.bfloat16), 5)[0] == (1, )
