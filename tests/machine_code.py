"""What ptxas made of PTX: the machine code of many compiled kernels by one run of the disassembler.

    def test_products_compile(case, sass_has):
        sass_has(compile_kernel(...), "UTCHMMA", ("UTCBAR", 1), ("STL", 0))

Input: compiled kernels, and for each the instructions that it must have, and how many. Output: nothing, or one error that names
every test whose kernel has others, when the last test of the process has ended: nvdisasm takes 0.4 s to start and hardly anything
for a kernel. `instructions` gives the lines of one kernel at once, for a test that goes on with them.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from triton import knobs

from mimw.runtime.compiled import Compiled
from mimw.tools.sass import disassembled as with_addresses


def instructions(compiled: Compiled, pattern: str) -> list[str]:
    """The instructions of the SASS that match, without addresses."""
    return matching(disassembled([compiled.stage("cubin")], compiled.target.name)[0], pattern)


def matching(sass: str, pattern: str) -> list[str]:
    return [line for line in sass.splitlines() if re.search(pattern, line)]


def disassembled(cubins: list[bytes], chip: str, addresses: bool = False) -> list[str]:
    """The instructions of each cubin for a chip, a line each; all by one run of nvdisasm. Addresses, as branches name them, count
    through all of them."""
    found = with_addresses(cubins, chip, knobs.nvidia.nvdisasm.path)
    return found if addresses else [re.sub(r"^/\*\w+\*/ ", "", lines, flags=re.MULTILINE) for lines in found]


class Expected:
    """Kernels of all tests of this process, and what their machine code must have."""

    def __init__(self) -> None:
        self.test, self.asked = "", defaultdict(list)

    def __call__(self, compiled: Compiled, *patterns: str | tuple[str, int], cubin: bytes | None = None) -> None:
        """Each pattern must be found in a line of the SASS of this kernel, or in as many lines as stand beside the pattern. A test
        that has run ptxas itself on the PTX of the kernel hands over its `cubin`."""
        self.asked[compiled.target.name].append((self.test, cubin or compiled.stage("cubin"), patterns))

    def failures(self) -> list[str]:
        failed = []
        for chip, asked in self.asked.items():
            for (test, _, patterns), sass in zip(asked, disassembled([cubin for _, cubin, _ in asked], chip)):
                for pattern in patterns:
                    pattern, wanted = (pattern, None) if isinstance(pattern, str) else pattern
                    found = len(matching(sass, pattern))
                    if not found if wanted is None else found != wanted:
                        count = "some" if wanted is None else wanted
                        failed.append(f"SASS of {test}: {found} instructions match {pattern!r}, not {count}")
        return failed


@pytest.fixture(scope="session")
def _expected():
    expected = Expected()
    yield expected
    if failed := expected.failures():
        pytest.fail("\n".join(failed), pytrace=False)


@pytest.fixture
def sass_has(_expected, request) -> Expected:
    """`sass_has(compiled, "LDTM", ("STL", 0))`: load instructions of tensor memory, and no store into local memory."""
    _expected.test = request.node.nodeid
    return _expected
