"""What a frozen launch hands to Triton's launcher in C: exactly what stock Triton hands to it."""

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from triton import knobs
from triton.runtime import _allocation

import mimw
from mimw.errors import LaunchError
from mimw.runtime.freeze.route import KEPT_MAPS
from mimw.runtime.freeze.slots import slot_of
from tests.freeze.fake_gpu import Held
from tests.kernels.frozen import add, pairs, scale


def described(address, **more):
    return mimw.TensorDescriptor.from_tensor(Held(address, "float16", (256, 64), **more), [64, 64])


def stock(gpu, kernel, grid, *args, **meta):
    """What the usual launch hands over, hooks aside: Triton hands over chains of hooks, also empty ones."""
    kernel[grid](*args, **meta)
    gpu.launches[-1].hooks = (None, None)
    return gpu.launches.pop()


X, Y = Held(0x10000), Held(0x20000)
FIRST = (X, Y, 128, 1, 2.5, None, False)
OTHER = (Held(0x30000), Held(0x40010), 16, 1, -1.0, None, True)


@pytest.fixture
def scaled(gpu):
    kernel = scale()
    return gpu, kernel, kernel.freeze((4, 2), *FIRST, BLOCK=128, num_warps=2)


def test_freezing_compiles_and_launches_nothing(scaled):
    gpu, kernel, frozen = scaled
    assert gpu.launches == [] and frozen.compiled.function == 2
    assert (frozen.grid, frozen.device) == ((4, 2), 0)
    assert frozen.parameters == ("x", "y", "n", "stride", "factor", "bias", "double")
    assert "launch(stream, x, y, n, stride, factor, bias, double)" in frozen.launch.__doc__
    assert repr(frozen) == "<frozen launch of scale(x, y, n, stride, factor, bias, double) on grid (4, 2), device 0>"


def test_each_way_hands_over_what_the_usual_launch_does(scaled):
    gpu, kernel, frozen = scaled
    same, other = (stock(gpu, kernel, (4, 2), *args, BLOCK=128, num_warps=2) for args in (FIRST, OTHER))
    assert frozen() is frozen.compiled and frozen(*OTHER) is frozen.compiled
    assert frozen.launch(70, 0x30000, 0x40010, 16, 1, -1.0, None, True) is None
    kernel.freeze((4, 2), *OTHER, BLOCK=128, num_warps=2).launch_arrays(70, 0x10000, 0x20000)
    assert gpu.launches.pop().values == (0x10000, 0x20000, 16, -1.0, True)
    assert gpu.launches == [same, other, other] and same.values == (0x10000, 0x20000, 128, 2.5, False)


def test_streams(scaled):
    gpu, _, frozen = scaled
    frozen(stream=5)
    frozen(*OTHER, stream=type("Stream", (), {"cuda_stream": 6})())
    frozen.launch(7, *FIRST)
    frozen(*OTHER)
    assert [launch.stream for launch in gpu.launches] == [5, 6, 7, 70]


def test_tuples(gpu):
    kernel = pairs()
    first, other = ((Held(at), (Held(at + 0x100), n)) for at, n in ((0x1000, 48), (0x3000, 32)))
    frozen = kernel.freeze((1, ), first, 7, BLOCK=128)
    wanted = [stock(gpu, kernel, (1, ), *args, BLOCK=128) for args in ((first, 7), (other, 9))]
    frozen()
    frozen(other, 9)
    frozen.launch(70, (0x3000, (0x3100, 32)), 9)
    assert gpu.launches == [wanted[0], wanted[1], wanted[1]] and wanted[1].values == (0x3000, 0x3100, 32, 9)
    frozen.forget().launch_arrays(70, 0x3000, 0x3100)
    assert gpu.launches[-1].values == (0x3000, 0x3100, 48, 7)
    with pytest.raises(LaunchError, match=r"both\[1\] was frozen as a tuple of 2"):
        frozen((Held(0x3000), (Held(0x3100), )), 9)
    with pytest.raises(LaunchError, match=r"both\[1\]\[1\] was frozen as a multiple of 16, and is 33 = 2 x 16 \+ 1"):
        frozen((Held(0x3000), (Held(0x3100), 33)), 9)


@pytest.fixture
def added(gpu):
    kernel = add()
    return gpu, kernel, kernel.freeze((4, ), described(0x1000), described(0x9000), described(0x20000), 3, BLOCK=64)


def test_descriptors_are_encoded_as_stock_encodes_them(added):
    gpu, kernel, frozen = added
    others = [0x40000, 0x50000, 0x60000]
    gpu.encoded.clear()
    wanted = stock(gpu, kernel, (4, ), *map(described, others), 5, BLOCK=64)
    asked = gpu.encoded[:]
    for launch in (lambda: frozen(*(Held(at, "float16", (256, 64)) for at in others), 5),
                   lambda: frozen(*map(described, others), 5), lambda: frozen.launch(70, *others, 5)):
        launch()
        assert gpu.launches.pop() == wanted
    assert gpu.encoded == asked * 2, "each once more, and not again for an address that was there"
    assert wanted.values[0] == ("CUtensorMap", asked[0]) and wanted.values[1:5] == (256, 64, 64, 1)
    frozen()
    assert gpu.launches[-1].values[0][1][0] == 0x1000 and len(gpu.encoded) == 6
    frozen.launch_arrays(70, *others)
    assert gpu.launches[-1].values[10:15] == wanted.values[10:15] and gpu.launches[-1].values[-1] == 3


def test_freezing_with_stand_ins_for_tensors(gpu):
    """A plan that is made before there is memory: the driver encodes no descriptor of address 0."""
    frozen = add().freeze((4, ), described(0), described(0), described(0), 3, BLOCK=64).forget()
    assert gpu.encoded == []
    frozen.launch(70, 0x1000, 0x9000, 0x20000, 3)
    assert [asked[0] for asked in gpu.encoded] == [0x1000, 0x9000, 0x20000]


def test_the_maps_that_are_kept_are_bounded(added):
    gpu, _, frozen = added
    for at in range(KEPT_MAPS + 20):
        frozen.launch(70, 0x100000 + 16 * at, 0x9000, 0x20000, 3)
    assert gpu.launches[-1].values[0][1][0] == 0x100000 + 16 * (KEPT_MAPS + 19)
    kept = frozen._route.maps
    assert len(kept[0]) <= KEPT_MAPS and len(kept[1]) == 1


def held(*shape, **more):
    return Held(0x40000, more.pop("dtype", "float16"), shape, **more)


@pytest.mark.parametrize("a, said", [
    (held(255, 64), "a was frozen as a descriptor of a tensor of 256x64 with strides .64, 1., and is a tensor of 255x64"),
    (held(256, 64, strides=(128, 1)), "and is a tensor of 256x64 with strides .128, 1."),
    (held(256, 64, dtype="float32"), "with elements of fp16, and has elements of fp32"),
    (Held(0x40008, "float16", (256, 64)), "begins at address 0x40008, 8 bytes behind one"),
    (held(256, 64, device=1), "a is on device 1, and the launch was frozen on device 0"),
    (mimw.TensorDescriptor.from_tensor(held(256, 64), [32, 64]), r"blocks \(64, 64\), .*and is one of blocks \(32, 64\)"),
    (mimw.TensorDescriptor.from_tensor(held(256, 64), [64, 64], "nan"), "padding 'zero', .*and is one of .*padding 'nan'"),
    (3.5, r"and is 3.5 \(float\)"),
])
def test_descriptors_that_do_not_fit(added, a, said):
    _, _, frozen = added
    with pytest.raises(LaunchError, match=said):
        frozen(a, held(256, 64), held(256, 64), 3)


def test_the_lean_way_refuses_misaligned_descriptors_too(added):
    gpu, _, frozen = added
    with pytest.raises(LaunchError, match="b is a tensor descriptor.* address 0x9004, 4 bytes behind one"):
        frozen.launch(70, 0x1000, 0x9004, 0x20000, 3)
    assert gpu.launches == []


@pytest.mark.parametrize("at, value, said", [
    (0, Held(0x30000, "float16"), "x was frozen as a pointer to fp32, with elements of fp32, and has elements of fp16"),
    (0, Held(0x30004), "x was frozen as a pointer to fp32 at a multiple of 16 bytes, .*address 0x30004, 4 bytes behind one"),
    (1, Held(0x30000, device=3), "y is on device 3, and the launch was frozen on device 0"),
    (1, Held(0x30000, device=-1), "y is on the CPU, and the launch was frozen on device 0"),
    (1, None, r"y was frozen as a pointer to fp32, and is None"),
    (2, 100, "n was frozen as a multiple of 16, and is 100 = 6 x 16 . 4"),
    (2, 1 << 31, "n was frozen as a number of type i32, which does not hold 2147483648"),
    (2, True, r"n was frozen as a number of type i32, and is True \(bool\)"),
    (3, 2, r"stride was frozen as the constant 1 \(int\), and is 2"),
    (3, True, r"stride was frozen as the constant 1 \(int\), and is True"),
    (4, 2, r"factor was frozen as a number of type fp32, and is 2 \(int\)"),
    (5, X, "bias was frozen as the constant None .*and is an array of float32"),
    (6, 1, r"double was frozen as a number of type u1, and is 1 \(int\)"),
])
def test_arguments_that_do_not_fit(scaled, at, value, said):
    gpu, _, frozen = scaled
    with pytest.raises(LaunchError, match=said):
        frozen(*FIRST[:at], value, *FIRST[at + 1:])
    assert gpu.launches == []


def test_the_number_of_arguments(scaled):
    _, _, frozen = scaled
    for given in (FIRST[:3], FIRST[:6]):
        with pytest.raises(TypeError, match=f"takes all of its arguments.*frozen.x, y, n, .*double.; {len(given)} were given"):
            frozen(*given)
    with pytest.raises(TypeError, match="frozen launch of scale"):
        frozen(*FIRST, 3)


def test_values_that_are_not_as_plain_but_fit(scaled):
    gpu, _, frozen = scaled
    frozen(*FIRST[:2], np.int64(64), 1, np.float64(2.0), None, np.True_)
    pointer = SimpleNamespace(dtype=np.dtype("float32"), data_ptr=lambda: 0x7000)
    frozen(pointer, *FIRST[1:])
    assert [launch.values[0] for launch in gpu.launches] == [0x10000, 0x7000]
    assert gpu.launches[0].values[2:] == (64, 2.0, True) and gpu.launches[0].stream == 70


def test_an_unaligned_freeze_takes_any_address(gpu):
    frozen = scale().freeze((1, ), Held(0x10004), Y, 100, 2, 2.5, Y, True, BLOCK=128)
    frozen(Held(0x10002), Y, 16, 1, 2.5, X, True)
    assert gpu.launches[-1].values == (0x10002, 0x20000, 16, 1, 2.5, 0x10000, True)


def test_hooks(scaled):
    gpu, kernel, frozen = scaled
    seen = []
    knobs.runtime.launch_enter_hook.add(enter := lambda told: seen.append(told.get()["name"]))
    try:
        frozen()
        frozen(*OTHER)
        frozen.launch(70, *(value.data_ptr() if isinstance(value, Held) else value for value in OTHER))
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
    assert seen == [frozen.compiled.name] * 3 and [launch.values[0] for launch in gpu.launches] == [0x10000, 0x30000, 0x30000]
    with knobs.runtime.scope():
        knobs.runtime.launch_exit_hook = lambda told: seen.append("exit")
        knobs.runtime.launch_enter_hook = None
        frozen(*OTHER)
    kernel.add_pre_run_hook(lambda *args, **meta: seen.append((len(args), meta)))
    frozen.launch(70, *OTHER[:2], 16, 1, -1.0, None, True)
    assert seen[3:] == ["exit", (9, {"num_warps": 2})] and len(gpu.launches) == 5


def test_a_watchdog_watches_frozen_launches(scaled, monkeypatch):
    gpu, _, frozen = scaled
    seen = []
    monkeypatch.setattr("mimw.runtime.watchdog.watched",
                        lambda launch, limit, run: seen.append((limit, launch.args[0].data_ptr(), launch.grid)))
    monkeypatch.setenv("MIMW_WATCHDOG", "3")
    frozen()
    frozen(*OTHER)
    frozen.launch(70, 0x30000, 0x40010, 16, 1, -1.0, None, True)
    assert seen.pop() == seen[-1]
    frozen.launch_arrays(70, 0x30000, 0x40010)
    assert seen == [(3.0, at, (4, 2)) for at in (0x10000, 0x30000, 0x30000)] and gpu.launches == []
    monkeypatch.setenv("MIMW_WATCHDOG", "0")
    frozen()
    assert len(gpu.launches) == 1


def test_another_device_is_current(scaled):
    """The launch is on the device and the stream of the handle, and then the other device is current again."""
    gpu, _, frozen = scaled
    gpu.device = 1
    frozen()
    frozen(*OTHER)
    assert [(launch.device, launch.stream) for launch in gpu.launches] == [(0, 70), (0, 70)] and gpu.device == 1


def test_where_there_is_one_device_nobody_asks_which_is_current(gpu, monkeypatch):
    monkeypatch.setattr("mimw.runtime.freeze.quick.current_device", lambda: None)
    frozen = scale().freeze((4, 2), *FIRST, BLOCK=128)
    monkeypatch.setattr(gpu, "get_current_device", lambda: pytest.fail("asked"))
    frozen()
    frozen(*OTHER)
    assert [launch.values[0] for launch in gpu.launches] == [0x10000, 0x30000]


def test_clusters_and_grids(gpu):
    kernel = scale()
    frozen = kernel.freeze(lambda meta: (meta["n"] // meta["BLOCK"] * 2, ), *FIRST, BLOCK=64, ctas_per_cga=(2, 1, 1))
    frozen()
    assert frozen.grid == (4, ) and gpu.launches[-1].grid == (4, 1, 1)
    with pytest.raises(LaunchError, match="3 % 2 = 1"):
        kernel.freeze((3, ), *FIRST, BLOCK=64, ctas_per_cga=(2, 1, 1))
    with pytest.raises(LaunchError, match="a launch may have 65,535"):
        kernel.freeze((1, 65536), *FIRST, BLOCK=64)
    with pytest.raises(LaunchError, match="x is on device 1, and the launch was frozen on device 0"):
        kernel.freeze((1, ), Held(0x10000, device=1), *FIRST[1:], BLOCK=64)
    with pytest.raises(TypeError, match="missing a required argument: 'double'"):
        kernel.freeze((1, ), *FIRST[:-1], BLOCK=64)
    assert len(gpu.launches) == 1


def test_what_a_handle_keeps(scaled, little_to_collect):
    gpu, kernel, _ = scaled
    x, y, other = Held(0x10000), Held(0x20000), Held(0x30000)
    frozen = kernel.freeze((4, 2), x, y, *FIRST[2:], BLOCK=128, num_warps=2)
    frozen(other, y, *FIRST[2:])
    gone = [weakref.ref(one) for one in (x, y, other)]
    del x, y, other
    gc.collect()
    assert gone[0]() is not None and gone[1]() is not None and gone[2]() is None
    assert frozen.forget() is frozen
    gc.collect()
    assert gone[0]() is None and gone[1]() is None
    with pytest.raises(LaunchError, match="has forgotten the arguments"):
        frozen()
    frozen(*OTHER)
    frozen.launch(70, *OTHER)
    assert len(gpu.launches) == 3


def test_a_handle_that_is_dropped_frees_its_arrays_at_once(scaled):
    _, kernel, _ = scaled
    x = Held(0x10000)
    frozen, gone = kernel.freeze((4, 2), x, *FIRST[1:], BLOCK=128, num_warps=2), weakref.ref(x)
    del x
    gc.disable()
    try:
        del frozen
        assert gone() is None
    finally:
        gc.enable()


def test_pickling_is_refused(scaled):
    with pytest.raises(TypeError, match="a frozen launch cannot be pickled or copied: .* in the process that launches it"):
        pickle.dumps(scaled[2])


def test_an_address_of_scales_is_one_of_bytes():
    torch = pytest.importorskip("torch")
    scales = SimpleNamespace(dtype=torch.float8_e8m0fnu, data_ptr=lambda: 0x1000, shape=(64, ), stride=lambda: (1, ))
    found = slot_of("scales", "*u8", "D", scales).at(0x2000, simulated=False)
    assert (found.data_ptr(), found.dtype, found.shape, found.stride()) == (0x2000, torch.uint8, (64, ), (1, ))


def test_the_number_of_addresses(scaled, gpu, monkeypatch):
    with pytest.raises(TypeError, match="launch_arrays"):
        scaled[2].launch_arrays(70, 0x1000)
    monkeypatch.setattr("mimw.runtime.freeze.launcher_of", lambda compiled: None)
    with pytest.raises(TypeError, match="scale has 2 arrays and descriptors; 1 were given"):
        scale().freeze((4, 2), *FIRST, BLOCK=128).launch_arrays(70, 0x1000)


def test_threads_share_a_handle(added):
    gpu, _, frozen = added

    def launches(thread):
        for at in range(300):
            frozen.launch(thread, 0x100000 * (thread + 1) + 16 * at, 0x9000, 0x20000, 3)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(launches, range(4)))
    for thread in range(4):
        found = [launch.values[0][1][0] for launch in gpu.launches if launch.stream == thread]
        assert found == [0x100000 * (thread + 1) + 16 * at for at in range(300)]


def test_a_workspace_comes_from_the_allocator_of_the_launch(gpu, monkeypatch):
    """As of a kernel that makes descriptors: by Triton's front such a launch took the host as long as a short kernel takes. The
    allocator is asked at each launch, for all programs, with the launch's stream."""
    asked = []

    def allocate(*wanted):
        asked.append(wanted)
        return Held(0x7000 + 0x1000 * len(asked))

    def with_workspace(front, *given):
        made(front, *given)
        front.global_scratch_size, front.global_scratch_align = 256, 128

    made = gpu.launcher_cls.__init__
    monkeypatch.setattr(gpu.launcher_cls, "__init__", with_workspace)
    kernel = scale()
    frozen = kernel.freeze((4, 2), *FIRST, BLOCK=128)
    with pytest.raises(RuntimeError, match="no allocator was set"):
        frozen()
    before = _allocation._allocator.set(allocate)
    try:
        want = stock(gpu, kernel, (4, 2), *FIRST, BLOCK=128)
        frozen()
        frozen(*OTHER, stream=9)
        frozen.launch(9, 0x30000, 0x40010, 16, 1, -1.0, None, True)
        frozen.launch_arrays(9, 0x10000, 0x20000)
        frozen(X, Y, np.int64(128), 1, 2.5, None, False)        # which is looked at closely
    finally:
        _allocation._allocator.reset(before)
    assert asked == [(8 * 256, 128, stream) for stream in (70, 70, 9, 9, 9, 70)]
    places = [launch.scratch[0].data_ptr() for launch in gpu.launches]
    assert want.scratch[0].data_ptr() == 0x8000 and places == [0x9000, 0xa000, 0xb000, 0xc000, 0xd000]
    assert {launch.scratch[1] for launch in gpu.launches} == {want.scratch[1]} and gpu.launches[0].values == want.values
