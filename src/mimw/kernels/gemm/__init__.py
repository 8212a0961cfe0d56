"""GEMM for Hopper: bf16, fp16, tf32 (fp32 inputs) and fp8 inputs, fp32 accumulation, and what is done to the sums on their way out.

Input: a (M, K) and b (K, N). Output: c = a b, (M, N), or act(alpha row_scale column_scale a b + bias + beta residual). For example:

    matmul(a, b)                                on torch tensors of a GPU
    addmm(bias, a, b, activation="gelu")        the same with bias, and so on
    scaled_mm(a, b, scale_a, scale_b)           of fp8, with scales of the rows and columns, or of all
    arguments(a, b, c, programs)                (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, for numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, of_size, on_one_gpu, one_of, persistent, rows_for_tma, strides, type_name
from ..descriptors import described
from ..workspace import workspace
from .configs import Configuration, configuration
from .kernel import gemm as kernel

TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")
ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")

__all__ = ["ACTIVATIONS", "Configuration", "addmm", "arguments", "configuration", "kernel", "matmul", "room_for",
           "scaled_mm"]
PROMOTED = Configuration(bm=128, bn=128, stages=6, consumers=2, staging=2, together=2)    # three sums of 64 x 128


def arguments(a, b, c, programs: int, chosen: Configuration | None = None, *, bias=None, residual=None, row_scale=None,
              column_scale=None, alpha: float = 1.0, beta: float = 1.0, activation: str | None = None,
              promoted: bool = False, room=None, flags=None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that compute c = act(alpha row_scale column_scale a b + bias + beta residual), by default c = a b.

    args:      a         (M, K), rows contiguous; bf16, fp16, fp32 (computed as tf32), fp8 e4m3 or e5m2
               b         (K, N), rows or columns contiguous; 8-bit and fp32 only with contiguous columns (`x.T` of an (N, K))
               c         (M, N), rows contiguous, of any of these types
               programs  how many persistent programs: one per SM, never more than output tiles
               chosen    by default the measured configuration of the nearest shape; of a promoted sum none that takes turns
               bias      (N, ) of any of these types, added to each row
               residual  (M, N), rows contiguous, of c's type; it may be c itself. Left unread where beta is 0
               row_scale, column_scale     fp32, (M, ) and (N, ), or one element for all rows, or columns
               alpha, beta, activation     numbers; None, relu, gelu (by erf), gelu_tanh or silu; all is computed in fp32
               room, flags     fp32 and int32, as many as `room_for` says: tiles of the last round are cut along K, if there is no
                         residual and nothing promoted. What is in `room` does not
                         matter, `flags` are 0 before and after a launch; launches that may run at the same time need their own
               promoted  add sums of 8-bit products up in fp32 after every 128 of K, not in the tensor cores, which keep 14 bits
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of_rank(2, a=a, b=b, c=c)
    programs = persistent(programs)
    one_of(TYPES, a=a, b=b, c=c)
    (m, k), (k_b, n), in_bytes, out_bytes = a.shape, b.shape, a.dtype.itemsize, c.dtype.itemsize
    if k != k_b or tuple(c.shape) != (m, n):
        raise ValueError(f"a is {m} x {k} and b is {k_b} x {n}, so c should be {m} x {n} with equal inner extents; "
                         f"c is {' x '.join(map(str, c.shape))}")
    if a.dtype != b.dtype and (in_bytes, b.dtype.itemsize) != (1, 1):
        raise ValueError(f"a is {a.dtype} and b is {b.dtype}: both must be one type, or both fp8")
    b_is_nk = strides(b)[0] == 1 and strides(b)[1] != 1 or n == 1
    if in_bytes != 2 and not b_is_nk:
        raise ValueError(f"b of {b.dtype} must be contiguous along K, as wgmma reads 8-bit and 32-bit operands only so: "
                         "pass the transpose of an (N, K) row-major matrix")
    b = b.T if b_is_nk else b
    rows_for_tma(a=a, **{"b, as it lies in memory,": b}, c=c)
    chosen = chosen or chosen_for(m, n, k, in_bytes, promoted)
    if promoted and (in_bytes != 1 or chosen.ping_pong):
        kind = "ping-pong" if chosen.ping_pong else "cooperative"
        raise ValueError(f"sums of {a.dtype} by a {kind} configuration cannot be promoted: that is for fp8, and for consumers that "
                         "do not take turns")
    meta = chosen.meta(in_bytes, out_bytes, b_is_nk)
    b_block = [meta["BN"], meta["BK"]] if b_is_nk else [meta["BK"], meta["BN"]]
    c_block = [chosen.rows(), meta["BN"] // meta["PIECES"]]
    tiles = -(-m // chosen.bm) * -(-n // chosen.bn)
    args = described(a, [meta["BM"], meta["BK"]]), described(b, b_block), described(c, c_block), m, n, k
    count = min(programs, tiles)
    more = _epilogue(c, bias, residual, row_scale, column_scale, alpha, beta, activation, c_block)
    whole = room is None or promoted or "residual_desc" in more
    sharers = None if whole else chosen.sharers(m, n, k, in_bytes, programs)
    if sharers is not None:
        of_size((programs * chosen.bm * chosen.bn, programs * chosen.consumers), room=room, flags=flags)
        more |= {"room": room, "flags": flags, "sharers": sharers}
        count = programs
    meta |= {**({"PROMOTED": chosen.together} if promoted else {}), "num_warps": 4}
    return (count, ), *(_by_position(args, meta, more) if more else (args, meta))


def chosen_for(m: int, n: int, k: int, in_bytes: int, promoted: bool) -> Configuration:
    """The configuration that `arguments` takes by itself."""
    return PROMOTED if promoted else configuration(m, n, k, in_bytes)


def room_for(m: int, n: int, k: int, in_bytes: int, programs: int, chosen: Configuration | None = None, *, promoted: bool = False,
             residual: bool = False) -> tuple[int, int]:
    """(fp32 numbers of room, flags) that make a launch of so many programs quicker; (0, 0) where they would not."""
    chosen = chosen or chosen_for(m, n, k, in_bytes, promoted)
    if promoted or residual or chosen.sharers(m, n, k, in_bytes, programs) is None:
        return 0, 0
    return programs * chosen.bm * chosen.bn, programs * chosen.consumers


def _by_position(args: tuple, meta: dict, more: dict) -> tuple[tuple, dict]:
    """(args, meta) with what an epilogue needs, up to the last array of it by position, as launches that count arrays want it."""
    names = kernel.arg_names
    arrays = [names.index(name) for name in ("bias", "residual_desc", "row_scale", "column_scale", "room", "flags") if name in more]
    count = max([len(args), *(at + 1 for at in arrays)])
    named = meta | more
    given = {name: parameter.default for name, parameter in kernel.signature.parameters.items()} | dict(zip(names, args)) | named
    return tuple(given[name] for name in names[:count]), {name: named[name] for name in named if name not in names[:count]}


def _epilogue(c, bias, residual, row_scale, column_scale, alpha, beta, activation, block: list[int]) -> dict:
    """The kernel's further arguments, of which those are left out that change nothing."""
    (m, n), found = c.shape, {}
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it may be {', '.join(map(str, ACTIVATIONS))}")
    if bias is not None:
        of_rank(1, bias=bias)
        one_of(TYPES, bias=bias)
        _of_length("bias", bias, (n, ))
        found["bias"] = bias
    for name, scale, length in (("row_scale", row_scale, m), ("column_scale", column_scale, n)):
        if scale is not None:
            of_rank(1, **{name: scale})
            one_of(("float32", ), **{name: scale})
            _of_length(name, scale, (length, 1))
            found[name] = scale
            if scale.shape[0] == length:
                found["EACH_ROW" if name == "row_scale" else "EACH_COLUMN"] = True
    if residual is not None and beta != 0:
        of_rank(2, residual=residual)
        if tuple(residual.shape) != (m, n) or type_name(residual) != type_name(c):
            raise ValueError(f"residual is {' x '.join(map(str, residual.shape))} of {residual.dtype}; it must be as c is, "
                             f"{m} x {n} of {c.dtype}")
        rows_for_tma(residual=residual)
        found["residual_desc"] = described(residual, block)
        if beta != 1:
            found["beta"] = float(beta)
    if alpha != 1:
        found["alpha"] = float(alpha)
    return found | ({"ACTIVATION": activation} if activation else {})


def _of_length(name: str, vector, lengths: tuple[int, ...]) -> None:
    if vector.shape[0] not in lengths or strides(vector)[0] != 1 and vector.shape[0] != 1:
        raise ValueError(f"{name} has {vector.shape[0]} elements, {strides(vector)[0]} apart; it must have "
                         f"{' or '.join(map(str, lengths))}, one behind the other")


def matmul(a, b, out=None, out_dtype=None, chosen: Configuration | None = None, **epilogue):
    """a @ b on the GPU that holds them; arguments, those of the epilogue too, and errors as `arguments`. fp8 inputs give bf16
    unless `out_dtype` says."""
    import torch
    on_one_gpu("matmul", a=a, b=b, **({} if out is None else {"out": out}),
               **{name: value for name, value in epilogue.items() if hasattr(value, "data_ptr")})
    of_rank(2, a=a, b=b)
    if out is None:
        out_dtype = out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)
        out = torch.empty(a.shape[0], b.shape[1], dtype=out_dtype, device=a.device)
    programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    sizes = room_for(a.shape[0], b.shape[1], a.shape[1], a.dtype.itemsize, programs, chosen,
                     promoted=epilogue.get("promoted", False), residual=epilogue.get("residual") is not None)
    room, flags = workspace(a, sizes) if sizes[0] else (None, None)
    grid, args, meta = arguments(a, b, out, programs, chosen, room=room, flags=flags, **epilogue)
    kernel[grid](*args, **meta)
    return out


def addmm(added, a, b, beta: float = 1.0, alpha: float = 1.0, activation: str | None = None, **more):
    """act(beta added + alpha a @ b) on the GPU that holds them; `added` is (N, ), a bias, or (M, N), a residual."""
    if len(added.shape) == 1:
        return matmul(a, b, bias=added if beta == 1 else added * beta, alpha=alpha, activation=activation, **more)
    return matmul(a, b, residual=added, beta=beta, alpha=alpha, activation=activation, **more)


def scaled_mm(a, b, scale_a, scale_b, bias=None, out_dtype=None, use_fast_accum: bool = False, **more):
    """scale_a scale_b a @ b + bias for fp8 tensors of one GPU, as `torch._scaled_mm`: fp32 scales of one element each, or (M, 1)
    and (1, N). With `use_fast_accum` the sums stay in the tensor cores, which keep about 14 bits of them."""
    return matmul(a, b, out_dtype=out_dtype, bias=bias, row_scale=scale_a.reshape(-1), column_scale=scale_b.reshape(-1),
                  promoted=not use_fast_accum, **more)
