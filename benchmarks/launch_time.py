"""Host time of a warm launch: kernels of `mimw.jit` and frozen launches against the same kernel of `triton.jit`.

    python -m benchmarks.launch_time [--rounds 40] [--results DIR]

Needs a GPU and torch. Each round times one block of launches of every candidate in turn, without waiting for the device inside a
block; the kernels do next to nothing, and a block is shorter than the device's queue, so only the host is measured. One kernel has
two pointers and three numbers, another three descriptors. "other tensors" takes the next of eight sets at each launch, "new
addresses" one that was never seen. Besides, the floor: Triton's launcher in C with everything ready, the driver called by ctypes,
an empty kernel. Medians of the blocks and their ratios to stock go to a file of one JSON object a line. Goals: a ratio of at most
1.05 for `mimw.jit`, 3 us for a frozen launch.
"""

from __future__ import annotations

import ctypes
import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import mimw
import mimw.tlx as tlx

from .driver import command, in_turn, keep_row
from .gpu import parsed, torch
from .launch_floor import by_ctypes, by_triton_in_c, empty_kernel

LAUNCHES, SETS = 500, 8


def body(x, y, n, stride, scale, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at * stride, tl.load(x + at, mask=at < n) * scale, mask=at < n)


def body_with_a_word(x, y, n, stride, scale, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tlx.fence("gpu")
    tl.store(y + at * stride, tl.load(x + at, mask=at < n) * scale, mask=at < n)


def body_of_descriptors(a, b, c, n, ROWS: tl.constexpr):
    at = tl.program_id(0) * ROWS
    c.store([at, 0], a.load([at, 0]) + b.load([at, 0]) * n)


CANDIDATES = {
    "triton.jit": triton.jit(body),
    "mimw.jit, plain kernel": mimw.jit(body),
    "mimw.jit, kernel with a word": mimw.jit(body_with_a_word),
}
STOCK_DESCRIPTORS, DESCRIPTORS = triton.jit(body_of_descriptors), mimw.jit(body_of_descriptors)


def block_of_launches(launch: Callable[[], object]) -> float:
    """Microseconds a launch on the host."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * seconds / LAUNCHES


def with_numbers() -> dict[str, Callable[[], object]]:
    """Launches of the kernel with two pointers and three numbers."""
    x, y = torch.randn(128, device="cuda"), torch.zeros(128, device="cuda")
    rest, meta, stream = (128, 1, 2.0), dict(BLOCK=128, FLAG=True, num_warps=4), torch.cuda.current_stream().cuda_stream
    sets = itertools.cycle([(torch.randn(128, device="cuda"), torch.zeros(128, device="cuda")) for _ in range(SETS)])
    found = {}
    for name, kernel in CANDIDATES.items():
        found[name] = partial(lambda kernel: kernel[(1, )](x, y, 128, 1, 2.0, BLOCK=128, FLAG=True, num_warps=4), kernel)
    frozen = CANDIDATES["mimw.jit, kernel with a word"].freeze((1, ), x, y, *rest, **meta)
    plain = CANDIDATES["mimw.jit, plain kernel"].freeze((1, ), x, y, *rest, **meta)

    def other():
        one, two = next(sets)
        frozen(one, two, 128, 1, 2.0)

    def addresses():
        one, two = next(sets)
        frozen.launch(stream, one.data_ptr(), two.data_ptr(), 128, 1, 2.0)

    def only_addresses():
        one, two = next(sets)
        frozen.launch_arrays(stream, one.data_ptr(), two.data_ptr())

    found |= {"frozen, same arguments": frozen, "frozen, same arguments, plain kernel": plain, "frozen, other tensors": other,
              "frozen.launch, other tensors": addresses, "frozen.launch_arrays, other tensors": only_addresses}
    for name, launch in found.items():
        y.zero_()
        launch()
        if "other" not in name:
            torch.testing.assert_close(y, 2 * x)
    for _ in range(2 * SETS):
        one, two = next(sets)
        frozen(one, two, *rest)
        torch.testing.assert_close(two, 2 * one)
    values = [ctypes.c_uint64(x.data_ptr()), ctypes.c_uint64(y.data_ptr()), ctypes.c_int32(128), ctypes.c_float(2.0),
              ctypes.c_uint64(0), ctypes.c_uint64(0)]
    compiled = plain.compiled
    return found | {"floor: Triton's launcher in C": by_triton_in_c(plain),
                    "floor: cuLaunchKernelEx by ctypes": by_ctypes(compiled.function, 128, compiled.metadata.shared, values),
                    "floor: an empty kernel by ctypes": by_ctypes(*empty_kernel(), 0, [])}


def right_once(launch: Callable[[], object], tensors: list[list]) -> None:
    """AssertionError unless a launch writes the sum of one set, and nothing else."""
    for _, _, total in tensors:
        total.zero_()
    launch()
    right = [torch.equal(total, one + 3 * two) for one, two, total in tensors]
    assert sum(right) == 1 and sum(bool(total.any()) for _, _, total in tensors) == 1, right


def with_descriptors() -> dict[str, Callable[[], object]]:
    """Launches of the kernel with three descriptors."""
    tensors = [[torch.randint(-4, 4, (64, 64), device="cuda").half() for _ in range(3)] for _ in range(SETS)]
    sets, stream = itertools.cycle(tensors), torch.cuda.current_stream().cuda_stream
    room = torch.zeros(3, 1 << 20, dtype=torch.float16, device="cuda")
    fresh = itertools.cycle(zip(*(range(row.data_ptr(), row.data_ptr() + (1 << 20), 16) for row in room)))
    a, b, c = (TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in tensors[0])
    frozen = DESCRIPTORS.freeze((1, ), a, b, c, 3, ROWS=64)

    def stock():
        STOCK_DESCRIPTORS[(1, )](a, b, c, 3, ROWS=64)

    def stock_other():
        one, two, three = next(sets)
        STOCK_DESCRIPTORS[(1, )](TensorDescriptor.from_tensor(one, [64, 64]), TensorDescriptor.from_tensor(two, [64, 64]),
                                 TensorDescriptor.from_tensor(three, [64, 64]), 3, ROWS=64)

    def other():
        one, two, three = next(sets)
        frozen(one, two, three, 3)

    def addresses():
        one, two, three = next(sets)
        frozen.launch(stream, one.data_ptr(), two.data_ptr(), three.data_ptr(), 3)

    def only_addresses():
        one, two, three = next(sets)
        frozen.launch_arrays(stream, one.data_ptr(), two.data_ptr(), three.data_ptr())

    def new():
        one, two, three = next(fresh)
        frozen.launch(stream, one, two, three, 3)

    for launch in (stock, stock_other, frozen, other, addresses, only_addresses):
        for _ in range(SETS):
            right_once(launch, tensors)
    return {"triton.jit, 3 descriptors": stock, "triton.jit, 3 descriptors of other tensors": stock_other,
            "frozen, 3 descriptors, same arguments": frozen, "frozen, 3 descriptors, other tensors": other,
            "frozen.launch, 3 descriptors, other tensors": addresses,
            "frozen.launch_arrays, 3 descriptors, other tensors": only_addresses,
            "frozen.launch, 3 descriptors, new addresses": new}


def main() -> None:
    options = parsed(command(__doc__, rounds=40))
    launches = with_numbers() | with_descriptors()
    for launch in launches.values():
        block_of_launches(launch)
    times = in_turn({name: partial(block_of_launches, launch) for name, launch in launches.items()}, options.rounds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    stock = {name: medians["triton.jit, 3 descriptors" if "descriptors" in name else "triton.jit"] for name in medians}
    for name, median in medians.items():
        print(f"{name:50} {median:6.2f} us   {median / stock[name]:.3f} of stock")
    keep_row(dict(name="launch_time", launches=LAUNCHES, rounds=options.rounds,
                  microseconds={n: round(t, 2) for n, t in medians.items()},
                  ratios={n: round(t / stock[n], 3) for n, t in medians.items()},
                  chip=torch.cuda.get_device_name(), torch=torch.__version__), options.results / "launch_time.jsonl")


if __name__ == "__main__":
    main()
