"""Every function of the device libraries that Triton's wheel names: none is missing, and each has its defined value."""

import inspect
import math
import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl
import triton.language.extra as extra
import triton.language.extra.cuda.libdevice as cuda
import triton.language.extra.libdevice as generic
from triton.language import core

import mimw
from mimw.runtime.compile_kernel import compile_kernel
from mimw.simulator.words.libdevice import function
from mimw.testing.machines import Gpu

TYPES = {"int32": "i32", "int64": "i64", "uint32": "u32", "uint64": "u64", "fp32": "fp32", "fp64": "fp64"}
DTYPES = {"int32": np.int32, "int64": np.int64, "uint32": np.uint32, "uint64": np.uint64, "fp32": np.float32, "fp64": np.float64}
N = 32
RNG = np.random.default_rng(17)


def names_of(module):
    return sorted(name for name, one in vars(module).items() if callable(one) and not name.startswith("_") and name != "core")


def table(monkeypatch):
    """(name, types of the arguments, symbol, type of the result) of all that the wheel offers for NVIDIA."""
    found = []
    monkeypatch.setattr(core, "extern_elementwise", lambda library, path, args, symbols, **_: found.append(symbols) or
                        SimpleNamespace(to=lambda *_, **__: None))
    for name in names_of(cuda):
        one = getattr(cuda, name)
        count = sum(parameter != "_semantic" for parameter in inspect.signature(one).parameters)
        found.append(name)
        one(*[None] * count, _semantic=object())
    monkeypatch.undo()
    rows, name = [], ""
    for entry in found:
        if isinstance(entry, str):
            name = entry
        else:
            rows += [(name, tuple(kind.name for kind in args), symbol, kind.name) for args, (symbol, kind) in entry.items()]
    return rows


def test_none_is_missing(monkeypatch):
    rows = table(monkeypatch)
    assert len(rows) > 300 and {row[0] for row in rows} == set(names_of(cuda))
    assert [symbol for _, _, symbol, _ in rows if function(symbol) is None] == []
    assert set(names_of(generic)) - set(names_of(cuda)) <= {"fast_tanhf"}       # of AMD alone
    amd = (Path(extra.__file__).parent / "hip" / "libdevice.py").read_text()
    symbols = set(re.findall(r'"(__o(?:cml|ckl)_\w+|__triton_hip_\w+)"', amd))
    assert len(symbols) > 100 and [symbol for symbol in sorted(symbols) if function(symbol) is None] == []


# ---- the whole table in one kernel --------------------------------------------------------------------------------------

def places_of(symbol, args):
    """(row of the inputs, type) of each argument; orders of Bessel functions are small, or a GPU would step through all of them."""
    return [(3 if symbol[5:7] in ("jn", "yn") and one == "int32" else place, one) for place, one in enumerate(args)]


def kernel_of(rows):
    """A kernel that calls them all: row i of its result's type has function i of that type."""
    parameters = ", ".join(f"{kind}_in, {kind}_out" for kind in TYPES)
    lines = [f"def calls({parameters}, N: tl.constexpr):", "    at = tl.arange(0, N)"]
    places = dict.fromkeys(TYPES, 0)
    where = []
    for name, args, symbol, kind in rows:
        loads = ", ".join(f"tl.load({one}_in + {place} * N + at)" for place, one in places_of(symbol, args))
        lines.append(f"    tl.store({kind}_out + {places[kind]} * N + at, libdevice.{name}({loads}))")
        where.append((symbol, args, kind, places[kind]))
        places[kind] += 1
    source = "\n".join(lines) + "\n"
    scope = {"tl": tl, "libdevice": cuda}
    exec(source, scope)
    return mimw.jit(scope["calls"], source=source), where, places


def inputs():
    """Four rows of each type: numbers that most functions are defined for."""
    rows = {"fp64": np.concatenate([RNG.uniform(0.05, 0.95, (1, N)), RNG.uniform(0.1, 2.0, (3, N))])}
    rows["fp32"] = rows["fp64"].astype(np.float32)
    for name in ("int32", "int64", "uint32", "uint64"):
        rows[name] = RNG.integers(1, 9, (4, N)).astype(DTYPES[name])
        rows[name][:, ::3] = RNG.integers(0, 2**31 - 1, (4, (N + 2) // 3))
    rows["int32"][1:] %= 9      # orders, exponents
    rows["int64"][0, 1::3] *= -2**31
    return rows


def outputs(places):
    return {kind: np.zeros((max(1, count), N), DTYPES[kind]) for kind, count in places.items()}


def flat(given, made):
    return [one for kind in TYPES for one in (given[kind], made[kind])]


@pytest.fixture(scope="module")
def whole():
    with pytest.MonkeyPatch.context() as patch:
        return kernel_of(table(patch))


def test_each_is_simulated(whole):
    kernel, where, places = whole
    given, made = inputs(), outputs(places)
    mimw.simulate(kernel, (1, ), *flat(given, made), N)
    for symbol, args, kind, row in where:
        with np.errstate(all="ignore"):
            taken = [given[one][place] for place, one in places_of(symbol, args)]
            wanted = np.asarray(function(symbol)(*taken)).astype(DTYPES[kind])
        np.testing.assert_array_equal(made[kind][row].view(f"u{wanted.itemsize}"), wanted.view(f"u{wanted.itemsize}"), symbol)


APPROXIMATE = re.compile("fast_|rcp64h")


@pytest.mark.gpu
def test_each_on_the_gpu(whole):
    """Exact ones to the bit; those that the library approximates, within the units of the last place that it promises, and more."""
    kernel, where, places = whole
    given, made, wanted = inputs(), outputs(places), outputs(places)
    mimw.simulate(kernel, (1, ), *flat(given, wanted), N)
    Gpu().launch(kernel, (1, ), *flat(given, made), N)
    wrong = []
    for symbol, args, kind, row in where:
        one, other = made[kind][row], wanted[kind][row]
        exact = kind[:2] != "fp" or re.search(r"_(rn|rz|rd|ru)$|_as_|hiloint2double", symbol) and "frsqrt" not in symbol
        tolerance = 0 if exact else 1e-3 if APPROXIMATE.search(symbol) else 1e-5 if kind == "fp32" else 1e-11
        near = np.isclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        if not near.all():
            place = int(np.argmin(near))
            taken = [given[a][i][place] for i, a in places_of(symbol, args)]
            wrong.append(f"{symbol}{args} of {taken}: {one[place]}, not {other[place]}")
    assert not wrong, "\n".join(wrong)


# ---- what each is by definition -----------------------------------------------------------------------------------------

def numbers(dtype, count=40):
    """Of all sizes, both signs, with many that are near each other."""
    scale = 60 if dtype is np.float32 else 500
    some = RNG.standard_normal(count) * 2.0**RNG.integers(-scale, scale, count)
    return np.concatenate([some, RNG.standard_normal(count), [0.0, -0.0, 1.0, 3.0, 1e30, -7.0]]).astype(dtype)


TRUE = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y if y else None,
    "rcp": lambda x: 1 / x if x else None, "fma": lambda x, y, z: x * y + z, "sqrt": lambda x: x if x > 0 else None,
}


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("dtype, letter", [(np.float32, "f"), (np.float64, "d")])
def test_rounding_by_direction(name, dtype, letter):
    """The number on the asked side of the true value (of a root: of its square), with no other one between."""
    symbol = {"fma": "fmaf" if letter == "f" else "fma"}.get(name, letter + name)
    values = [RNG.permutation(numbers(dtype)) for _ in range(TRUE[name].__code__.co_argcount)]
    if name == "sqrt":
        values = [np.abs(values[0])]
    tiny, power = np.finfo(dtype).tiny, 2 if name == "sqrt" else 1
    with np.errstate(all="ignore"):
        found = {mode: function(f"__nv_{symbol}_{mode}")(*values) for mode in ("rn", "rz", "rd", "ru")}
    for place, operands in enumerate(zip(*values)):
        exact = TRUE[name](*(Fraction(float(one)) for one in operands))
        if exact is None:
            continue
        near, zero, down, up = (found[mode][place] for mode in ("rn", "rz", "rd", "ru"))
        assert near.dtype == dtype and near in (down, up) and zero == (down if exact > 0 else up)
        for one, side in ((down, -1), (up, 1)):
            if np.isfinite(one) and abs(one) > tiny:
                assert (Fraction(float(one))**power - exact) * side >= 0
                with np.errstate(all="ignore"):
                    inner = np.nextafter(one, dtype(-side * np.inf))
                assert not np.isfinite(inner) or (Fraction(float(inner))**power - exact) * side < 0
        if np.isfinite(down) and np.isfinite(up) and abs(down) > tiny and down != up and power == 1:
            low, high = exact - Fraction(float(down)), Fraction(float(up)) - exact
            assert near == (down if low < high else up) or low == high


def test_at_the_edges_of_rounding():
    single = np.float32
    largest, least = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    with np.errstate(all="ignore"):
        assert function("__nv_fadd_rz")(single([largest]), single([largest]))[0] == largest
        assert function("__nv_fadd_ru")(single([largest]), single([1.0]))[0] == np.inf
        assert function("__nv_dmul_rd")(np.array([1e308]), np.array([10.0]))[0] == np.finfo(np.float64).max
        assert np.signbit(function("__nv_dadd_rd")(np.array([1.0]), np.array([-1.0])))[0]
        assert not np.signbit(function("__nv_dadd_rd")(np.array([0.0]), np.array([0.0])))[0]
        assert function("__nv_fmul_ru")(single([1e-30]), single([1e-30]))[0] == 0          # .ftz
        assert function("__nv_dmul_ru")(np.array([1e-200]), np.array([1e-200]))[0] == np.finfo(np.float64).smallest_subnormal
        assert np.isnan(function("__nv_fsqrt_rz")(single([-1.0])))[0] and np.isnan(function("__nv_frcp_rd")(single([np.nan])))[0]
        assert function("__nv_frcp_rd")(single([0.0]))[0] == np.inf
        assert function("__nv_ceilf")(single([least]))[0] == 0 and function("__nv_ceil")(np.array([float(least)]))[0] == 1
    # Rounded once: by way of fp64 and a sum rounded there, the last bit would be another one.
    x, y, z = single([1 + 2.0**-12]), single([1 + 2.0**-12]), single([2.0**-60])
    assert function("__nv_fmaf")(x, y, z)[0] == single(1 + 2.0**-11 + 2.0**-23) != single(np.float64(x) * y + z)
    x = np.array([1 + 2.0**-30])
    assert function("__nv_fma")(x, x, -np.array([1 + 2.0**-29]))[0] == 2.0**-60


@pytest.mark.parametrize("source, dtype", [("float", np.float32), ("double", np.float64)])
@pytest.mark.parametrize("target, limits", [("int", np.int32), ("uint", np.uint32), ("ll", np.int64), ("ull", np.uint64)])
def test_numbers_to_integers(source, dtype, target, limits):
    special = [0.5, 1.5, -0.5, -2.5, 2.0**31, 2.0**32, -2.0**63, 2.0**64, np.inf, -np.inf, 1e38]
    x = np.concatenate([numbers(dtype, 20) * dtype(1000), np.array(special, dtype)])
    info = np.iinfo(limits)
    for mode, whole in (("rn", round), ("rz", math.trunc), ("rd", math.floor), ("ru", math.ceil)):
        with np.errstate(all="ignore"):
            found = function(f"__nv_{source}2{target}_{mode}")(x)
        wanted = [min(max(whole(Fraction(float(one))), info.min), info.max) if np.isfinite(one) else
                  info.max if one > 0 else info.min for one in x]
        assert found.astype(limits).tolist() == wanted, mode
    nothing = function(f"__nv_{source}2{target}_rz")(np.array([np.nan], dtype)).astype(limits)
    short = source == "float" and target in ("int", "uint")
    assert int(nothing[0]) % 2**info.bits == (0 if short else 2**(info.bits - 1))


@pytest.mark.parametrize("symbol, dtype, to", [
    ("int2float", np.int32, np.float32), ("uint2float", np.uint32, np.float32), ("ll2float", np.int64, np.float32),
    ("ull2float", np.uint64, np.float32), ("ll2double", np.int64, np.float64), ("ull2double", np.uint64, np.float64),
    ("double2float", np.float64, np.float32)])
def test_numbers_to_narrower_ones(symbol, dtype, to):
    if dtype is np.float64:
        x = numbers(dtype) * 2.0**-400
        x = np.where(np.abs(x) < 1e30, RNG.standard_normal(x.size), x)
    else:
        x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 60, dtype)
    found = {mode: function(f"__nv_{symbol}_{mode}")(x) for mode in ("rn", "rz", "rd", "ru")}
    for place, one in enumerate(x):
        exact = Fraction(float(one)) if dtype is np.float64 else Fraction(int(one))
        near, zero, down, up = (found[mode][place] for mode in ("rn", "rz", "rd", "ru"))
        assert Fraction(float(down)) <= exact <= Fraction(float(up)) and up in (down, np.nextafter(down, to(np.inf)))
        assert near in (down, up) and zero == (down if exact > 0 else up)


def _reference(name, x, y, z, bits, signed):
    """Of Python's integers, in `bits` bits."""
    unsigned = [one % 2**bits for one in (x, y, z)]
    text = f"{unsigned[0]:0{bits}b}"
    low = [one % 2**24 - (2**24 if signed and one % 2**24 >= 2**23 else 0) for one in (x, y)]
    both = (unsigned[1] % 2**32 << 32 | unsigned[0] % 2**32).to_bytes(8, "little")
    return {
        "clz": len(text) - len(text.lstrip("0")), "popc": text.count("1"), "ffs": text[::-1].find("1") + 1,
        "brev": int(text[::-1], 2), "mulhi": x * y >> bits, "mul24": low[0] * low[1], "sad": abs(x - y) + unsigned[2],
        "hadd": x + y >> 1, "rhadd": x + y + 1 >> 1,
        "byte_perm": sum(both[unsigned[2] >> 4 * place & 7] << 8 * place for place in range(4)),
    }[name]


@pytest.mark.parametrize("symbol, name, dtype, count", [
    ("clz", "clz", np.int32, 1), ("clzll", "clz", np.int64, 1), ("popc", "popc", np.int32, 1), ("popcll", "popc", np.int64, 1),
    ("ffs", "ffs", np.int32, 1), ("ffsll", "ffs", np.int64, 1), ("brev", "brev", np.int32, 1), ("brevll", "brev", np.int64, 1),
    ("mulhi", "mulhi", np.int32, 2), ("umulhi", "mulhi", np.uint32, 2), ("mul64hi", "mulhi", np.int64, 2),
    ("umul64hi", "mulhi", np.uint64, 2), ("mul24", "mul24", np.int32, 2), ("umul24", "mul24", np.uint32, 2),
    ("sad", "sad", np.int32, 3), ("usad", "sad", np.uint32, 3), ("hadd", "hadd", np.int32, 2), ("uhadd", "hadd", np.uint32, 2),
    ("rhadd", "rhadd", np.int32, 2), ("urhadd", "rhadd", np.uint32, 2), ("byte_perm", "byte_perm", np.int32, 3)])
def test_integers(symbol, name, dtype, count):
    info = np.iinfo(dtype)
    special = np.array([0, 1, info.max, info.min, info.max // 3, 2], dtype)
    values = [np.concatenate([RNG.permutation(special), RNG.integers(info.min, info.max, 30, dtype)]) for _ in range(3)]
    found = function(f"__nv_{symbol}")(*values[:count])
    width = 32 if name in ("clz", "popc", "ffs") else info.bits
    wanted = [_reference(name, *map(int, row), info.bits, info.min < 0) % 2**width for row in zip(*values)]
    assert [int(one) % 2**width for one in found] == wanted


def test_bits_of_numbers():
    x = np.array([1.5, -0.0, np.inf, 1e-310])
    high, low = function("__nv_double2hiint")(x), function("__nv_double2loint")(x)
    assert high.tolist() == (x.view(np.int64) >> 32).tolist() and (low == x.view(np.int32)[::2]).all()
    assert function("__nv_hiloint2double")(high, low).tobytes() == x.tobytes()
    assert function("__nv_float_as_uint")(np.float32([-1.0])).tolist() == np.float32([-1.0]).view(np.int32).tolist()
    assert function("__nv_signbitf")(np.float32([-0.0, 1.0])).tolist() == [True, False]
    assert function("__nv_nextafterf")(np.float32([1.0]), np.float32([2.0]))[0] == np.float32(1 + 2.0**-23)
    assert function("__nv_rcp64h")(np.array([3.0]))[0] == pytest.approx(1 / 3, rel=2.0**-20)
    assert function("__nv_rcp64h")(np.array([3.0])).view(np.int64)[0] & 0xFFFFFFFF == 0


def integral(of, low, high, points=4000):
    """Simpson's rule."""
    t = np.linspace(low, high, 2 * points + 1)
    weights = np.full(t.size, 2.0)
    weights[1::2], weights[[0, -1]] = 4.0, 1.0
    return (of(t) * weights).sum() * (high - low) / (6 * points)


@pytest.mark.parametrize("x", [0.3, 1.0, 2.5, 7.0, 20.0, 45.0])
def test_bessel_functions_are_their_integrals(x):
    def value(name, *args):
        return float(function(f"__nv_{name}")(*map(np.asarray, args)))

    for n in range(4):
        wanted = integral(lambda t, n=n: np.cos(n * t - x * np.sin(t)), 0, math.pi) / math.pi
        assert value("jn", np.int32(n), x) == pytest.approx(wanted, abs=1e-13)
        if n < 2:
            assert value(f"j{n}", x) == pytest.approx(wanted, abs=1e-13)
            wanted = integral(lambda t, n=n: np.exp(x * np.cos(t)) * np.cos(n * t), 0, math.pi) / math.pi
            assert value(f"cyl_bessel_i{n}", x) == pytest.approx(wanted, rel=1e-12)
            assert value(f"cyl_bessel_i{n}", -x) == pytest.approx((-1)**n * wanted, rel=1e-12)
    # The Wronskian ties the second kind to the first: J1 Y0 - J0 Y1 = 2 / (pi x); the recurrence the orders.
    j0, j1, y0, y1 = (value(name, x) for name in ("j0", "j1", "y0", "y1"))
    assert j1 * y0 - j0 * y1 == pytest.approx(2 / (math.pi * x), rel=1e-12)
    assert value("yn", np.int32(2), x) == pytest.approx(2 / x * y1 - y0, rel=1e-10)


def test_error_functions():
    y = np.array([-0.999999, -0.5, -1e-9, 0.0, 1e-300, 0.3, 0.7, 1 - 1e-12])
    back = [math.erf(x) for x in function("__nv_erfinv")(y)]
    np.testing.assert_allclose(back, y, rtol=1e-14)
    tails = np.array([1e-300, 1e-20, 0.1, 0.9, 1.3, 1.99])
    np.testing.assert_allclose([math.erfc(x) for x in function("__nv_erfcinv")(tails)], tails, rtol=1e-11)
    p = np.array([1e-30, 0.02, 0.5, 0.8, 0.999])
    np.testing.assert_allclose(function("__nv_normcdf")(function("__nv_normcdfinv")(p)), p, rtol=1e-12)
    for x in (-3.0, 0.0, 1.0, 1.999, 2.0, 6.0, 30.0):
        wanted = 2 / math.sqrt(math.pi) * integral(lambda t, x=x: np.exp(-t * t - 2 * x * t), 0, 20 / x if x > 2 else 14, 20000)
        assert float(function("__nv_erfcx")(np.asarray(x))) == pytest.approx(wanted, rel=1e-10)
    with np.errstate(all="ignore"):
        assert function("__nv_erfinv")(np.array([1.0, -1.0])).tolist() == [np.inf, -np.inf]
        assert np.isnan(function("__nv_erfinv")(np.array([1.5]))) and function("__nv_erfcx")(np.array([-30.0])) == np.inf
        assert function("__nv_erfcinv")(np.array([0.0, 2.0])).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("symbol, values, wanted", [
    ("round", [2.5, -2.5, 0.49999999999999994, -0.2], [3, -3, 0, -0.0]), ("rint", [2.5, 3.5, -0.2], [2, 4, -0.0]),
    ("llround", [2.5, -2.5, 1e300, np.nan], [3, -3, 2**63 - 1, -2**63]), ("llrint", [2.5, 1e300], [2, 2**63 - 1]),
    ("ilogb", [8.0, 0.3, 0.0, np.inf], [3, -2, -2**31, 2**31 - 1]), ("logb", [8.0, 0.3, 0.0, -np.inf], [3, -2, -np.inf, np.inf]),
    ("saturatef", [-1.0, 0.25, 7.0, np.nan], [0, 0.25, 1, 0]), ("cospi", [0.5, 1.0, 0.0, 1 / 3], [0, -1, 1, 0.5]),
    ("sinpi", [0.5, 1.0, 1.5, 1e15, -0.25], [1, 0, -1, 0, -math.sqrt(0.5)]),
    ("tgamma", [5.0, 0.5, -1.0, 0.0], [24, math.sqrt(math.pi), np.nan, np.inf]),
    ("lgamma", [5.0, -1.0, np.inf], [math.log(24), np.inf, np.inf]), ("rcbrt", [8.0, -27.0], [0.5, -1 / 3]),
    ("exp10", [2.0, -1.0], [100, 0.1]), ("isnand", [np.nan, 1.0], [1, 0]), ("isfinited", [np.inf, 1.0], [0, 1]),
])
def test_of_one_number(symbol, values, wanted):
    with np.errstate(all="ignore"):
        found = np.asarray(function(f"__nv_{symbol}")(np.array(values)))
    if found.dtype.kind == "i":
        assert found.tolist() == wanted
    np.testing.assert_allclose(found.astype(float), np.array(wanted, float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("symbol, values, wanted", [
    ("fast_fdividef", [(1, 3), (1, 2.0**127), (np.inf, 2.0**127), (1, 0)], [1 / 3, 0, np.nan, np.inf]),
    ("fast_powf", [(2, 10), (9, 0.5), (-2, 2)], [1024, 3, np.nan]), ("powf", [(-2, 2), (2, 0.5)], [4, math.sqrt(2)]),
    ("remainderf", [(5, 3), (-5, 3), (5, 0), (7.5, 2)], [-1, 1, np.nan, -0.5]), ("fmodf", [(5, 3), (-5, 3)], [2, -2]),
    ("fdimf", [(3, 1), (1, 3), (np.inf, np.inf)], [2, 0, 0]), ("hypotf", [(3, 4), (1e30, 1e30)], [5, 1e30 * math.sqrt(2)]),
    ("rhypotf", [(3, 4)], [0.2]), ("norm3df", [(2, 3, 6)], [7]), ("rnorm3df", [(2, 3, 6)], [1 / 7]),
    ("norm4df", [(1, 1, 1, 1)], [2]), ("rnorm4df", [(2, 2, 2, 2)], [0.25]),
])
def test_of_several_numbers(symbol, values, wanted):
    with np.errstate(all="ignore"):
        found = np.asarray(function(f"__nv_{symbol}")(*np.array(values, np.float32).T)).astype(np.float32)
    np.testing.assert_allclose(found, np.array(wanted, np.float32), rtol=1e-6)


def test_with_an_integer():
    x, n = np.float32([3.0, -2.0, 1.5]), np.int32([2, -1, 0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(function("__nv_powif")(x, n), [9, -0.5, 1])
        np.testing.assert_allclose(function("__nv_ldexpf")(x, n), [12, -1, 1.5])
        np.testing.assert_allclose(function("__nv_scalbn")(x.astype(np.float64), n), [12, -1, 1.5])
        assert np.isnan(function("__nv_jn")(np.int32([-1]), np.array([1.0])))[0]
        assert function("__nv_y0")(np.array([0.0]))[0] == -np.inf and np.isnan(function("__nv_y1")(np.array([-1.0])))[0]


# ---- what the values rest on --------------------------------------------------------------------------------------------

@mimw.jit
def flushing(x, y):
    a, b = tl.load(x), tl.load(x + 1)
    tl.store(y, cuda.fast_dividef(a, b))
    tl.store(y + 1, cuda.add_rz(a, b))
    tl.store(y + 2, cuda.ceil(a))
    tl.store(y + 3, cuda.trunc(a))


def test_instructions_that_flush():
    ptx = compile_kernel(flushing, {"x": "*fp32", "y": "*fp32"}, {}, "sm_100a").ptx
    assert all(one in ptx for one in ("div.approx.ftz.f32", "add.rz.ftz.f32", "cvt.rpi.ftz.f32.f32", "cvt.rzi.f32.f32"))
    y = np.zeros(4, np.float32)
    mimw.simulate(flushing, (1, ), np.float32([6.0, 1.5]), y, target="sm_100a")
    assert y.tolist() == [4.0, 7.5, 6.0, 6.0]


@mimw.jit
def bounded(x, y):
    at = tl.arange(0, 32)
    tl.store(y + at, generic.floor(generic.tanh(tl.load(x + at)) * 8))


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
def test_functions_on_chips_of_amd(target):
    """Of its library, ocml; they are no assembly, of which a chip of AMD's has one of its own."""
    x, y = np.linspace(-3, 3, N).astype(np.float32), np.zeros(N, np.float32)
    mimw.simulate(bounded, (1, ), x, y, target=target)
    assert (y == np.floor(np.tanh(x) * 8)).all()
    assert compile_kernel(bounded, {"x": "*fp32", "y": "*fp32"}, {}, target).stage("hsaco")[:4] == b"\x7fELF"
