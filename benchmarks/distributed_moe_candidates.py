"""Which configurations `python -m benchmarks.distributed_moe --tune` tries.

Input: what is timed, and the configuration that the library takes. Output: configurations, that one first. For example:

    candidates("dispatch", Configuration(out=4, home=8, unread=4, group=1))
                                    this one, peers told of two rows; two warps that take whole rows, more on their way
    candidates("rows", RowsConfiguration(few=1, generations=2))
                                    this one, one generation, rows behind what is announced, not few; rings of other sizes
"""

from __future__ import annotations

from dataclasses import replace

from mimw.kernels import moe_combine, moe_dispatch

# ctas, block, warps, parts: of many tokens, and of so few that each is shared out in parts
COMBINED = ((8, 1024, 4, 1), (8, 1024, 4, 2), (16, 512, 2, 1), (4, 2048, 8, 1), (6, 1024, 4, 1))
FEW = ((8, 1024, 4, 2), (8, 1024, 4, 4), (8, 1024, 4, 7), (4, 2048, 8, 4), (16, 512, 2, 14))


def of_few(taken) -> list:
    """Of few rows: loaded before their peers are known or not, put before what is announced or behind, which is told of by signals
    or by words; one generation and two; choices in other tiles."""
    others = [replace(taken, told=told, few=few) for told in (False, True) for few in (1, 2)]
    others += [replace(taken, generations=1), replace(taken, few=0, generations=1, tile=128)]
    return [*others, *(replace(taken, tile=tile) for tile in (16, 64, 128))] if taken.few else []


def of_dispatch(taken: moe_dispatch.Configuration) -> list[moe_dispatch.Configuration]:
    """One warp that copies row by row, and two warps that take whole rows; peers told of half as many rows, of as many, of twice as
    many; and, in the ring as it is and in one with more room for what goes home, as much on its way as fits. Two generations of
    many rows, and other tiles of choices; of few what `of_few` says, and one warp."""
    if taken.few:
        return list(dict.fromkeys([taken, *of_few(taken), replace(taken, whole=0)]))
    slots, found = taken.out + taken.home, [taken, replace(taken, generations=2), replace(taken, told=not taken.told)]
    found += [replace(taken, tile=tile) for tile in (32, 64, 128)]
    for whole in (0, 2):
        for out in (taken.out, max(2, taken.out // 2)):
            home = slots - out
            for unread in (home // 2, home - 2):
                for group in (taken.group // 2, taken.group, 2 * taken.group):
                    fits = 1 <= group <= out and unread < home and not (whole and (unread % whole or home % whole))
                    if fits and (whole or out == taken.out and unread == home // 2):
                        found.append(replace(taken, out=out, home=home, unread=unread, group=group, whole=whole))
    return list(dict.fromkeys(found))


def of_combine(taken: moe_combine.Configuration, came: bool) -> list[moe_combine.Configuration]:
    """Other programs and parts, of few tokens also programs that do both. Where weights came, each with sums that are told of, and
    some with words that say so themselves or with the other number of generations."""
    few = taken.parts > 1
    shapes = [dict(zip(("ctas", "block", "warps", "parts"), one)) for one in (FEW if few else COMBINED)]
    found = [taken, *(replace(taken, roles=roles, **shape) for shape in shapes for roles in ((2, 1) if few else (2, )))]
    if came:
        found = [taken, *(replace(one, told=told) for one in found for told in (True, False)[:1 + few])]
        found += [replace(one, generations=3 - one.generations) for one in found[:2]]
    return list(dict.fromkeys(found))


def candidates(what: str, taken) -> list:
    """The configurations of `what`: dispatch, rows, combine of weights that came, or combine of weights that are sent."""
    if what == "dispatch":
        return of_dispatch(taken)
    if what == "rows":
        others = ((taken.out, taken.out - 2), (taken.out // 2, taken.out // 4))
        if taken.few:
            return list(dict.fromkeys([taken, *of_few(taken)]))
        return list(dict.fromkeys([taken, *(replace(taken, out=out, unread=unread) for out, unread in others)]))
    return of_combine(taken, what == "combine")
