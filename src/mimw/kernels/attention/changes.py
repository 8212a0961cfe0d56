"""The demands on what changes attention's scores: windows, soft caps, sinks, slopes; the same for every kernel of attention.

Input: what a caller gave. Output: what a kernel takes, or a ValueError that says what is wrong. For example:

    bounds((128, None))                         (128, None): 128 keys on the left, no bound on the right
    check_changes(2, 8, 30.0, None, slopes)     nothing for slopes of 8 or of 2 x 8, fp32
    slopes_step(slopes)                         0 or 8: how far one batch's slopes are from the next one's
"""

from __future__ import annotations

from ..checks import one_of, strides


def bounds(window: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """The two bounds of a window; ValueError unless each is None or a whole number of 0 or more."""
    if len(window) != 2 or any(one is not None and (not hasattr(one, "__index__") or one < 0) for one in window):
        raise ValueError(f"window is {window}; it must be (left, right), each None or a number of keys of 0 or more")
    return tuple(window)


def check_changes(batch: int, heads: int, softcap, sinks, slopes) -> None:
    """ValueError for a soft cap that is not more than 0, and for sinks or slopes that are not one fp32 number a head."""
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softcap is {softcap}, it must be more than 0, or None for none")
    for name, x, shapes in (("sinks", sinks, [(heads, )]), ("slopes", slopes, [(heads, ), (batch, heads)])):
        if x is None:
            continue
        if tuple(x.shape) not in shapes:
            raise ValueError(f"{name} is {' x '.join(map(str, x.shape))}; for {batch} batches of {heads} heads it must be "
                             f"{' or '.join(' x '.join(map(str, shape)) for shape in shapes)}")
        one_of(("float32", ), **{name: x})
        if strides(x) != ((1, ) if len(x.shape) == 1 else (heads, 1)):
            raise ValueError(f"{name} must be contiguous; its strides are {strides(x)} elements")


def slopes_step(slopes) -> int | None:
    """Elements from the slopes of one batch to those of the next; None without slopes."""
    return None if slopes is None else slopes.shape[1] if len(slopes.shape) == 2 else 0
