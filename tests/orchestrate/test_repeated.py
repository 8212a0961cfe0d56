"""Launches of `mimw.auto` that come again: what reaches Triton's launcher in C, and what is not done a second time."""

import sys

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.tools.orchestrate import Candidate, Orchestration, Plan, Search, guards
from mimw.tools.orchestrate import repeated as module
from mimw.tools.orchestrate.auto import AutoFunction, Decision
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.written import Written, written
from tests.freeze.fake_gpu import Held, gpu  # noqa: F401
from tests.orchestrate.cases import grouped_descriptors

SCALE = tl.constexpr(2.0)


def scaled(a, b, c_desc, K, stride, factor, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = factor * a b, of one tile: A and B by pointers, C by a descriptor of the author's."""
    ms, ns, ks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + ms[:, None] * stride + (k + ks)[None, :])
        y = tl.load(b + (k + ks)[:, None] * BN + ns[None, :])
        acc = tl.dot(x, y, acc)
    c_desc.store([tl.program_id(0) * BM, 0], (acc * factor * SCALE).to(tl.float16))


META = dict(BM=64, BN=64, BK=64, num_warps=4)


def described(array):
    return mimw.TensorDescriptor.from_tensor(array, [64, 64])


@pytest.fixture(scope="module")
def one():
    """The kernel, orchestrated for arrays of numpy."""
    half = np.float16
    args = np.zeros((64, 256), half), np.zeros((256, 64), half), described(np.zeros((64, 64), half)), 256, 256, 0.5
    found = written(plain_of(mimw.jit(scaled), (1, ), args, META), Plan(stages=2))
    assert found.kernel is not None and found.made.apart >= {("a", "c_desc"), ("b", "c_desc")}
    return found


@pytest.fixture
def kernel(gpu, one, monkeypatch):  # noqa: F811
    """It, decided for the orchestrated kernel, on a GPU that notes launches; `.asked` counts what a launch's look takes."""
    monkeypatch.setattr(AutoFunction, "_decided", lambda *given: Decision(one, "in a test"))
    for name in ("auto", "repeated", "written"):
        monkeypatch.setattr(sys.modules[f"mimw.tools.orchestrate.{name}"], "device_programs", lambda chip: 4)
    found = mimw.auto(scaled)
    found.asked = {"decision": 0, "why_plain": 0, "bound": 0}

    def counting(name, owner, method):
        real = getattr(owner, method)

        def call(*args, **keywords):
            found.asked[name] += 1
            return real(*args, **keywords)
        monkeypatch.setattr(owner, method, call)
    counting("decision", AutoFunction, "decision")
    counting("why_plain", Written, "why_plain")
    counting("bound", AutoFunction, "_about")
    return found


def arrays(a=0x100000, b=0x200000, c=0x300000, k=256):
    return Held(a, "float16", (64, k)), Held(b, "float16", (k, 64)), described(Held(c, "float16", (64, 64)))


def launched(gpu, kernel, *args, grid=(1, )):  # noqa: F811
    kernel[grid](*args, **META)
    gpu.launches[-1].hooks = (None, None)
    return gpu.launches.pop()


def test_a_launch_that_comes_again_is_the_same_and_asks_nothing(gpu, kernel):  # noqa: F811
    args = *arrays(), 256, 256, 0.5
    first = launched(gpu, kernel, *args)
    assert "mimw" not in first.values and launched(gpu, kernel, *args) == first == launched(gpu, kernel, *args)
    before, encoded = dict(kernel.asked), len(gpu.encoded)
    assert all(before.values()) and launched(gpu, kernel, *args) == first
    mapped = len(gpu.encoded) - encoded
    assert launched(gpu, kernel, *args) == first and (kernel.asked, len(gpu.encoded)) == (before, encoded + mapped)
    assert mapped <= 3      # one for each descriptor, at the first launch that is frozen


def test_launches_of_what_orchestrate_returns_are_frozen_too(gpu, one, monkeypatch):  # noqa: F811
    """A host that is slower than the kernel would take what was won."""
    for name in ("repeated", "written"):
        monkeypatch.setattr(sys.modules[f"mimw.tools.orchestrate.{name}"], "device_programs", lambda chip: 4)
    monkeypatch.setattr(guards, "key", lambda specialisation: ())       # `one` was made for arrays of numpy
    found = Orchestration(one.plain, Search(), Candidate(one), None, True, "in a test")
    args = *arrays(), 256, 256, 0.5
    first = launched(gpu, found, *args)
    assert launched(gpu, found, *args) == first == launched(gpu, found, *args)
    assert launched(gpu, found, *args) == first, "the one that is frozen"
    monkeypatch.setattr(Written, "runs", lambda *given: pytest.fail("it was frozen"))
    monkeypatch.setattr(Written, "why_plain", lambda *given: pytest.fail("it was looked at"))
    assert launched(gpu, found, *args) == first
    other = *arrays(0x500000, 0x600000, 0x700000), 256, 256, 0.25
    assert launched(gpu, found, *other) != first


def test_other_addresses_and_floats_are_launched_with_what_they_are(gpu, kernel):  # noqa: F811
    for _ in range(3):
        launched(gpu, kernel, *arrays(), 256, 256, 0.5)
    before = dict(kernel.asked)
    for factor, at in ((0.0, 0x500000), (-0.0, 0x600000), (2, 0x700000)):
        args = *arrays(at, at + 0x10000, at + 0x20000), 256, 256, factor
        quick = launched(gpu, kernel, *args)
        if type(factor) is float:
            assert kernel.asked == before
            assert str(factor) in map(str, quick.values)
            kernel.repeated.forget()
            assert launched(gpu, kernel, *args) == quick
            for _ in range(2):
                launched(gpu, kernel, *args)
            before = dict(kernel.asked)
        else:       # a whole number is another type, and looked at
            assert kernel.asked != before


def test_one_array_twice_is_no_other_argument_later(gpu, kernel):  # noqa: F811
    """Frozen with A in B's place, it is launched with both."""
    a, _, c = arrays()
    a = Held(0x100000, "float16", (64, 64))
    for _ in range(3):
        launched(gpu, kernel, a, a, c, 64, 64, 0.5)
    other = Held(0x400000, "float16", (64, 64))
    quick = launched(gpu, kernel, a, other, c, 64, 64, 0.5)
    kernel.repeated.forget()
    assert launched(gpu, kernel, a, other, c, 64, 64, 0.5) == quick


def plain_launch(gpu, *args):  # noqa: F811
    return launched(gpu, mimw.jit(scaled), *args)


@pytest.mark.parametrize("changed, is_plain", [
    (dict(c=0x100010), True),           # C overlaps A
    (dict(a=0x100008), True),           # not at a multiple of 16
    (dict(c=0x108000), False),          # right behind A
])
def test_where_arrays_lie_is_asked_at_each_launch(gpu, kernel, changed, is_plain):  # noqa: F811
    for _ in range(3):
        launched(gpu, kernel, *arrays(), 256, 256, 0.5)
    args = *arrays(**changed), 256, 256, 0.5
    found = launched(gpu, kernel, *args)
    assert (found == plain_launch(gpu, *args)) is is_plain
    assert launched(gpu, kernel, *arrays(), 256, 256, 0.5) != plain_launch(gpu, *arrays(), 256, 256, 0.5)


def test_an_address_that_another_array_has_by_now_is_another_launch(gpu, kernel):  # noqa: F811
    """A tensor is freed, and its memory given to one of other strides: nothing is kept by its address."""
    for _ in range(3):
        launched(gpu, kernel, *arrays(), 256, 256, 0.5)
    a, b, c = arrays()
    wide = Held(a.address, "float16", (64, 256), (512, 1))
    for _ in range(4):
        found = launched(gpu, kernel, wide, b, c, 256, 512, 0.5)
        assert any(one[0] == 0x100000 and 512 in one[6] for one in gpu.encoded) and 512 in found.values


def test_what_differs_is_looked_at_and_the_oldest_are_dropped(gpu, kernel, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "KEPT", 2)
    for k in (256, 512, 768, 1024):
        for _ in range(3):
            launched(gpu, kernel, *arrays(k=k), k, k, 0.5)
    assert len(kernel.repeated.known) == 2 and {key[3][-5] for key in kernel.repeated.known} <= {768, 1024, *META.values()}
    before = dict(kernel.asked)
    launched(gpu, kernel, *arrays(k=1024), 1024, 1024, 0.5)
    assert kernel.asked == before
    launched(gpu, kernel, *arrays(), 256, 256, 0.5)
    assert kernel.asked != before


def test_hooks_and_a_change_of_what_the_kernel_names(gpu, kernel, monkeypatch):  # noqa: F811
    args = *arrays(), 256, 256, 0.5
    for _ in range(3):
        launched(gpu, kernel, *args)
    calls = []
    kernel.pre_run_hooks.append(lambda *given, **meta: calls.append(meta))
    launched(gpu, kernel, *args)
    assert len(calls) == 1 and calls[0].items() >= META.items()
    kernel.pre_run_hooks.clear()
    before = dict(kernel.asked)
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(3.0))
    launched(gpu, kernel, *args)
    assert kernel.asked != before and len(kernel.repeated.known) == 1       # decided anew


def test_what_is_decided_as_plain_asks_nothing_either(gpu, kernel, monkeypatch):  # noqa: F811
    monkeypatch.setattr(AutoFunction, "_decided", lambda *given: Decision(None, "in a test"))
    args = *arrays(), 256, 256, 0.5
    first = launched(gpu, kernel, *args)
    before = dict(kernel.asked)
    assert launched(gpu, kernel, *args) == first == plain_launch(gpu, *args) and kernel.asked == before


def test_grids_that_fill_the_gpu_are_decided_for_themselves(gpu, kernel):  # noqa: F811
    args = *arrays(), 256, 256, 0.5
    for tiles in (1, 3, 4, 5, 400):
        launched(gpu, kernel, *args, grid=(tiles, ))
    assert len(kernel.decisions) == 2
    launched(gpu, kernel, *args, grid=lambda meta: (meta["K"] // 64, ))
    assert len(kernel.decisions) == 2


def test_a_kernel_that_makes_descriptors_is_frozen_and_has_memory_for_them(gpu, monkeypatch):  # noqa: F811
    """By the allocator of orchestration where the user has named none: the plain kernel may need none."""
    asked = []
    plain, grid, (a, b, c, table, groups), meta, _ = grouped_descriptors.case()
    one = written(plain_of(plain, grid, (a, b, c, table, groups), meta), Plan(stages=2))
    assert one.made.program.named("descriptor_slots")
    made = gpu.launcher_cls.__init__

    def with_workspace(front, *given):
        made(front, *given)
        front.global_scratch_size = 128
    monkeypatch.setattr(gpu.launcher_cls, "__init__", with_workspace)
    monkeypatch.setattr(guards, "key", lambda specialisation: ())       # `one` was made for arrays of numpy
    for name in ("repeated", "written"):
        monkeypatch.setattr(sys.modules[f"mimw.tools.orchestrate.{name}"], "device_programs", lambda chip: 4)
    monkeypatch.setattr(sys.modules["mimw.tools.orchestrate.written"], "_memory",
                        lambda size, *more: asked.append(size) or Held(0x8000))
    found = Orchestration(one.plain, Search(), Candidate(one), None, True, "in a test")
    held = [Held(0x100000 * at, array.dtype, array.shape) for at, array in enumerate((a, b, c, table), 1)]

    def launch():
        found[grid](*held, groups, **meta)
        gpu.launches[-1].hooks = (None, None)
        return gpu.launches.pop()
    first = [launch() for _ in range(3)][0]
    monkeypatch.setattr(Written, "runs", lambda *given: pytest.fail("it was frozen"))
    again = launch()
    assert asked == [3 * 128] * 4 and again.scratch[0].data_ptr() == first.scratch[0].data_ptr() == 0x8000
    assert (again.values, again.grid) == (first.values, first.grid)
