"""The rows: what is launched, how it has to end on a GPU, and what the simulator says of it.

Input: nothing. Output: `ROWS`, by name:

    ROWS["store at a negative row"]       ends in "fault: illegal instruction" on a GPU, and in IllegalCopy on the simulator

No kernel here and no CUDA: who starts the processes of the rows must not have touched a GPU. A row gives its arrays anew each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mimw import TensorDescriptor

ILLEGAL, MISALIGNED, ADDRESS = "fault: an illegal instruction", "fault: misaligned address", "fault: an illegal memory access"
HANGS, FAULTS = "hangs", "fault: .*"
FAULTS_OR_NOT, OPEN = f"{FAULTS}|defined: .*", f"{HANGS}|{FAULTS}|defined: .*"     # what no manual says, and nobody may rely on
REDUCTIONS = (("uint64", "add"), ("int64", "max"), ("uint64", "or"), ("float16", "max"), ("float32", "add"), ("int32", "xor"))
FAR = (1 << 31) - 16        # a row beyond any tensor whose number still fits


@dataclass(frozen=True)
class Row:
    """`arguments()` gives what `kernel` takes, the results last of all arrays. `ends` is a pattern of "fault: ...", "hangs" or
    "defined: ..." with what `says` makes of the result; several patterns where PTX leaves it open. `simulated` is the class of the
    simulator's error, "" if it ends as on the GPU."""

    kernel: str
    arguments: Callable[[], tuple]
    ends: str
    simulated: str
    says: Callable[[np.ndarray], str] = field(default=lambda y: f"{int(np.count_nonzero(y))} elements written")
    meta: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = (1, )

    def right(self, outcome: str) -> bool:
        return re.fullmatch(self.ends, outcome) is not None


def described(array: np.ndarray, *block: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(array, list(block))


def counted() -> np.ndarray:
    return np.arange(1, 1025).reshape(16, 64).astype(np.float16)


def target() -> np.ndarray:
    return np.zeros((16, 64), np.float16)


def storing(*at: int, kernel: str = "store", ends: str = ILLEGAL, simulated: str = "IllegalCopy") -> Row:
    return Row(kernel, lambda: (described(target(), 8, 16), *at), ends, simulated)


def loading(*at: int, kernel: str = "load", ends: str = ILLEGAL, simulated: str = "IllegalCopy") -> Row:
    return Row(kernel, lambda: (described(counted(), 8, 16), np.zeros((8, 16), np.float16), *at), ends, simulated,
               lambda y: f"rows begin with {y[:, 0].astype(int).tolist()}")


def picking(first: int = 0, column: int = 0, to: int = 0, ends: str = ILLEGAL, simulated: str = "IllegalCopy") -> Row:
    numbers = np.arange(8, dtype=np.int32)
    return Row("rows", lambda: (described(counted(), 1, 64), described(target(), 1, 64), numbers,
                                np.where(numbers == 3, to, numbers).astype(np.int32), first, column), ends, simulated)


def lining(dtype, at: int, how: str, ends: str, simulated: str) -> Row:
    return Row("store_line", lambda: (described(np.zeros(64, dtype), 16), at, how), ends, simulated)


def making(simulated: str, extent: int = 16, stride: int = 64, ahead: int = 0, stores: bool = False) -> Row:
    return Row("made", lambda: (counted(), target(), extent, stride, ahead, stores), FAULTS_OR_NOT, simulated)


def bulk(ahead: int, size: int, expected: int = 0, ends: str = MISALIGNED, simulated: str = "IllegalCopy") -> Row:
    if expected:
        return Row("bulk_load", lambda: (counted(), np.zeros(64, np.float16), ahead, size, expected), ends, simulated,
                   lambda y: f"{int(np.count_nonzero(y != -1))} elements copied")
    return Row("bulk_store", lambda: (np.zeros(128, np.float16), ahead, size), ends, simulated)


def waiting(kernel: str, *numbers: int, ends: str, simulated: str, arrays: tuple = (), **more: Any) -> Row:
    return Row(kernel, lambda: (*(make() for make in arrays), np.zeros(16, np.float32), *numbers), ends, simulated, **more)


def _block() -> TensorDescriptor:
    return described(counted(), 8, 16)


ROWS: dict[str, Row] = {
    "store at a negative row": storing(-4, 0),
    "store at a negative column": storing(0, -8),
    "store wholly in front of the tensor": storing(-64, 0),
    "store at a negative place of one dimension": lining(np.float16, -8, "", ILLEGAL, "IllegalCopy"),
    "reduction at a negative place of one dimension": lining(np.float16, -8, "add", ILLEGAL, "IllegalCopy"),
    "reduction at a negative row": storing(-4, 0, kernel="reduce"),
    **{f"reduction of {name} by {how}": lining(name, 16, how, "defined: 16 elements written", "") for name, how in REDUCTIONS},
    "scatter to a negative row": picking(to=-1),
    "scatter to a negative column": picking(column=-8),
    "store at an odd column": storing(0, 4),
    "reduction at an odd column": storing(0, 4, kernel="reduce"),
    "load at an odd column": loading(0, 4),
    "load at an odd negative column": loading(0, -4),
    "multicast at an odd column": loading(0, 4, kernel="multicast"),
    "prefetch at an odd column": Row("prefetch", lambda: (_block(), np.zeros(1, np.float32), 0, 4),
                                     f"{ILLEGAL}|defined: 1 elements written", "IllegalCopy"),
    "gather at an odd column": picking(first=4),
    "load at negative rows": loading(-4, 0, ends=r"defined: rows begin with \[0, 0, 0, 0, 1, 65, 129, 193\]", simulated=""),
    "load at a negative column": loading(0, -8, ends=r"defined: rows begin with \[0, 0, 0, 0, 0, 0, 0, 0\]", simulated=""),
    "load far behind the tensor": loading(FAR, 0, ends=r"defined: rows begin with \[0, 0, 0, 0, 0, 0, 0, 0\]", simulated=""),
    "store over the far edges": storing(12, 56, ends="defined: 32 elements written", simulated=""),
    "store far behind the tensor": storing(FAR, 0, ends="defined: 0 elements written", simulated=""),
    "scatter behind the last row": picking(to=1 << 20, ends="defined: 448 elements written", simulated=""),
    "load by a descriptor of no rows": making("IllegalCopy", extent=0),
    "store by a descriptor of no rows": making("IllegalCopy", extent=0, stores=True),
    "load by a descriptor with an odd stride": making("SimulatorMisuse", stride=60),
    "load by a descriptor from an odd address": making("SimulatorMisuse", extent=8, ahead=4),
    "bulk load from an odd address": bulk(4, 64, 64),
    "bulk store to an odd address": bulk(4, 64),
    "bulk load of an odd size": bulk(0, 24, 24, ends=OPEN),
    "bulk store of an odd size": bulk(0, 24, ends=f"{FAULTS}|defined: (8|12|16) elements written"),
    "bulk load": bulk(8, 64, 64, ends="defined: 32 elements copied", simulated=""),
    "wait for a phase": waiting("arrivals", 0, 0, ends="defined: 1 elements written", simulated=""),
    "wait for a phase that is two behind": waiting("arrivals", 1, 0, ends=HANGS, simulated="WaitCycle"),
    "as many arrivals as a phase counts": waiting("most_arrivals", (1 << 20) - 1, ends="defined: 1 elements written", simulated=""),
    "waits for more groups than there are": Row(
        "groups", lambda: (np.eye(64, dtype=np.float16), np.zeros((64, 64), np.float32), 1000), "defined: 64 elements written", ""),
    "bytes as expected": waiting("expected", 0, 2, 512, ends="defined: 1 elements written", simulated="", arrays=(_block, )),
    "fewer bytes than expected": waiting("expected", 0, 1, 512, ends=HANGS, simulated="BytesNeverSent", arrays=(_block, )),
    "more bytes than expected": waiting("expected", 0, 1, 128, ends=OPEN, simulated="BytesNotExpected", arrays=(_block, )),
    "more bytes than a phase counts": waiting("expected", 1, 1, (1 << 20) - 1, ends=OPEN, simulated="BytesNotExpected",
                                              arrays=(_block, )),
    "arrival at a rank outside of the cluster": waiting("arrive_at", 5, ends=OPEN, simulated="OutOfBounds",
                                                        meta={"ctas_per_cga": (2, 1, 1)}, grid=(2, )),
    "a multiple that is none": Row("elements", lambda: (np.zeros(2048, np.float16), 4, 8), MISALIGNED, "SimulationError"),
    "elements outside of any array": Row("elements", lambda: (np.zeros(1024, np.float16), 1 << 30, 8), ADDRESS, "OutOfBounds"),
    "a box that begins between multiples of its extent": Row(
        "box", lambda: (np.zeros((32, 64), np.float32), 16), r"defined: begins with row 0", "OutOfBounds",
        lambda y: f"begins with row {int(y[0, 0])}"),
}
