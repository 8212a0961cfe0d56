"""Sparse MLA prefill in its forms, against each other and against the published figures of an H800, on one GPU.

    python -m benchmarks.sparse_mla                     caches of 8192 to 131072 rows
    python -m benchmarks.sparse_mla 8192 --ms 50        one of them

The published problem: one batch of 4096 queries with 128 heads, rows of 576 columns of which 512 are values, 2048 listed rows for
each query, bf16, no mask. Inputs are normal / 10; the lists are random rows, each once, all valid. Forms: the plain Triton kernel,
the form without roles whose operands lie in shared memory (published as "TLE"), the pipe form. The baseline of a run is the plain
kernel: published are 1.95 to 2.11 times it for the pipe form. What is published of the same form is a baseline, too, scaled to this
chip: an H800 has the tensor cores, clocks and L2 of an H100, as an H200 has, and the products bound the time (2.34 TFLOP a call),
so its time counts as it is where the cache fits into L2; where rows come from the memory it counts 0.70 times, the ratio of the
bandwidths, as if memory alone bounded it: the demand is never too low. Results of some queries are checked against fp64 before
anything is timed.
"""

from __future__ import annotations

from mimw.kernels import plain_sparse_mla, sparse_mla
from mimw.testing.benchmark import Row, alternate

from .driver import command, some_of
from .gpu import keep, parsed, row_of, torch
from .progress import each

QUERIES, HEADS, WIDTH, VALUES, LISTED, SCALE = 4096, 128, 576, 512, 2048, 0.5
# rows of the cache -> milliseconds on an H800: plain Triton, TLE's forms (without roles, pipe), FlashMLA (CUDA)
PUBLISHED = {8192: (9.896, 6.927, 4.832, 3.850), 32768: (11.210, 7.624, 5.321, 4.117), 65536: (11.655, 8.378, 5.731, 4.348),
             98304: (11.835, 8.658, 5.972, 4.447), 131072: (11.923, 8.863, 6.122, 4.534)}
FORMS = {"plain": None, "shared": sparse_mla.shared, "pipe": sparse_mla.pipelined}
ALLOWED = 1e-2
L2_BYTES, MEMORY_RATIO = 50e6, 3.35 / 4.8       # of both chips; the bandwidths of an H800 and an H200, TB/s


def operations() -> float:
    """Of one call."""
    return 2.0 * QUERIES * HEADS * LISTED * (WIDTH + VALUES)


def scaled(rows: int, form: str) -> dict[str, float]:
    """The published microseconds of a form, and of FlashMLA, as this chip would have them."""
    ratio = 1.0 if 2 * rows * WIDTH <= L2_BYTES else MEMORY_RATIO
    *published, flash_mla = PUBLISHED[rows]
    return {"published form, H800 scaled": 1e3 * ratio * published[list(FORMS).index(form)],
            "FlashMLA, H800 scaled": 1e3 * ratio * flash_mla}


def inputs(rows: int) -> tuple:
    """q, kv, indices, lengths."""
    torch.manual_seed(1)
    shapes = (QUERIES, HEADS, WIDTH), (rows, 1, WIDTH)
    q, kv = (torch.randn(1, *shape, device="cuda", dtype=torch.bfloat16) / 10 for shape in shapes)
    indices = torch.stack([torch.randperm(rows, device="cuda", dtype=torch.int32)[:LISTED] for _ in range(QUERIES)])
    return q, kv, indices.view(1, QUERIES, 1, LISTED), torch.full((1, QUERIES, 1), LISTED, device="cuda", dtype=torch.int32)


def error_of(out, q, kv, indices, *_) -> float:
    """The largest relative error of some queries, against fp64."""
    found = 0.0
    for query in (0, 17, QUERIES // 2, QUERIES - 1):
        listed = kv[0, indices[0, query, 0].long(), 0].double()
        exact = (SCALE * q[0, query].double() @ listed.T).softmax(1) @ listed[:, :VALUES]
        found = max(found, ((out[0, query].double() - exact).norm() / exact.norm()).item())
    return found


def launcher(form: str, given: tuple, out, lse):
    """A call without arguments."""
    if form == "plain":
        kernel, (grid, args, meta) = plain_sparse_mla.kernel, plain_sparse_mla.arguments(*given, out, lse, SCALE, wide=True)
    else:
        programs = torch.cuda.get_device_properties(out.device).multi_processor_count
        kernel, grid, args, meta = sparse_mla.arguments(*given, out, lse, SCALE, form=FORMS[form], programs=programs)
    return lambda: kernel[grid](*args, **meta)


def measure(rows: int, at_least_ms: float = 200.0) -> list[Row]:
    """One row a form, checked; each has the others' times as baselines."""
    given = inputs(rows)
    out = torch.empty(1, QUERIES, HEADS, VALUES, device="cuda", dtype=torch.bfloat16)
    lse = torch.empty(1, QUERIES, HEADS, device="cuda")
    calls, errors = {form: launcher(form, given, out, lse) for form in FORMS}, {}
    for form, call in calls.items():
        out.fill_(float("nan"))
        call()
        errors[form] = error_of(out, *given)
        if not errors[form] < ALLOWED:
            raise AssertionError(f"{form}: relative error {errors[form]:.2e} against fp64, {ALLOWED} is allowed")
    times = alternate(calls, at_least_ms)
    return [row_of(f"sparse_mla-{form}", dict(rows=rows), {}, times | scaled(rows, form), errors[form], "normal / 10", form)
            for form in FORMS]


def line(row: Row) -> str:
    """A row for people."""
    form = row.name.removeprefix("sparse_mla-")
    *published, flash_mla = PUBLISHED[row.shape["rows"]]
    here = row.baselines.get("plain", row.microseconds) / row.microseconds
    one = published[list(FORMS).index(form)]
    rate = operations() / row.microseconds / 1e6
    return (f"{row.shape['rows']:>7} {form:<7} {row.microseconds / 1e3:7.3f} ms {rate:4.0f} TFLOP/s  "
            f"{here:.2f} x plain (H800: {published[0] / one:.2f})  published {one:.3f} ms, {one * 1e3 / row.microseconds:.2f}; "
            f"FlashMLA {flash_mla:.3f} ms, {flash_mla * 1e3 / row.microseconds:.2f}  error {row.error:.1e}")


def main() -> None:
    parser = command(__doc__, ms=200.0)
    some_of(parser, "rows", PUBLISHED, int)
    options = parsed(parser)
    for rows in each(options.rows or PUBLISHED):
        for row in measure(rows, options.ms):
            keep(row, options.results / "sparse_mla.jsonl")
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
