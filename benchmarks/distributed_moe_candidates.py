"""Which configurations `python -m benchmarks.distributed_moe --tune` tries.

Input: what is timed, and the configuration that the library takes. Output: configurations, that one first. For example:

    candidates("dispatch", Configuration(out=4, home=8, unread=4, group=1))
                                    this one, peers told of two rows; one and two warps that take whole rows, more on their way
"""

from __future__ import annotations

from dataclasses import replace

from mimw.kernels import moe_combine, moe_dispatch

COMBINED = ((8, 1024, 4, 1), (8, 1024, 4, 2), (16, 512, 2, 1), (4, 2048, 8, 1), (6, 1024, 4, 1))     # ctas, block, warps, parts


def of_dispatch(taken: moe_dispatch.Configuration) -> list[moe_dispatch.Configuration]:
    """Warps that take whole rows, as many rows on their way as before and more, in the same ring and in a larger one; and peers
    told of half as many rows, and of twice as many."""
    slots, found = taken.out + taken.home, [taken]
    for whole in (1, 2):
        for out in (taken.out, max(2, taken.out // 2)):
            home = slots - out
            for unread in (home // 2, home // 2 + 2, home - 2):
                group = min(taken.group, out)
                if unread % whole == 0 and home % whole == 0 and unread < home:
                    found.append(replace(taken, out=out, home=home, unread=unread, group=group, whole=whole))
    for group in (taken.group // 2, 2 * taken.group):
        if 1 <= group <= taken.out:
            found += [replace(taken, group=group), replace(taken, group=group, whole=1)]
    return list(dict.fromkeys(found))


def candidates(what: str, taken) -> list:
    """The configurations of `what`: dispatch, rows or combine."""
    if what == "dispatch":
        return of_dispatch(taken)
    if what == "rows":
        others = ((taken.out, taken.out - 2), (taken.out // 2, taken.out // 4))
        return list(dict.fromkeys([taken, *(replace(taken, out=out, unread=unread) for out, unread in others)]))
    return list(dict.fromkeys([taken, *(moe_combine.Configuration(*one) for one in COMBINED)]))
