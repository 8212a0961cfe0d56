"""Calls of the library with what it cannot take: said before anything else, by the name of the argument."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import attention, attention_backward, attention_varlen_backward, gemm, moe_align, topk
from mimw.kernels.checks import on_one_gpu


def half(*shape):
    return np.zeros(shape, np.float16)


class Device(SimpleNamespace):
    def __str__(self) -> str:
        return "cpu" if self.type == "cpu" else f"{self.type}:{self.index}"


class Tensor:
    """As much of a torch tensor as the checks look at; what they let through is a torch tensor in the tests on a GPU."""

    def __init__(self, shape, device: str = "cuda", number: int = 0):
        self.shape, self.dtype = shape, np.dtype(np.float16)
        self.device = Device(type=device, index=number)

    def data_ptr(self) -> int:
        return 16


CALLS = {
    "matmul": (gemm.matmul, ("a", "b"), (16, 16)), "attention": (attention.attention, ("q", "k", "v"), (1, 2, 16, 64)),
    "attention_backward": (attention_backward.attention_backward, ("q", "k", "v", "o", "lse", "do"), (1, 2, 16, 64)),
    "attention_varlen_backward": (lambda *arrays: attention_varlen_backward.attention_varlen_backward(*arrays, 16, 16),
                                  ("q", "k", "v", "o", "lse", "do", "cu_seqlens_q", "cu_seqlens_k"), (16, 2, 64)),
    "topk": (lambda x: topk.topk(x, 4), ("x", ), (4, 16)), "align": (lambda ids: moe_align.align(ids, 4, 4), ("topk_ids", ), (8, )),
}


@pytest.fixture(autouse=True)
def no_torch(request, monkeypatch):
    """These checks come before the first use of torch, which the test environment may not have."""
    if request.node.get_closest_marker("gpu"):
        return
    monkeypatch.setitem(__import__("sys").modules, "torch", SimpleNamespace())


@pytest.mark.parametrize("name", CALLS)
def test_tensors_of_the_cpu_and_what_is_no_tensor(name):
    call, names, shape = CALLS[name]
    for position, argument in enumerate(names):
        tensors = [Tensor(shape) for _ in names]
        tensors[position] = Tensor(shape, "cpu")
        with pytest.raises(ValueError, match=rf"{name}: {argument} is on cpu, .* pass {argument}.cuda\(\)"):
            call(*tensors)
        tensors[position] = np.zeros(shape, np.float16)
        with pytest.raises(TypeError, match=f"{name}: {argument} is a ndarray; it takes torch tensors of a GPU"):
            call(*tensors)


def test_tensors_of_two_gpus():
    with pytest.raises(ValueError, match="a is on cuda:0 and b on cuda:1; all must be on one GPU"):
        gemm.matmul(Tensor((16, 16)), Tensor((16, 16), number=1))
    same = Tensor((16, 16))
    on_one_gpu("matmul", a=same, b=same)


@pytest.mark.parametrize("name", ["matmul", "attention", "topk"])
def test_other_ranks_and_empty_tensors(name):
    call, names, shape = CALLS[name]
    for wrong, text in [(shape[:1], f"has 1 dimensions.* must have {len(shape)}"), ((*shape[:2], 1, 1, 1), "has 5 dimensions"),
                        ((0, *shape[1:]), "is empty, 0 x ")]:
        for position, argument in enumerate(names):
            shapes = [shape] * len(names)
            shapes[position] = wrong
            with pytest.raises(ValueError, match=f"{argument} {text}"):
                call(*map(Tensor, shapes))


@pytest.mark.parametrize("k", [0, -1, 17, 2.5, None])
def test_how_many(k):
    with pytest.raises(ValueError, match=f"k must be a whole number from 1 to the 16 numbers of a row, got {k}"):
        topk.topk(Tensor((4, 16)), k)


@pytest.mark.parametrize("experts, block, text", [
    (0, 4, "num_experts is 0"), (2.5, 4, "num_experts is 2.5"), (4, 0, "block_size is 0"), (4, 1.5, "block_size is 1.5")])
def test_how_many_experts(experts, block, text):
    with pytest.raises(ValueError, match=text):
        moe_align.align(Tensor((8, )), experts, block)


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
                                         (np.zeros((16, 16), np.int16), "is int16; it may be bfloat16, float16")])
def test_matrices_of_a_product(name, wrong, text):
    matrices = {one: half(16, 16) for one in "abc"} | {name: wrong}
    with pytest.raises(ValueError, match=f"{name} {text}"):
        gemm.arguments(**matrices, programs=1)


def test_types_of_attention():
    arrays = dict(q=half(1, 2, 16, 64), k=half(1, 2, 16, 64), v=half(1, 2, 16, 64), o=half(1, 2, 16, 64),
                  lse=np.zeros((1, 2, 16), np.float32), counter=np.zeros(1, np.int32))
    for name, wrong, text in [("lse", half(1, 2, 16), "lse is float16; it must be float32"),
                              ("counter", np.zeros(1, np.int64), "counter is int64; it must be int32"),
                              ("counter", np.zeros((), np.int32), "counter has 0 dimensions"),
                              ("lse", np.zeros((2, 16), np.float32), "lse has 2 dimensions"),
                              ("q", half(2, 16, 64), "q has 3 dimensions")]:
        with pytest.raises(ValueError, match=text):
            attention.arguments(**arrays | {name: wrong}, programs=1)
    integers = {name: np.zeros((1, 2, 16, 64), np.int16) for name in "qkvo"}
    with pytest.raises(ValueError, match="all must be bf16 or all fp16"):
        attention.arguments(**arrays | integers, programs=1)
    grid, _, _ = attention.arguments(**arrays, programs=np.int64(3))
    assert grid == (2, )


def test_fp8_matrices_pass():
    a = np.zeros((16, 16), ml_dtypes.float8_e4m3fn)
    assert gemm.arguments(a, a.T, np.zeros((16, 16), ml_dtypes.bfloat16), 5)[0] == (1, )


@pytest.mark.gpu
def test_on_a_gpu():
    import torch
    ones = torch.ones(64, 64, dtype=torch.float16, device="cuda")
    assert (gemm.matmul(ones, ones) == 64).all()
    for wrong in (ones.cpu(), ones[0], ones[None], ones[:0]):
        with pytest.raises(ValueError):
            gemm.matmul(wrong, ones)
        with pytest.raises(ValueError):
            topk.topk(wrong, 4)
    with pytest.raises(ValueError, match="is on cpu"):
        moe_align.align(torch.zeros(8, dtype=torch.int32), 4, 4)
