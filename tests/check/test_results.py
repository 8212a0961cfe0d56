"""Results are compared with what the author expects: the first wrong element, its program, its store and the lines that made it."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import SimulatorMisuse, WrongResult
from tests.kernels.lines import line_of
from tests.kernels.results import adds, tiled, tiles, writes


@mimw.jit
def row_sums(x, y, rows, N: tl.constexpr):
    ring = tlx.local_alloc((1, N), tl.float32, 2)
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            total = tl.zeros((1, N), tl.float32)                                     # zeros
            for row in range(rows):
                slot, phase = row % 2, (row // 2) & 1
                tlx.barrier_wait(full[slot], phase)
                total += tlx.local_load(ring[slot])                                  # adds
                tlx.barrier_arrive(free[slot])
            tl.store(y + tl.arange(0, N)[None, :], total)                            # stores
        with tlx.async_task(num_warps=1):
            for row in range(rows):
                slot, phase = row % 2, (row // 2) & 1
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 4 * N)
                tlx.async_descriptor_load(x, ring[slot], [row, 0], full[slot])       # loads


@mimw.jit
def packs(keys, values, out, N: tl.constexpr, WIDE: tl.constexpr):
    at = tl.arange(0, N)
    key = tl.load(keys + at)
    if WIDE:
        key = key.to(tl.int64)
    tl.store(out + at, key * 65536 | tl.load(values + at))                           # packed


def sums(**given):
    x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
    args = mimw.TensorDescriptor.from_tensor(x, [1, 64]), np.zeros(64, np.float32), 7
    return mimw.Case(row_sums, (1, ), args, {"N": 64}, **given)


def check(kernel, grid, args, meta, expected=None, **options):
    return mimw.check(kernel, grid, *args, expected=expected, **{"seeds": 2, "jobs": 1, **options}, **meta)


def found(*launch, **options):
    (finding, ) = check(*launch, **options).findings
    assert finding.kind == "WrongResult" and finding.kinds == ("WrongResult", "SimulationError")
    return finding


# ---- found ------------------------------------------------------------------------------------------------------------


def test_the_first_wrong_element_its_store_and_the_lines_that_made_it():
    finding = found(*sums(), expected=lambda x: x.sum(0) + 5 * (np.arange(64) > 3))
    first, *others = finding.message.splitlines()
    assert first == "'y'[4] is 1372, expected 1377; 60 of 64 elements differ by more than the tolerance of 0.0001"
    store = line_of(row_sums, "# stores")
    assert others[0].startswith("  task 'default' of CTA (0, 0, 0): store at ") and others[0].endswith(f":{store} wrote it")
    store_site, *made = [site.line for site in finding.sites]
    assert store_site == store and set(made) >= {line_of(row_sums, mark) for mark in ("# zeros", "# adds", "# loads")}
    assert "barrier" not in str(finding) and str(finding).endswith("Shown by grid=(1,), seed=0 and `expected=`.")


def test_coordinates_that_are_swapped():
    assert check(*tiled()).ok
    kernel, grid, args, meta, want = tiled(swapped=True)
    finding = found(kernel, grid, args, meta, want)
    assert "'y'[0, 32] is 4096, expected 64; 2048 of 4096" in finding.message and "of CTA (0, 1, 0)" in finding.message
    assert finding.hint.startswith("what is in y[0, 32] is expected in y[32, 0]: two coordinates are swapped")
    assert {line_of(tiles, "# swapped"), line_of(tiles, "# stored")} <= {site.line for site in finding.sites}


def test_a_grid_that_is_one_dimension_short():
    kernel, _, args, meta, want = tiled()
    finding = found(kernel, (2, ), args, meta, want)
    assert finding.message.startswith("'y'[0, 32] is 0, expected 64") and finding.message.endswith("\n  no program wrote it")
    assert "see whether the grid has a program for this element" in finding.hint
    assert [site.line for site in finding.sites] == [line_of(tiles, "# stored")]


def test_an_integer_of_64_bits_that_was_cut():
    keys = np.arange(128, dtype=np.int32) << 12
    args, want = (keys, keys[::-1] >> 12, np.zeros(128, np.int64)), {"out": keys.astype(np.int64) * 65536 | keys[::-1] >> 12}
    assert check(packs, (1, ), args, {"N": 128, "WIDE": True}, want).ok
    finding = found(packs, (1, ), args, {"N": 128, "WIDE": False}, want)
    assert "lower 32 bits are right" in finding.hint and finding.sites[0].line == line_of(packs, "# packed")


def test_what_a_beginner_takes_for_the_result():
    """Each of these is no launch that is wrong, and says what to give."""
    for expected, said in ((lambda z: z, "a parameter 'z', and the kernel has no argument of that name. It has: x, y, rows, N"),
                           (lambda x: None, "expected= is, or gives, a NoneType"),
                           (lambda x: x, r"gives the shape \(7, 64\) for 'y', which has \(64,\)"),
                           (lambda x: x + np.zeros((3, 3)), r"expected= raised ValueError: operands .*test_results.py:\d+"),
                           ({"z": 1}, "expected= names 'z', and the kernel has no such argument. It has: x, y, rows, N"),
                           ({"rows": 7}, "'rows', which is no array but 7"), ({9: 1}, "expected= names 9")):
        with pytest.raises(SimulatorMisuse, match=said):
            check(*sums(), expected=expected)
    with pytest.raises(SimulatorMisuse, match="tolerance= is -1 for 'y'"):
        check(*sums(), expected=lambda x: x.sum(0), tolerance=-1)
    with pytest.raises(SimulatorMisuse, match="one array, and the kernel writes 2 arguments\n.*: indices, values"):
        check(*pairs(), expected=np.zeros(4))


@mimw.jit
def two_results(values, indices):
    at = tl.arange(0, 4)
    tl.store(values + at, 2.0 * at)
    tl.store(indices + at, at)


def pairs():
    return two_results, (1, ), (np.zeros(4, np.float32), np.zeros(4, np.int32)), {}


# ---- what expected= may be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", [{"y": np.arange(64) * 7. + 1344}, {1: np.arange(64) * 7. + 1344}, np.arange(64) * 7. + 1344,
                                      lambda x: x.sum(0), lambda x, rows, N: {"y": x.sum(0) + rows - 7 + N - 64}])
def test_by_name_by_place_alone_or_a_function(expected):
    report = check(*sums(), expected=expected, rounds=False)
    assert report.ok and report.results == "results compared: 'y' as expected in 2 runs"
    assert str(report).splitlines()[1] == report.results and report.as_json()["results"] == report.results


def test_a_result_that_is_an_input_as_well():
    """What is expected is computed before the launch, of what the arguments hold then."""
    for atomic in (False, True):
        args = np.ones(64, np.float32), np.arange(128, dtype=np.float32)
        assert check(adds, (1, ), args, {"N": 64, "ATOMIC": atomic}, {"y": args[1] + (np.arange(128) < 64)}).ok
        assert check(adds, (1, ), args, {"N": 64, "ATOMIC": atomic}, lambda x, y: np.concatenate([y[:64] + x, y[64:]])).ok


def test_masked_elements_are_not_compared():
    args = np.ones(64, np.float32), np.zeros(64, np.float32), 40
    want = np.ma.array(np.ones(64), mask=np.arange(64) >= 40)
    assert check(writes, (1, ), args, {"N": 64, "SAME": False}, {"y": want}).ok
    far = np.ma.array(np.where(want.mask, 1e9, 1.001), mask=want.mask)      # nor do they count for what is allowed
    finding = found(writes, (1, ), args, {"N": 64, "SAME": False}, {"y": far})
    assert finding.message.startswith("'y'[0] is 1, expected 1.001; 40 of 64")
    finding = found(writes, (1, ), args, {"N": 64, "SAME": False}, {"y": want.data})
    assert finding.message.startswith("'y'[40] is 0, expected 1; 24 of 64")


@pytest.mark.parametrize("kind, off, tolerance, right", [
    ("float32", 5e-5, None, True), ("float32", 1e-3, None, False), ("float32", 1e-3, 2e-3, True),
    ("float32", 1e-3, {"y": 2e-3}, True),
    ("float16", 1e-3, None, True), ("float16", 1e-2, None, False), ("float64", 1e-8, None, False), ("float64", 1e-8, 1e-7, True),
    ("int32", 0, None, True), ("int32", 1, None, False), ("int32", 1, 1.0, True)])
def test_the_tolerance_goes_by_the_type(kind, off, tolerance, right):
    args = np.ones(64, kind), np.zeros(64, kind), 64
    want = {"y": np.ones(64) + off * (np.arange(64) == 7)}
    report = check(writes, (1, ), args, {"N": 64, "SAME": False}, want, tolerance=tolerance, seeds=1, rounds=False)
    assert report.ok == right and (right or report.findings[0].message.startswith("'y'[7] is 1"))


def test_numbers_that_are_none():
    args = np.array([np.nan, np.inf, -np.inf, 1], np.float32), np.zeros(4, np.float32), 4
    assert check(writes, (1, ), args, {"N": 4, "SAME": False}, {"y": args[0]}).ok
    finding = found(writes, (1, ), args, {"N": 4, "SAME": False}, {"y": np.array([np.nan, 5, -np.inf, 1])})
    assert finding.message.startswith("'y'[1] is inf, expected 5\n")


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="tensors")
    x, y = torch.ones(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    assert check(writes, (1, ), (x, y, 64), {"N": 64, "SAME": False}, {"y": torch.ones(64)}).ok
    finding = found(writes, (1, ), (x, y, 50), {"N": 64, "SAME": False}, {"y": torch.ones(64)})
    assert finding.message.splitlines() == [
        "'y'[50] is 0, expected 1; 14 of 64 elements differ by more than the tolerance of 0.016", "  no program wrote it"]


def test_an_array_for_each_gpu():
    world = mimw.World(2)
    x, y = world.each(lambda rank: np.full(64, rank + 1, np.float32)), world.each(lambda rank: np.zeros(64, np.float32))
    launch = writes, (1, ), (x, y, 64), {"N": 64, "SAME": False}
    assert check(*launch, lambda x: {"y": x}).ok
    finding = found(*launch, {"y": [x[0], x[0]]})
    first, second, *_ = finding.message.splitlines()
    assert first.startswith("'y'[0] of rank 1 is 2, expected 1; 64 of 64") and "of rank 1" in second
    with pytest.raises(SimulatorMisuse, match="gives 3 arrays for 'y', which has one for each of 2 ranks"):
        check(*launch, {"y": [x[0]] * 3})


# ---- by simulate, by the commands -------------------------------------------------------------------------------------


def test_simulate_raises_it_with_its_lines():
    kernel, grid, args, meta, want = tiled(swapped=True)
    with pytest.raises(WrongResult, match="two coordinates are swapped") as caught:
        mimw.simulate(kernel, grid, *args, expected=want, **meta)
    assert caught.value.sites[0].line == line_of(tiles, "# stored")
    kernel, grid, args, meta, want = tiled()
    mimw.simulate(kernel, grid, *args, expected=want, **meta)
    assert (args[1].base.array == 2 * args[0].base.array).all()


def test_a_kernel_s_own_argument_of_that_name():
    @mimw.jit
    def scaled(x, expected, tolerance):
        at = tl.arange(0, 16)
        tl.store(expected + at, tolerance * tl.load(x + at))

    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    mimw.simulate(scaled, (1, ), x, expected=y, tolerance=3.0)
    assert (y == 3).all()


# ---- a part of the data, a part of the grid ---------------------------------------------------------------------------


def test_without_tile_data_nothing_is_compared():
    report = check(*sums(), expected={"y": np.zeros(64)}, protocol=True, rounds=False)
    assert report.ok and report.results == "results not compared: no run with all tile data came to its end"


def test_of_a_sample_what_its_programs_stored():
    args = np.ones(64, np.float32), np.zeros(64 * 9, np.float32), 64
    launch = writes, (9, ), args, {"N": 64, "SAME": False}
    report = check(*launch, {"y": np.ones(64 * 9)}, ctas="sample")
    assert report.ok and report.results.endswith("in 2 runs, where the CTAs that ran have stored") and not report.unwritten
    finding = found(*launch, {"y": np.full(64 * 9, 2)}, ctas="sample")
    assert finding.message.startswith("'y'[0] is 1, expected 2; 192 of 576")


def test_every_run_has_all_data(monkeypatch):
    """Without expected results, further runs leave out what decides nothing."""
    import mimw.tools.search.search as search
    monkeypatch.setattr(search, "QUICK", -1.0)
    assert check(*sums(), expected=lambda x: x.sum(0), seeds=5).results == "results compared: 'y' as expected in 5 runs"
