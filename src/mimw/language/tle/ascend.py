"""`tle.dsa.ascend`: the address spaces of an Ascend AI core, as values that kernels name.

Input: a name. Output: an `address_space`, which `tle.dsa.alloc` and `tle.dsa.to_buffer` take. For example:

    buffer = tle.dsa.alloc([50, 64], tl.float16, mem_addr_space=tle.dsa.ascend.UB)
    tle.dsa.ascend.L0C.space                                     "l0c", the `Buffer.space` of the IR
    tle.dsa.ascend.UB.on("ascend_910b").bytes                    196608; on a GPU UB lies in shared memory

They are equal by content, hashable, and may be globals and `tl.constexpr` arguments of kernels; a kernel is compiled anew for
another one. How much of each a chip has, what may be copied where and who computes on it are data of the target (`Target.spaces`,
docs/SPACES.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...target import Space, Target, wanted
from ..core import host_constructible
from ..names import suggesting

__all__ = ["L0A", "L0B", "L0C", "L1", "UB", "address_space"]


@host_constructible
@dataclass(frozen=True)
class address_space:
    """A memory space of an accelerator by the name that its vendor gives it: `UB` is that of the vector units, `L1` stages operands
    of the cube, which takes them from `L0A` (left) and `L0B` (right) and leaves results in `L0C`."""

    name: str

    @property
    def space(self) -> str:
        """The name of the space in the IR and in `Target.spaces`."""
        return self.name.lower()

    @property
    def cache_key(self) -> str:
        """A text that differs between spaces, for the key of a kernel."""
        return repr(self)

    def on(self, target: str | Target | None = None) -> Space | None:
        """The space of a chip in which buffers for this one lie, with its bytes, alignment and paths; by default of MIMW_TARGET's
        chip. None if it has no place for them; TargetError for an unknown chip."""
        return wanted(target).lies_in(self.space)

    def __repr__(self) -> str:
        return f"tle.dsa.ascend.{self.name}"


UB, L1, L0A, L0B, L0C = map(address_space, ("UB", "L1", "L0A", "L0B", "L0C"))

__getattr__ = suggesting("tle.dsa.ascend", __all__)
