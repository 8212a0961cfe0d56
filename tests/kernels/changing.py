"""Kernels that multiply by 3, named in one way after the other, and what makes each of these names stand for 5.

Input: nothing. Output: `CASES`, name -> (kernel, further arguments, change). For example:

    kernel, more, change = CASES["module"]
    change(monkeypatch)                 OF_MODULE.factor is 5 until the patch is undone; `as_defined()` undoes the closure's
"""

import types

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

AT = tl.constexpr(4)
OF_MODULE = types.ModuleType("of_module")
OF_MODULE.factor = tl.constexpr(3)
FACTOR, FACTORS = 3, types.SimpleNamespace(held=[3])


class Settings:
    factor = 3


def factory(c):
    """A compile-time function and a helper over a closure's cell, and what changes the cell."""
    def change(to):
        nonlocal c
        c = to

    @triton.constexpr_function
    def number(n):
        return n * c

    return number, change


@triton.constexpr_function
def of_global(n):
    return n * FACTOR


@triton.constexpr_function
def in_place(n):
    return n * FACTORS.held[0]


@triton.constexpr_function
def of_default(n, factor=3):
    return n * factor


@tle.struct
class Scaled:
    v: tl.tensor
    factor: tl.constexpr = 3

    @triton.jit
    def by_default(self):
        return self.v * self.factor

    @triton.jit
    def by_method(self):
        return self.v * 3


def scaled_by_five():
    """The class with another default and another method."""
    @tle.struct
    class Scaled:
        v: tl.tensor
        factor: tl.constexpr = 5

        @triton.jit
        def by_default(self):
            return self.v * self.factor

        @triton.jit
        def by_method(self):
            return self.v * 5

    return Scaled


def plain_python(n):
    return n * FACTOR


@triton.constexpr_function
def through_python(n):
    return plain_python(n)


OF_CLOSURE, CHANGE = factory(3)
CONSTANT = tl.constexpr(3)


@triton.jit
def helper(v):
    return v * CONSTANT


@triton.jit
def with_default(v, factor: tl.constexpr = 3):
    return v * factor


@triton.jit
def of_module_in_helper(v):
    return v * OF_MODULE.factor


def replaced_helper():
    @triton.jit
    def helper(v):
        return v * 5

    return helper


def replaced_number():
    @triton.constexpr_function
    def of_global(n):
        return n * 5

    return of_global


@mimw.jit
def k_global(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * CONSTANT)


@mimw.jit
def k_module(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * OF_MODULE.factor)


@mimw.jit
def k_module_in_helper(x, y):
    tl.store(y + tl.arange(0, AT), of_module_in_helper(tl.load(x + tl.arange(0, AT))))


@triton.constexpr_function
def of_class(n):
    return n * Settings.factor


@mimw.jit
def k_class(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * of_class(1))


@mimw.jit
def k_struct_default(x, y):
    tl.store(y + tl.arange(0, AT), Scaled(tl.load(x + tl.arange(0, AT))).by_default())


@mimw.jit
def k_struct_method(x, y):
    tl.store(y + tl.arange(0, AT), Scaled(tl.load(x + tl.arange(0, AT))).by_method())


@mimw.jit
def k_helper(x, y):
    tl.store(y + tl.arange(0, AT), helper(tl.load(x + tl.arange(0, AT))))


@mimw.jit
def k_default(x, y):
    tl.store(y + tl.arange(0, AT), with_default(tl.load(x + tl.arange(0, AT))))


@mimw.jit
def k_own_default(x, y, factor: tl.constexpr = 3):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * factor)


@mimw.jit
def k_number(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * of_global(1))


@mimw.jit
def k_number_default(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * of_default(1))


@mimw.jit
def k_in_place(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * in_place(1))


@mimw.jit
def k_python(x, y):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * through_python(1))


@mimw.jit
def k_closure(x, y):
    tlx.fence("gpu")
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * OF_CLOSURE(1))


@mimw.jit
def k_argument(x, y, number: tl.constexpr):
    tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))


def setting(name, value):
    return lambda patch: patch.setitem(globals(), name, value)


CASES = {    # kernel, what makes the factor 5
    "global": (k_global, setting("CONSTANT", tl.constexpr(5))),
    "the global of a helper": (k_helper, setting("CONSTANT", tl.constexpr(5))),
    "module": (k_module, lambda patch: patch.setattr(OF_MODULE, "factor", tl.constexpr(5))),
    "module, in a helper": (k_module_in_helper, lambda patch: patch.setattr(OF_MODULE, "factor", tl.constexpr(5))),
    "class": (k_class, lambda patch: patch.setattr(Settings, "factor", 5)),
    "a struct's default": (k_struct_default, setting("Scaled", scaled_by_five())),
    "a struct's method": (k_struct_method, lambda patch: patch.setattr(Scaled, "by_method", scaled_by_five().by_method)),
    "a helper that is defined again": (k_helper, setting("helper", replaced_helper())),
    "a compile-time function that is defined again": (k_number, setting("of_global", replaced_number())),
    "its global": (k_number, setting("FACTOR", 5)),
    "its default": (k_number_default, lambda patch: patch.setattr(of_default.fn, "__defaults__", (5, ))),
    "an object that it names": (k_in_place, lambda patch: patch.setattr(FACTORS, "held", [5])),
    "the global of what it calls": (k_python, setting("FACTOR", 5)),
    "the cell of its closure": (k_closure, lambda patch: CHANGE(5)),
    "a helper's default": (k_default, lambda patch: patch.setattr(with_default.fn, "__defaults__", (5, ))),
    "the kernel's own default": (k_own_default, lambda patch: patch.setattr(k_own_default.fn, "__defaults__", (5, ))),
    "the global of an argument": (k_argument, setting("FACTOR", 5)),
}
CASES = {name: (kernel, (of_global, ) if kernel is k_argument else (), change) for name, (kernel, change) in CASES.items()}


def as_defined():
    """Everything that a patch does not undo."""
    CHANGE(3)
