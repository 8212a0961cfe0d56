"""Python's and Triton's texts about values and types, as an author of kernels writes them.

Input: a message. Output: the same without addresses, classes and wrappers. For example:

    plainly("got fp32[constexpr[64], constexpr[64]]")       got fp32[64, 64]
    plainly("got <class 'numpy.float32'>")                  got float32
    plainly("<triton.language.core.slice object at 0x7f..>")    a slice
"""

from __future__ import annotations

import re

_TYPES = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float8e5": "fp8e5", "float8e4nv": "fp8e4nv"}
_RULES = (
    (re.compile(r"<class '(?:[\w.]*\.)?(\w+)'>"), r"\1"),
    (re.compile(r"<(?:bound method|function|built-in (?:function|method)) (?:[\w.]|<locals>)*?(\w+|<lambda>)"
                r"(?: of .*?)? at 0x[0-9a-f]+>>?"), r"the function '\1'"),
    (re.compile(r"JITFunction\([\w.]+:(\w+)\)"), r"the function '\1'"),
    (re.compile(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>"), r"a \1"),
    (re.compile(r"<(?:[\w.]*\.)?(\w+)[^<>]* at 0x[0-9a-f]+>"), r"a \1"),
    (re.compile(r"constexpr\[([^\[\]]*)\]"), r"\1"),
    (re.compile(r"<\[((?:'\d+'(?:, )?)+)\], ([\w<>]+)>"), lambda found: f"{found[2]}[{found[1]}]".replace("'", "")),
    (re.compile(r"\[((?:'\d+'(?:, )?)+)\]"), lambda found: f"[{found[1]}]".replace("'", "")),
    (re.compile(r"\btriton\.language\.(?:core\.)?(\w+)"), lambda found: _TYPES.get(found[1], found[1])),
    (re.compile(r"\b((?:fp|bf|u?int)\d+\w*|pointer<\w+>)\[\]"), r"\1"),
)


def plainly(text: str) -> str:
    """The text in plain words."""
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text
