"""What the backend made is found again only by whoever asks exactly the same, and only as it was made."""

import os
from types import SimpleNamespace

import pytest
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

import mimw
from mimw.runtime.compile_kernel import compile_kernel
from tests import kept_stages
from tests.kept_stages import FIFTY, STAGES, Kept

TARGET = GPUTarget("cuda", 90, 32)
OPTIONS = CUDABackend(TARGET).parse_options({"enable_fp_fusion": True})


class Stage:
    """A stage that counts how often it is asked."""

    def __init__(self, kept, result="text of it", name="make_ptx"):
        self.result, self.made, self.stage = result, 0, kept.stage(name, self.make)

    def make(self, backend, source, metadata, options, capability):
        self.made += 1
        metadata["name"] = f"kernel {self.made}"
        return self.result

    def __call__(self, source="module", options=OPTIONS, capability=90, target=TARGET):
        metadata = {"of before": 1}
        return self.stage(SimpleNamespace(target=target), source, metadata, options, capability), metadata


@pytest.fixture
def kept(tmp_path):
    """A folder of results, none of which is doubted."""
    kept = Kept(tmp_path)
    kept.again, kept.passing = FIFTY, "/in a folder that passes/"
    return kept


@pytest.mark.parametrize("result", ["two\nlines", b"\x7fELF\n\x00\xff"])
def test_the_second_time_it_is_found(kept, result):
    stage = Stage(kept, result)
    assert stage() == stage() == (result, {"of before": 1, "name": "kernel 1"})
    assert stage.made == 1


def test_a_stage_that_is_made_finds_what_those_before_it_leave(kept, monkeypatch):
    """LLVM's targets, which make_llir registers: where its result was found, make_ptx would crash."""
    order = []
    llvm = SimpleNamespace(init_targets=lambda: order.append("targets"))
    monkeypatch.setattr(kept_stages, "libtriton", SimpleNamespace(llvm=llvm))
    made = kept.stage("make_ptx", lambda *args: order.append("made") or "text")
    made(SimpleNamespace(target=TARGET), "another module", {}, OPTIONS, 90)
    made(SimpleNamespace(target=TARGET), "another module", {}, OPTIONS, 90)
    assert order == ["targets", "made"]


def test_whoever_asks_for_something_else_does_not_find_it(kept):
    stage = Stage(kept)
    stage()
    others = [{"source": "module "}, {"capability": 100}, {"target": GPUTarget("cuda", 100, 32)},
              {"options": CUDABackend(TARGET).parse_options({"enable_fp_fusion": False})}]
    for number, other in enumerate(others, 2):
        stage(**other)
        assert stage.made == number, other
    Stage(kept, name="make_cubin")()
    assert len(list(kept.folder.iterdir())) == len(others) + 2


def test_another_assembler_is_another_question(kept, tmp_path, monkeypatch):
    ours = Stage(kept)
    ours()
    other = tmp_path.parent / "ptxas-of-another-release"
    other.write_bytes(b"other")
    monkeypatch.setattr("tests.kept_stages.compiler.get_ptxas", lambda arch: SimpleNamespace(path=str(other)))
    ours()
    assert ours.made == 2


def test_a_knob_that_was_turned_leads_past_the_folder(kept, monkeypatch):
    stage = Stage(kept)
    stage()
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        stage()
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "1")
    stage()
    assert stage.made == 3
    monkeypatch.undo()
    assert stage()[1]["name"] == "kernel 1"


def test_what_a_passing_file_holds_is_not_kept(kept):
    stage = Stage(kept)
    source = f'loc("{kept.passing}kernel.py":1:2)'
    stage(source), stage(source)
    assert stage.made == 2 and not list(kept.folder.iterdir())


@pytest.mark.parametrize("place", [0, 40, -1])
def test_a_file_that_has_changed_is_not_believed(kept, place):
    stage = Stage(kept)
    stage()
    (path, ) = kept.folder.iterdir()
    contents = bytearray(path.read_bytes())
    contents[place] ^= 1
    path.write_bytes(contents)
    assert stage()[1]["name"] == stage()[1]["name"] == "kernel 2"


def test_a_file_under_another_name_is_not_believed(kept):
    one, other = Stage(kept, "one"), Stage(kept, "other")
    one("first")
    (path, ) = kept.folder.iterdir()
    other("second")
    (moved, ) = set(kept.folder.iterdir()) - {path}
    os.replace(path, moved)
    assert other("second")[0] == "other" and other.made == 2


def test_half_a_file_is_not_believed(kept):
    stage = Stage(kept)
    stage()
    (path, ) = kept.folder.iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert stage()[1]["name"] == "kernel 2"


def test_errors_are_not_kept(kept):
    def fails(backend, source, metadata, options, capability):
        raise RuntimeError("no registers")

    stage = kept.stage("make_cubin", fails)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no registers"):
            stage(SimpleNamespace(target=TARGET), "module", {}, OPTIONS, 90)
    assert not list(kept.folder.iterdir())


def test_what_is_made_again_and_differs_is_told(kept):
    """Whoever asked has what was made now, and so have the next; what was kept can be compared with it."""
    stage = Stage(kept)
    stage()
    (path, ) = kept.folder.iterdir()
    kept.again = int(path.name[:8], 16) % FIFTY
    with pytest.warns(UserWarning, match="make_ptx makes something else .* than was kept, .*before: "):
        assert stage()[1]["name"] == "kernel 2"
    kept.again = FIFTY
    assert stage()[1]["name"] == "kernel 2"
    assert {one.name for one in kept.folder.iterdir()} == {path.name, f"{path.name}.before"}


def test_what_is_made_again_and_is_the_same_is_not_told(kept, recwarn):
    made = []

    def make(backend, source, metadata, options, capability):
        made.append(source)
        return "the same"

    stage = kept.stage("make_ptx", make)
    for _ in range(2):
        assert stage(SimpleNamespace(target=TARGET), "module", {}, OPTIONS, 90) == "the same"
        (path, ) = kept.folder.iterdir()
        kept.again = int(path.name[:8], 16) % FIFTY
    assert len(made) == 2 and not recwarn.list


def test_what_nobody_asks_for_goes(kept):
    stage = Stage(kept)
    stage("of long ago"), stage("of today")
    for path in kept.folder.iterdir():
        os.utime(path, (0, 0))
    stage("of today")
    kept.forget()
    assert len(list(kept.folder.iterdir())) == 1
    stage("of today")
    assert stage.made == 2


@mimw.jit
def doubled(x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + at, 2 * tl.load(x + at))


def test_of_a_kernel_all_stages_are_found_again(kept, tmp_path, monkeypatch):
    """Texts, binary and metadata; a kernel of other warps shares nothing with it."""
    asked = []

    def counting(name, make):
        def stage(*args):
            asked.append(name)
            return make(*args)
        return stage

    for name in STAGES:
        monkeypatch.setattr(CUDABackend, name, kept.stage(name, counting(name, getattr(CUDABackend, name))))

    def compiled(number, warps=4):
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path.parent / f"cache{number}"))
        return compile_kernel(doubled, {"x": "*fp32"}, {"N": 128}, "sm_90a", {"num_warps": warps})

    one, two = compiled(1), compiled(2)
    assert asked == list(STAGES)
    assert {name: one.stage(name) for name in one.stages} == {name: two.stage(name) for name in two.stages}
    assert one.metadata == two.metadata
    compiled(3, warps=8)
    assert asked == [*STAGES] * 2
