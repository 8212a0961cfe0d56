"""A kernel of loads and stores of tiles, most of which are no boxes, each on a line of its own with the reason behind it.

Input: `case()`. Output: (kernel, grid, arguments, constants); `reasons()` says of each line what is behind `# ->`. For example:

    x = tl.load(at, mask=inside, other=1.0)     # -> what stands for elements outside of the mask is not 0
"""

import inspect

import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def refused(a, b, table, c, M, N, K, stride, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    row, col = tl.program_id(0) * B, tl.program_id(1) * B
    rows, cols = (row + i)[:, None], (col + j)[None, :]
    at = a + rows * stride + cols
    inside = (rows < M) & (cols < N)
    tl.load(at, mask=inside, other=0.0)  # -> box
    tl.load(at, mask=inside)  # -> box
    tl.load(at, mask=(M > rows) & (cols <= N - 1) & (rows >= 0), other=0)  # -> box
    tl.load(tl.multiple_of(at, [1, 16]), mask=inside, eviction_policy="evict_last")  # -> box
    tl.load(at, mask=inside, other=1.0)  # -> what stands for elements outside of the mask is not 0
    tl.load(at, mask=inside, other=-0.0)  # -> what stands for elements outside of the mask is not 0
    tl.load(a + (rows % M) * stride + cols)  # -> its rows or columns wrap around: a remainder on line
    tl.load(a + rows * stride + cols * 2)  # -> no axis of its tile has stride 1
    tl.load(a + rows + cols)  # -> both axes of its tile have stride 1
    tl.load(a + (row * stride) + cols + tl.zeros((B, 1), tl.int32))  # -> one axis of its tile stays where it is: stride 0
    tl.load(a + rows * (stride + 1) + cols)  # -> the stride stride + 1 is a sum or negative
    tl.load(a - rows * stride + cols)  # -> the stride -stride is a sum or negative
    tl.load(a + rows * tl.load(table) + cols)  # -> is not made of arguments alone
    tl.load(at + tl.load(table), mask=rows < M)  # -> its block begins anywhere in a row
    tl.load(at + tl.load(table) * B, mask=rows < M)  # -> which nothing bounds before the launch
    tl.load(a + rows * rows * stride + cols)  # -> its address multiplies positions with each other
    tl.load(at + tl.program_id(2), mask=rows < M)  # -> its block begins anywhere in a row
    tl.load(at, mask=(i[:, None] < M) & (cols < N))  # -> bounds something else than the address moves by: N +
    tl.load(at, mask=rows < tl.load(table))  # -> has to run, and a descriptor's extents are made of arguments
    tl.load(at, mask=rows < 0)  # -> leaves an axis of 0 elements, by constants of this launch
    tl.load(at, mask=(rows < M) & (rows < K))  # -> its mask bounds one axis twice
    tl.load(at, mask=rows >= 1)  # -> box
    tl.load(at, mask=(cols >= 8) & (cols < N))  # -> begins elsewhere than the tensor
    tl.load(at, mask=(rows < M) & (cols >= 8) & (rows >= 1))  # -> begins elsewhere than the tensor
    tl.load(at, mask=(rows < M) | (cols < N))  # -> its mask takes `or` on line
    tl.load(at, mask=rows + cols < N)  # -> what bounds no axis
    tl.load(at, mask=rows * 2 < N)  # -> what bounds no axis
    tl.load(at, mask=rows != 3)  # -> what bounds no axis
    tl.load(at, mask=inside & (row < K))  # -> what bounds no axis
    tl.load(a + rows * 12 + cols)  # -> 16 bytes do not divide the stride 12
    tl.load(a + (rows - 2) * stride + cols + 8)  # -> box
    tl.load(a + i[:, None] * stride + cols - 2 * stride)  # -> a block may begin at -2, in front of the tensor
    tl.load(a + tl.load(table + i)[:, None] * stride + cols)  # -> which is no sum of positions times strides
    tl.load(a + rows * stride + (j // 2)[None, :])  # -> which is no sum of positions times strides
    tl.load((a + tl.arange(0, B)[:, None] * stride + tl.arange(0, 4)[None, :]), mask=(i < M)[:, None])  # -> at least 16 bytes
    tl.load(at, mask=inside, volatile=True)  # -> it is volatile
    tl.load(at, mask=inside, cache_modifier=".cv")  # -> it goes past the caches, which a descriptor cannot
    tl.load(b + rows * stride + cols)  # -> writes the same array
    tl.store(b + rows * stride + cols, tl.zeros((B, B), tl.float16))  # -> accesses the same array
    for k in range(K):
        tl.store(c + rows * stride + cols, tl.zeros((B, B), tl.float16))  # -> may write one place in two of its rounds


def case(m=32, n=32, block=16):
    a, b, c = (np.zeros((m, n), np.float16) for _ in range(3))
    return refused, (2, 2), (a, b, np.zeros(64, np.int32), c, m, n, 2, n), dict(B=block, num_warps=1)


def reasons() -> dict[int, str]:
    """What is said of the loads and stores, by line."""
    lines, first = inspect.getsourcelines(refused.fn)
    return {first + number: line.partition("# -> ")[2].strip() for number, line in enumerate(lines) if "# -> " in line}
