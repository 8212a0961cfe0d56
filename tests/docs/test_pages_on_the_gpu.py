"""On a GPU the programs of the pages give what the simulator gives."""

import re
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

from mimw.testing import compare
from mimw.testing.machines import Gpu, Simulator
from tests.docs.blocks import ROOT, Reader, blocks, pages

CASES = [(page.relative_to(ROOT).as_posix(), block) for page in pages() for block in blocks(page)
         if block.mark.startswith("file: ") and "def case():" in block.text and "__main__" in block.text]
COMING_FROM = ROOT / "docs" / "COMING_FROM.md"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arrays(args) -> list[np.ndarray]:
    """The arrays of a launch, those behind descriptors too."""
    held = [getattr(one.base, "array", None) if not isinstance(one, np.ndarray) and hasattr(one, "base") else one for one in args]
    return [one for one in held if isinstance(one, np.ndarray)]


def both(case, machines) -> None:
    """Launch `case()` on each machine, and compare all arrays with those of the first."""
    results = []
    for machine in machines:
        kernel, grid, args, meta = case()
        machine.launch(kernel, grid, *args, **meta)
        results.append(arrays(args))
    for first, *others in zip(*results, strict=True):
        assert first.any()
        for other in others:
            compare(other, first, rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("page, block", [pytest.param(page, block, id=page) for page, block in CASES])
@pytest.mark.gpu
def test_a_program_of_a_page(page, block, here):
    path = here / block.mark.removeprefix("file: ")
    path.write_text(block.text)
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    both(module.case, [Simulator(), Gpu()])


@pytest.mark.gpu
def test_programs_of_coming_from(here):
    """The main loop on the GPU as on the simulator; the Gluon kernel does what its twin does."""
    torch = pytest.importorskip("torch")
    import triton.experimental.gluon.language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    reader = Reader(COMING_FROM, here)
    for block in blocks(COMING_FROM):
        if block.language == "python":
            reader.read(block)
    names = reader.names
    both(lambda: (names["gemm"], (1, ), [*names["described"], 128], {"BM": 64, "BN": 64, "BK": 32}), [Gpu()])
    compare(names["c"].astype(np.float32), names["product"], rtol=2**-7, atol=2**-7)
    x = torch.arange(256.0, device="cuda").reshape(8, 32)
    y = torch.zeros_like(x)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    names["double_in_gluon"][(1, )](*(TensorDescriptor.from_tensor(one, [8, 32], layout) for one in (x, y)))
    assert torch.equal(y, 2 * x)


def test_the_programs_are_found():
    assert {page.rpartition("/")[2] for page, _ in CASES} == {"START.md", "tasks.md", "buffers.md", "barriers.md", "phases.md",
                                                              "pipes.md", "proxies.md"}
    assert all(re.search(r"^if __name__ == ", block.text, re.MULTILINE) for _, block in CASES)
