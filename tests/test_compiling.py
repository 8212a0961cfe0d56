"""`tests.compiling` gives what the whole compilation gives, up to the stage that it ends at, and nothing behind it."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir

TYPES = {"x": "*fp16", "y": "*fp16"}


@mimw.jit
def turned(x, y):
    """The conversion between the two layouts takes scratch."""
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    rows, columns = tl.arange(0, 32)[:, None], tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(x + rows * 64 + columns))
    tl.store(y + rows * 64 + columns, tlx.local_load(tile[0]) + tl.load(x + rows + columns * 32))


@pytest.mark.parametrize("target, assembly, binary", [("sm_90a", "ptx", "cubin"), ("gfx950", "amdgcn", "hsaco")])
def test_the_stages_are_those_of_the_whole_compilation(target, assembly, binary):
    whole, early, late = (compile(turned, TYPES, {}, target) for compile in (compile_kernel, to_ttgir, to_assembly))
    assert early.stage("ttgir") == late.stage("ttgir") == whole.stage("ttgir") and late.stage(assembly) == whole.stage(assembly)
    assert early.metadata.shared == late.metadata.shared == whole.metadata.shared > 32 * 64 * 2
    assert whole.stage(binary) and binary not in late.stages
    assert not {"llir", assembly, binary} & set(early.stages)
    with pytest.raises(KeyError):
        early.stages[assembly]
    with pytest.raises(KeyError):
        late.stages[binary]
