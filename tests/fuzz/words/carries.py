"""Tiles that loops carry: sums that grow, the tile of the round before, exchanges, counts."""

from __future__ import annotations

from dataclasses import dataclass

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .tiles import cast, within

TOTAL = 1 << 18  # what a sum may reach


@dataclass(frozen=True)
class Carried:
    """A name that is assigned again and again; `each`: the magnitude that one assignment may add (or hold, if `replaced`)."""

    name: str
    element: str
    shape: tuple[int, ...]
    each: int
    replaced: bool = False
    product: bool = False  # only dots add to it


def new_sum(make: Maker, shape, element: str = "f32", product: bool = False) -> Carried:
    name = make.name("acc")
    tl_name, reading = ELEMENTS[element].tl, ELEMENTS[element].reading
    one = Carried(name, element, shape, 1 << 12 if product else 64, product=product)
    kernel = make.draws.pick(
        [
            f"tl.zeros({list(shape)}, {tl_name})",
            f"tl.full({list(shape)}, 0, {tl_name})",
            f"tlx.zeros({list(shape)}, {tl_name})",
        ]
    )
    make.step([f"{name} = {kernel}"], [f"{name} = np.zeros({shape}, {reading})"], states=(name,))
    make.carried.append(one)
    return one


def new_previous(make: Maker, shape, element: str) -> Carried:
    name = make.name("p")
    first = make.draws.integer(0, 4)
    make.step(
        [f"{name} = tl.full({list(shape)}, {first}, {ELEMENTS[element].tl})"],
        [f"{name} = np.full({shape}, {first}).astype({ELEMENTS[element].reading})"],
        states=(name,),
    )
    one = Carried(name, element, shape, 8, replaced=True)
    make.carried.append(one)
    return one


def last(make: Maker, one: Carried) -> Value:
    """What it holds now, as a tile with a name."""
    bound = one.each if one.replaced else min(TOTAL, ELEMENTS[one.element].exact)
    return make.let(
        Value(f"{one.name} * 1", f"{one.name}.copy()", one.element, one.shape, bound, states=frozenset({one.name}))
    )


@word("carries", 3)
def grow(make: Maker):
    fitting = [one for one in make.carried if not one.replaced and not one.product]
    if not fitting:
        return False
    one = make.draws.pick(fitting)
    value = cast(within(make.operand(shape=one.shape), one.each), one.element)
    how = make.draws.pick(["{0} = {0} + {1}", "{0} += {1}"])
    make.step(
        [how.format(one.name, value.kernel)],
        [f"{one.name} = cast(wide({one.name}) + wide({value.reading}), {one.name}.dtype)"],
        value.uses,
        (*value.states, one.name),
    )


@word("carries", 2)
def hand_on(make: Maker):
    """Use what the round before left, and leave something."""
    fitting = [one for one in make.carried if one.replaced]
    if not fitting:
        return False
    one = make.draws.pick(fitting)
    if make.draws.chance(60):
        last(make, one)
    value = cast(within(make.operand(shape=one.shape), one.each), one.element)
    make.step(
        [f"{one.name} = {value.kernel}"], [f"{one.name} = {value.reading}"], value.uses, (*value.states, one.name)
    )


@word("carries", 1)
def exchange(make: Maker):
    """p, q = q, p"""
    fitting = [one for one in make.carried if one.replaced]
    for one in fitting:
        for other in fitting:
            if one.name < other.name and (one.element, one.shape) == (other.element, other.shape):
                text = f"{one.name}, {other.name} = {other.name}, {one.name}"
                make.step([text], [text], states=(one.name, other.name))
                return True
    return False
