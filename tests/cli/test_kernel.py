"""Types and constants given on the command line reach the right parameters."""

from types import SimpleNamespace

import pytest
import triton.language as tl

from mimw.cli.errors import CommandError
from mimw.cli.kernel import _constant, alignment_note, bind, split_types, without_hints


def kernel(a_desc, out, n, BM: tl.constexpr, BN: tl.constexpr = 64):
    """A signature; never compiled."""


def kernel_of_strings(out, BM: "tl.constexpr", n=3):
    """Annotations as `from __future__ import annotations` leaves them."""


_FULL = {"a_desc": "tensordesc<bf16[128,64]>", "out": "*bf16", "n": "i32", "BM": "constexpr", "BN": "constexpr"}


@pytest.mark.parametrize("text, expected", [
    ("*bf16, i32", ["*bf16", "i32"]),
    ("tensordesc<bf16[128,64]>,*bf16", ["tensordesc<bf16[128,64]>", "*bf16"]),
    ("a=*bf16, (i32,i64),", ["a=*bf16", "(i32,i64)"]),
    ("", []),
])
def test_types_are_cut_outside_brackets(text, expected):
    assert split_types(text) == expected


@pytest.mark.parametrize("types, constants", [
    (["tensordesc<bf16[128,64]>", "*bf16", "i32"], {"BM": 128}),
    (["n=i32", "a_desc=tensordesc<bf16[128,64]>", "*bf16"], {"BM": 128}),
])
def test_by_position_and_by_name(types, constants):
    signature, given = bind(kernel, types, constants)
    assert (signature, given) == (_FULL, {"BM": 128, "BN": 64})
    assert list(signature) == list(_FULL)


def test_any_argument_may_be_made_a_constant():
    assert bind(kernel, ["*fp32", "*bf16"], {"BM": 1, "BN": 2, "n": 7}) == (
        {"a_desc": "*fp32", "out": "*bf16", "n": "constexpr", "BM": "constexpr", "BN": "constexpr"}, {"n": 7, "BM": 1, "BN": 2})


def test_annotations_may_be_text():
    assert bind(kernel_of_strings, ["*fp32", "i32"], {"BM": 1}) == ({"out": "*fp32", "BM": "constexpr", "n": "i32"}, {"BM": 1})


@pytest.mark.parametrize("types, constants, expected", [
    (["*bf16"], {}, "Add --signature out=TYPE --signature n=TYPE --constexpr BM=VALUE"),
    (["*bf16"] * 4, {"BM": 1}, r"4 types for 3 run-time arguments \(a_desc, out, n\)"),
    (["m=i32"], {"BM": 1}, "no argument 'm'. It has: a_desc, out, n, BM, BN"),
    ([], {"BK": 1}, "no argument 'BK'"),
])
def test_what_does_not_fit_is_refused(types, constants, expected):
    with pytest.raises(CommandError, match=expected):
        bind(kernel, types, constants)


@pytest.mark.parametrize("text, expected", [
    ("BM=128", 128), ("F=True", True), ("F=None", None), ("shape=(128, 64)", (128, 64)), ("act=relu", "relu"),
    ("T=tl.bfloat16", tl.bfloat16), ("scale=0.5", 0.5), ("t='a=b'", "a=b"),
])
def test_constants(text, expected):
    assert _constant(text) == (text.partition("=")[0], expected)


@pytest.mark.parametrize("text", ["BM", "BM=", "=3", "T=tl.load"])
def test_constants_that_cannot_be_read(text):
    with pytest.raises(CommandError):
        _constant(text)


@pytest.mark.parametrize("signature, plain, constants, attrs", [
    ({"x": "*fp16:16", "n": "i32:16"}, {"x": "*fp16", "n": "i32"}, {}, {(0, ): [["tt.divisibility", 16]],
                                                                       (1, ): [["tt.divisibility", 16]]}),
    ({"x": "*fp16", "n": "i32:1", "m": "i64 : 16"}, {"x": "*fp16", "n": "constexpr", "m": "i64"}, {"n": 1},
     {(2, ): [["tt.divisibility", 16]]}),
    ({"d": "tensordesc<bf16[128,64]>", "B": "constexpr", "s": "(i32,i64)"},
     {"d": "tensordesc<bf16[128,64]>", "B": "constexpr", "s": "(i32,i64)"}, {}, {}),
])
def test_hints_are_cut_off(signature, plain, constants, attrs):
    assert without_hints(signature) == (plain, constants, attrs)


@pytest.mark.parametrize("type_", ["*fp16:8", "i32:2", "i32:x", "*fp16:1"])
def test_hints_that_triton_has_not(type_):
    with pytest.raises(CommandError, match=r"--signature x=.* is no hint\. Triton's are 16"):
        without_hints({"x": type_})


@pytest.mark.parametrize("unaligned, said", [((), ""), (("x", "y"), "x, y: addresses count as unaligned")])
def test_what_is_said_of_addresses(unaligned, said):
    assert alignment_note(SimpleNamespace(unaligned=unaligned)).startswith(said) and bool(unaligned) == bool(said)
