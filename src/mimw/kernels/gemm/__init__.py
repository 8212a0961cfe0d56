"""GEMM for Hopper: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 accumulation, and what is done to the sums on their way out.

Input: a (M, K) and b (K, N). Output: c = a b, (M, N), or act(alpha row_scale column_scale a b + bias + beta residual). For example:

    grid, args, meta = arguments(a, b, c, programs)         of numpy arrays or torch tensors
    kernel[grid](*args, **meta)                             the launch; mimw.simulate(kernel, grid, *args, **meta)
    arguments(a, b, c, programs, bias=bias, activation="gelu")

`mimw.ops.matmul`, `addmm` and `scaled_mm` are its operators.
"""

from __future__ import annotations

from ..checks import PROGRAMS, enough
from ..contract import Contract
from ..descriptors import described
from ..products import TYPES, left_lying, lying, matrices
from .configs import ON_AMD, Configuration, configuration
from .kernel import GemmForm
from .kernel import gemm as kernel

ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")
CONTRACT = Contract(f"a: {TYPES} (M, K)", *matrices("(M, K)", "(K, N)", "(M, N)")[1:], f"bias?: {TYPES} (N) contiguous",
                    "residual?: =c (M, N) tma", "row_scale?: fp32 (M|1) contiguous", "column_scale?: fp32 (N|1) contiguous",
                    "room?: fp32 (numbers)", "flags?: i32 (words)", "kept?: =c (M, N) tma", PROGRAMS,
                    f"activation in {ACTIVATIONS} -- it may be {', '.join(map(str, ACTIVATIONS))}")

__all__ = ["ACTIVATIONS", "CONTRACT", "ON_AMD", "Configuration", "arguments", "configuration", "kernel", "room_for"]
PROMOTED = Configuration(bm=128, bn=128, stages=6, consumers=2, staging=2, together=2)    # three sums of 64 x 128


def arguments(a, b, c, programs: int, chosen: Configuration | None = None, *, bias=None, residual=None, row_scale=None,
              column_scale=None, alpha: float = 1.0, beta: float = 1.0, activation: str | None = None,
              promoted: bool = False, room=None, flags=None, kept=None, added: bool = False) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = act(alpha row_scale column_scale a b + bias + beta residual), by default c = a b.

    args:      a         (M, K), rows contiguous, or of 16 bits columns; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.T` of an (N, K))
               c         (M, N), rows contiguous, of any of these types
               programs  how many persistent programs: one per SM, never more than output tiles
               chosen    by default what `configuration` says for so many programs, with as many stages as fit; of a promoted sum
                         none that takes turns. AMD's chips take ON_AMD[chip]
               bias      (N, ) of any of these types, added to each row
               residual  (M, N), rows contiguous, of c's type; it may be c itself. Left unread where beta is 0
               row_scale, column_scale     fp32, (M, ) and (N, ), or one element for all rows, or columns
               alpha, beta, activation     numbers; None, relu, gelu (by erf), gelu_tanh or silu; all is computed in fp32
               room, flags     fp32 and int32, as many as `room_for` says: tiles of the last round are cut along K, or programs
                         steal tiles, if there is no residual and nothing promoted. What is in `room` does not
                         matter, `flags` are 0 before and after a launch; launches that may run at the same time need their own
               kept      (M, N) like c, which gets what `activation` is applied to; not with a residual
               promoted  add sums of 8-bit products up in fp32 after every 128 of K, not in the tensor cores, which keep 14 bits
               added     add all this to c, of bf16, fp16 or fp32, in place of writing it, rounded to c's type first; not with a
                         residual or `kept`
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(a=a, b=b, c=c, bias=bias, residual=None if beta == 0 else residual, row_scale=row_scale,
                        column_scale=column_scale, room=room, flags=flags, kept=kept, activation=activation, programs=programs)
    m, n, k, in_bytes, out_bytes = of.M, of.N, of.K, a.dtype.itemsize, c.dtype.itemsize
    (a, a_is_km), (b, b_is_nk) = left_lying(a), lying(b)
    chosen = chosen or chosen_for(m, n, k, in_bytes, promoted, programs).fitted(in_bytes, out_bytes, b_is_nk,
                                                                               residual is not None and beta != 0, bool(activation))
    if promoted and (in_bytes != 1 or chosen.ping_pong):
        kind = "ping-pong" if chosen.ping_pong else "cooperative"
        raise ValueError(f"sums of {a.dtype} by a {kind} configuration cannot be promoted: that is for fp8, and for consumers that "
                         "do not take turns")
    tiles = -(-m // chosen.bm) * -(-n // chosen.bn)
    *blocks, _ = chosen.blocks(in_bytes, out_bytes, b_is_nk, a_is_km)
    args = *map(described, (a, b), blocks), chosen.output(c), m, n, k
    count = min(programs, tiles)
    more, constants = epilogue_of(c, bias, residual, row_scale, column_scale, alpha, beta, activation,
                                  [chosen.rows(), chosen.stored(out_bytes)[0]])
    whole = room is None or promoted or "residual_desc" in more
    sharers = None if whole else chosen.sharers(m, n, k, in_bytes, programs)
    if sharers is not None:
        enough(room=(room, programs * chosen.bm * chosen.bn), flags=(flags, programs * chosen.consumers))
        more |= {"room": room, "flags": flags, "sharers": sharers}
        count = programs
    elif flags is not None and not promoted and "residual_desc" not in more and chosen.steals(m, n, k, in_bytes, programs):
        enough(flags=(flags, 1))
        more |= {"counter": flags}
    more |= {} if kept is None else {"kept_desc": chosen.output(kept)}
    constants |= ({"PROMOTED": chosen.together} if promoted else {}) | ({"ADDED": True} if added else {})
    shape = chosen.tiles(in_bytes, out_bytes, b_is_nk, cut=True, a_is_km=a_is_km)
    form = GemmForm(shape, chosen.stages, chosen.load_warps, **constants)
    meta = {"FORM": form, "num_warps": 4}
    return (count, ), *(_by_position(args, meta, more) if more else (args, meta))


def chosen_for(m: int, n: int, k: int, in_bytes: int, promoted: bool, programs: int | None = None) -> Configuration:
    """The configuration that `arguments` takes by itself, but for stages that do not fit."""
    return PROMOTED if promoted else configuration(m, n, k, in_bytes, programs)


def room_for(m: int, n: int, k: int, in_bytes: int, programs: int, chosen: Configuration | None = None, *, promoted: bool = False,
             residual: bool = False) -> tuple[int, int]:
    """(fp32 numbers of room, flags) that make a launch of so many programs quicker; (0, 0) where they would not."""
    chosen = chosen or chosen_for(m, n, k, in_bytes, promoted, programs)
    if promoted or residual:
        return 0, 0
    if chosen.sharers(m, n, k, in_bytes, programs) is None:
        return 0, int(chosen.steals(m, n, k, in_bytes, programs))
    return programs * chosen.bm * chosen.bn, programs * chosen.consumers


def _by_position(args: tuple, meta: dict, more: dict) -> tuple[tuple, dict]:
    """(args, meta) with what an epilogue needs, up to the last array of it by position, as launches that count arrays want it."""
    names = kernel.arg_names
    arrays = [names.index(name) for name in more if name in ("bias", "residual_desc", "row_scale", "column_scale", "room", "flags",
                                                             "counter", "kept_desc")]
    count = max([len(args), *(at + 1 for at in arrays)])
    named = meta | more
    given = {name: parameter.default for name, parameter in kernel.signature.parameters.items()} | dict(zip(names, args)) | named
    return tuple(given[name] for name in names[:count]), {name: named[name] for name in named if name not in names[:count]}


def epilogue_of(c, bias, residual, row_scale, column_scale, alpha, beta, activation,
              block: list[int]) -> tuple[dict, dict]:
    """The kernel's further arguments, of which those are left out that change nothing, and the constants that go with them."""
    (m, n), found, constants = c.shape, {}, {"ACTIVATION": activation} if activation else {}
    if bias is not None:
        found["bias"] = bias
    for name, each, scale, length in (("row_scale", "EACH_ROW", row_scale, m), ("column_scale", "EACH_COLUMN", column_scale, n)):
        if scale is not None:
            found[name], constants[each] = scale, scale.shape[0] == length
    if residual is not None and beta != 0:
        found["residual_desc"] = described(residual, block)
        if beta != 1:
            found["beta"] = float(beta)
    if alpha != 1:
        found["alpha"] = float(alpha)
    return found, constants
