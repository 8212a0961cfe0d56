"""What every kernel of attention has in common: the lines of contracts for heads and for what changes scores, and what queries see.

Input: what a caller gave. Output: lines for a contract, and numbers for a kernel. For example:

    Contract("q: ...", "k: ...", *HEADS, *CHANGES)      sinks, slopes, softcap; heads that share keys
    sight(True, (128, None))                    (True, 128, None, 0): causal, the bounds, how far behind its place a query sees
    capped(0.125, 30.0)                         (0.125 / 30, 30.0): what a score is multiplied by inside of tanh, and outside
    constants_of(mod)                           {"MOD": mod.value}: of a launch with a score_mod, else nothing
    slopes_step(slopes)                         0 or 8: how far one batch's slopes are from the next one's
"""

from __future__ import annotations

from math import sqrt

HEADS = "kv_heads > 0 and heads % kv_heads == 0 -- the heads of k and v must divide those of q"
SINKS = "sinks?: fp32 (heads) contiguous"
SOFTCAP = "softcap > 0 -- it must be more than 0, or None for none"
CHANGES = SINKS, "slopes?: fp32 (heads) or (batch, heads) contiguous", SOFTCAP
LEFT = "left >= 0 -- the left bound of the window must be 0 or more keys, or None for no bound"
BOUNDS = (
    LEFT, "right >= 0 -- the right bound of the window must be 0 or more keys, or None for no bound")
SCALE = "scale > 0 -- it must be more than 0"
LONGEST_WITH_SLOPES = 1 << 22    # queries and keys: distances are floats of 22 bits
NEAR = (f"slopes is None or seq_q + seq_k <= {LONGEST_WITH_SLOPES} -- distances of slopes are exact for up to "
        f"{LONGEST_WITH_SLOPES} "
        "queries and keys together")
SEEN = "seq_k + reach >= seq_q -- the first queries would see no key (reach is the right bound, 0 if causal)"


# Of a score_mod's table, one number a key. Loads of as many elements as there are threads keep a layout of their own, to which the
# compiler would move scores, through shared memory that is not there; of fewer it loads as the scores lie.
READ_AT_ONCE = 64


def bounds(window: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """The two bounds of a window; ValueError unless each is None or a whole number of 0 or more."""
    if len(window) != 2 or any(one is not None and (not hasattr(one, "__index__") or one < 0) for one in window):
        raise ValueError(f"window is {window}; it must be (left, right), each None or a number of keys of 0 or more")
    return tuple(window)


def sight(causal: bool, window: tuple[int | None, int | None]) -> tuple[bool, int | None, int | None, int | None]:
    """(causal, left bound, right bound, how many keys behind its own place a query sees): a right bound of 0 is causal."""
    left, right = bounds(window)
    causal = causal or right == 0
    return causal, left, None if causal else right, 0 if causal else right


def scale_of(scale: float | None, dim: int) -> float:
    """The scale of scores, by default 1 / sqrt(dim)."""
    return 1 / sqrt(dim) if scale is None else scale


def capped(scale: float, softcap: float | None, mod=None) -> tuple[float | None, float]:
    """The factors of a score inside of a soft cap or a score_mod, None without one, and outside."""
    if mod is not None:
        return scale, 1.0
    return (None, scale) if softcap is None else (scale / softcap, float(softcap))


def constants_of(mod, gradient: bool = False) -> dict:
    """The function of a `mimw.score_mods.ForKernels` as constants of a launch, forward or backward; none without."""
    return {} if mod is None else {"MOD": mod.gradient if gradient else mod.value}


def slopes_step(slopes) -> int | None:
    """Elements from the slopes of one batch to those of the next; None without slopes."""
    return None if slopes is None else slopes.shape[1] if len(slopes.shape) == 2 else 0
