"""Tables of stamps as a GPU would leave them, made by hand for the report's tests."""

import numpy as np

from mimw.compiler.passes.stamp_waits import barrier_rows, stamps, wait_table
from mimw.compiler.pipeline import Kernel, gpu_target
from mimw.compiler.triton_port.runtime import make_backend
from mimw.ir import Program
from mimw.ir.wait_table import DONE, LOOKED, MADE
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.host import specialise
from mimw.runtime.simulate import resolve
from mimw.runtime.watchdog.hung import lanes_of
from mimw.target import target

FIRST_ADDRESS = 0x400


def _specialised(case):
    """(function, signature, constants by path, options) of a launch (kernel, grid, args, meta)."""
    kernel, _, args, meta = case
    fn, args, meta = resolve(kernel, args, meta)
    options = {name: value for name, value in meta.items() if name not in fn.arg_names}
    bound = fn.signature.bind(*args, **{name: value for name, value in meta.items() if name in fn.arg_names})
    bound.apply_defaults()
    signature, constants, _ = specialise(fn, dict(bound.arguments))
    return fn, signature, constants, options


def stamped(case) -> Program:
    """The stamped program of a launch."""
    fn, signature, constants, options = _specialised(case)
    backend = make_backend(gpu_target(target("sm_90a")))
    kernel = Kernel(fn, signature, constants, {}, options.pop("ctas_per_cga", (1, 1, 1)), waits=True)
    return kernel.record(target("sm_90a"), backend.parse_options(options), backend)


def compiled(case, **more):
    """What a launch is compiled to, with further options."""
    fn, signature, constants, options = _specialised(case)
    return compile_kernel(fn, signature, {fn.arg_names[path[0]]: value for path, value in constants.items()},
                          options={**options, **more})


def word(parity: int, arrived: int, count: int, pending_bytes: int = 0) -> int:
    """An mbarrier's word."""
    return (parity << 63 | (-(count - arrived) & 0xFFFFF) << 43 | (pending_bytes & 0x1FFFFF) << 21 | (-count & 0xFFFFF) << 1)


class Table:
    """Filled warp by warp: `table.put(cta, "loader", "waits", line, row=1, parity=0)`."""

    def __init__(self, program: Program, ctas: int):
        self.program, self.table = program, wait_table(program)
        self.stamps, self.lanes = stamps(program), lanes_of(program)
        self.bytes = np.zeros(self.table.bytes(ctas), np.uint8)
        self.rows = list(barrier_rows(program))

    def number(self, task: str, state: str, line: int = 0, body: bool = False) -> int:
        """The stamp of a task, or of the kernel's body, in a state, at a line if there are several."""
        found = [number for number, stamp in self.stamps.items()
                 if (stamp.lane == 0 if body else self.lanes[stamp.lane].name == task and stamp.lane) and stamp.state == state
                 and (not line or stamp.site.line == line)]
        assert len(found) == 1, found
        return found[0]

    def put(self, cta: int, warps, stamp: int, row: int | None = None, parity: int = 0, began: int = 0, word: int = 0) -> None:
        address = 0 if row is None else FIRST_ADDRESS + 8 * row
        for warp in warps:
            at = self.table.slot(cta, warp)
            self.bytes[at:at + 16].view(np.uint32)[:] = stamp, cta + 1, parity, address
            self.bytes[at + 16:at + 32].view(np.uint64)[:] = began, word

    def ended(self, cta: int) -> None:
        self.put(cta, range(self.table.warps), self.number("", "ends", body=True) | DONE)

    def words(self, cta: int, *words: int | None) -> None:
        """None: the barrier has been made, and nobody has looked."""
        for row, value in enumerate(words):
            at = self.table.row(cta, row)
            self.bytes[at:at + 16].view(np.uint64)[:] = \
                (FIRST_ADDRESS + 8 * row) | MADE | (0 if value is None else LOOKED), value or 0
