"""A plugin of pytest: no kernel for Hopper that a test compiles touches registers of a product under way.

    machine code of tests/...::test_it: 42 instructions touch registers of a product under way, first 0x1270: LDS.U16 R60, ...

Input: what the stages of Triton's backend make during the tests, which is looked at and not made anew. Output: nothing, or one
error with a line for each such kernel, the first such instruction (`mimw.tools.sass`) and the test, when the last test of the
process has ended. Neither the simulator nor ptxas sees it: ptxas may let the next trip of a loop write the registers from which a
product still reads.

One run of nvdisasm for all kernels of a worker: 3 s for the 200 kernels with products of the whole suite, and 1 s to read them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from triton.backends.nvidia import compiler

from mimw.tools.sass import touches

from .machine_code import disassembled

_CHIP = 90


class Seen:
    """Kernels with products, each once, and the test that came to it first. None that a test says is wrong."""

    def __init__(self) -> None:
        self.kernels: dict[bytes, str] = {}
        self.is_wrong = False

    def add(self, cubin: bytes) -> None:
        if not self.is_wrong:
            self.kernels.setdefault(cubin, os.environ.get("PYTEST_CURRENT_TEST", "the collection").removesuffix(" (call)"))

    @contextmanager
    def of_wrong_kernels(self) -> Iterator[None]:
        """What is compiled inside is to be wrong."""
        self.is_wrong = True
        try:
            yield
        finally:
            self.is_wrong = False

    def failures(self) -> list[str]:
        if not self.kernels:
            return []
        listings = disassembled(list(self.kernels), f"sm_{_CHIP}a", addresses=True)
        found = [(test, touches(listing)) for test, listing in zip(self.kernels.values(), listings, strict=True)]
        return [f"machine code of {test}: {len(these)} instructions touch registers of a product under way, first {these[0]}"
                for test, these in found if these]


seen = Seen()       # of this process: workers are forked before any test


@pytest.fixture(scope="session", autouse=True)
def _nothing_touches_products_under_way():
    yield
    if failed := seen.failures():
        pytest.fail("\n".join(failed), pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Around `tests.kept_stages`, which stands before it in conftest.py: what was kept from a run before is looked at as well."""
    make = compiler.CUDABackend.make_cubin

    @functools.wraps(make)
    def seeing(backend, source, metadata, options, capability):
        made = make(backend, source, metadata, options, capability)
        if capability == _CHIP and "wgmma.mma_async" in source:
            seen.add(made)
        return made

    compiler.CUDABackend.make_cubin = seeing
    config.add_cleanup(functools.partial(setattr, compiler.CUDABackend, "make_cubin", make))
