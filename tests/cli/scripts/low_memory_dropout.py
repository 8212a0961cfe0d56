"""Dropout with a kept mask, then with a seed in the mask's place.

Input: none. Output: two tables of values:

    mimw run low_memory_dropout.py
"""

import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def _dropout(x_ptr, x_keep_ptr, output_ptr, n_elements, p, BLOCK_SIZE: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = at < n_elements
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.load(x_keep_ptr + at, mask=inside)
    tl.store(output_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def dropout(x, x_keep, p):
    output = torch.empty_like(x)
    assert x.is_contiguous()
    n_elements = x.numel()
    _dropout[lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]), )](x, x_keep, output, n_elements, p, BLOCK_SIZE=1024)
    return output


@triton.jit
def _seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = at < n_elements
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.rand(seed, at) > p
    tl.store(output_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def seeded_dropout(x, p, seed):
    output = torch.empty_like(x)
    assert x.is_contiguous()
    n_elements = x.numel()
    _seeded_dropout[lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]), )](x, output, n_elements, p, seed, BLOCK_SIZE=1024)
    return output


x = torch.randn(size=(10, ), device=DEVICE)
p = 0.5
x_keep = (torch.rand(size=(10, ), device=DEVICE) > p).to(torch.int32)
output = dropout(x, x_keep=x_keep, p=p)
assert torch.equal(output, torch.where(x_keep.bool(), x / (1 - p), 0.0))
print("kept:", output.count_nonzero().item() == x_keep.sum().item())

output, output2, output3 = (seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 123, 512))
assert torch.equal(output, output2) and not torch.equal(output, output3)
assert torch.all((output == 0) | (output == x / (1 - p)))
print("the same seed drops the same elements")
