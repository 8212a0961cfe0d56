"""27  From a plain loop to a warp-specialised kernel: the tasks and pipes of 12 and 06, found, written down and proved.

    python tutorials/27_orchestrate.py          on a GPU: choose by measurement, measure; elsewhere: predict, prove, simulate

Tutorials 02, 06 and 12 move loads into a task of their own by hand. Here the kernels are ordinary Triton, and `mimw.orchestrate`
does it. It gives text, an ordinary mimw kernel, with a comment at each barrier, and a proof: on the simulator its results are those
of the plain kernel to the last bit, at launches with as many trips as break rings, and under other interleavings.

    found = mimw.orchestrate(attention, grid, *args, **meta)
    print(found)            the report: tasks, pipes, the plan and the runner-up, what was proved, what stays plain and why
    found[grid](*args, **meta)          launches whichever is quicker

On a GPU all plans are measured beside the plain kernel; elsewhere they are predicted, and the plain kernel is kept where not much
would be gained, as in launches as small as those below. docs/ORCHESTRATE.md has the steps from one to the other.

How the program is run and measured is harness.py's.
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import triton.language as tl

import mimw
from mimw.tools.orchestrate import Plan


# Step 1. A product as anybody writes it. Every trip waits for its two tiles, unless somebody loads ahead. Stock Triton does so in
# the same warps; a task of one warp that only loads leaves the others nothing but products.
@mimw.jit
def gemm(a_desc, b_desc, c_desc, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B, a tile of C by each program."""
    pid = tl.program_id(0)
    m, n = pid // tl.cdiv(N, BN) * BM, pid % tl.cdiv(N, BN) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a_desc.load([m, k])
        y = b_desc.load([k, n])
        acc = tl.dot(x, y, acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


# Step 2. The plan for it: one consumer, a ring of three slots. (Without `plan=` all are tried.) The report says of each pipe which
# lines' tiles it has, and when a slot is free again:
#
#     1 x 4 warps, ... registers a thread at launch
#     pipe x_y          line 40, 41      32,768 B x 3   read where it lies, released a product later
#     equal to plain, bit by bit, at 5 launches (as given; K=0; K=64; K=128; K=192); checked: 2 runs
#
# "A product later" is tutorial 01's `async_dot_wait(1)`: the product of a trip runs on into the next one, so its slot is given back
# there. K=0 to K=192 are the launches with no trip, fewer trips than slots, as many, and more.
GEMM_PLAN = Plan(consumers=1, stages=3)


# Step 3. Attention. Its two products depend on each other through exponents, for which the tensor cores would wait.
@mimw.jit
def attention(q_desc, k_desc, v_desc, o_desc, scale, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """softmax(scale Q K^T) V, BM rows of Q a program, all heads of one length T."""
    row = tl.program_id(0) * BM
    base = tl.program_id(1) * T
    top = tl.full((BM, ), -1.0e30, tl.float32)
    total = tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    q = q_desc.load([base + row, 0])
    for start in range(0, T, BN):
        k = k_desc.load([base + start, 0])
        s = tl.dot(q, k.T) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        fade = tl.exp2(top - new)
        total = total * fade + tl.sum(p, 1)
        v = v_desc.load([base + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None])
        top = new
    o_desc.store([base + row, 0], (acc / total[:, None]).to(o_desc.dtype))


# Step 4. Its plan has two consumers, which share out the rows of Q, as no row of the result needs another; and the second product
# of a trip is done a trip later, beside the next trip's first one, so that exponents have a product to run beside. Both are what 06
# does by hand. The order of all sums stays: the bits are the plain kernel's.
ATTENTION_PLAN = Plan(consumers=2, stages=2, delayed=True)


def gemm_launch(a, b, c, BM=128, BN=128, BK=64, warps=4):
    """(grid, args, meta) of c = a b, of numpy arrays or torch tensors. Tiles divide all extents."""
    (m, k), n, describe = a.shape, b.shape[1], mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM, BN]), n, k
    return (m // BM * (n // BN), ), args, dict(BM=BM, BN=BN, BK=BK, num_warps=warps)


def attention_launch(q, k, v, o, heads, BM=128, BN=128, warps=8):
    """(grid, args, meta) for arrays of heads * length rows."""
    (rows, dim), describe = q.shape, mimw.TensorDescriptor.from_tensor
    args = describe(q, [BM, dim]), describe(k, [BN, dim]), describe(v, [BN, dim]), describe(o, [BM, dim])
    return (rows // heads // BM, heads), (*args, dim**-0.5 * 1.44269504, rows // heads), dict(BM=BM, BN=BN, D=dim, num_warps=warps)


# Step 5. The text is a module: the kernel, and `arguments`, which makes its arguments of the plain kernel's. Write it where you
# like; from now on it is an ordinary mimw kernel, to be read, edited, checked and tuned like those of the other tutorials.
def module_of(text: str, folder: str | Path):
    """The module of an orchestrated kernel's text, which is written to a file of the folder."""
    path = Path(folder) / "orchestrated.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"orchestrated_{len(sys.modules)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def simulated(kernel, plan, launch, expected, rtol=2e-3):
    """Orchestrate a small launch, print the report, and run the text on the simulator; the largest error of the result."""
    grid, args, meta = launch
    found = mimw.orchestrate(kernel, grid, *args, plan=plan, seeds=2, limit=20, measure=False, **meta)
    print(found)
    with tempfile.TemporaryDirectory() as folder:
        module = module_of(found.source, folder)
        given = module.arguments(grid, *args)
        mimw.simulate(getattr(module, kernel.__name__), grid, *given, num_warps=4)
    out = next(one for name, one in zip(kernel.arg_names, args) if name in ("c_desc", "o_desc")).base.array
    error = np.abs(out.astype(np.float32) - expected)
    assert (error <= rtol * np.abs(expected) + 2e-2).all(), f"wrong by {error.max()}"
    return float(error.max())


# Step 6. Nothing is chosen by hand any more: in place of @mimw.jit or @triton.jit this orchestrates a specialisation at its first
# launch, keeps what it has found, and launches the plain kernel wherever that is the better one. `easy.why(grid, *args)` says
# which.
easy = mimw.auto(gemm.fn)


# Step 7. What if? Each of these is one edit. Of the plain kernels, what stays plain is said with its line; of the text,
# `mimw.check` finds what is missing.
#
#     gemm: the rows of B by `k + tl.where(tl.max(tl.max(acc, 1), 0) > 1e9, 1, 0)`    stays: the address follows from the sum
#     gemm: `a_desc.store([m, k], x)` behind the product       stays: a load that is ahead would miss what is stored
#     the text of gemm: no `release` in the loop               WaitCycle: the producer waits for a slot that nobody gives back
#     the text of gemm: no `async_dot_wait(1, acc)`            OperandOverwritten: a copy lands where a product still reads
#     the text of gemm: `chunk - 1` in the loop is `chunk`     ProtocolError: a product may still read the released slot


def case():
    """Attention on numpy arrays, and what it should be: `mimw orchestrate 27_orchestrate.py:case -o attention_ws.py`."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((256, 64), np.float32).astype(np.float16) for _ in range(3))
    scores = q.astype(np.float32) @ k.astype(np.float32).T / 8
    p = np.exp(scores - scores.max(1, keepdims=True))
    expected = p / p.sum(1, keepdims=True) @ v.astype(np.float32)
    return mimw.Case(attention, *attention_launch(q, k, v, np.zeros_like(q), 1, BN=64), expected={"o_desc": expected})


def small_gemm(m=128, n=256, k=256):
    """(launch, expected) of a product on numpy arrays."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    return gemm_launch(a, b, np.zeros((m, n), np.float16)), a.astype(np.float32) @ b.astype(np.float32)


def without_gpu():
    """Both kernels, small: the report, and the text simulated."""
    launch, expected = small_gemm()
    print("largest error:", simulated(gemm, GEMM_PLAN, launch, expected))
    kernel, grid, args, meta = one = case()
    print("largest error:", simulated(kernel, ATTENTION_PLAN, (grid, args, meta), one.expected["o_desc"]))


def measure(size):
    """Two lines for a GPU: the orchestrated kernels beside the plain ones and torch's."""
    import torch
    from measure import measured
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    grid, args, meta = gemm_launch(a, b, c, BN=256, warps=8)
    found = mimw.orchestrate(gemm, grid, *args, **meta)
    print(found)
    print(measured("orchestrated GEMM", dict(M=size, N=size, K=size), meta, lambda: found[grid](*args, **meta), {
        "plain Triton": lambda: gemm[grid](*args, **meta), "cuBLAS": lambda: torch.matmul(a, b)}, c, a @ b, 2 * size**3, 2e-3))
    heads, dim = 64, 128
    q, k, v = (torch.randn(heads * size, dim, device="cuda", dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    grid, args, meta = attention_launch(q, k, v, o, heads)
    found = mimw.orchestrate(attention, grid, *args, **meta)
    print(found)

    def by_torch():
        whole = (one.view(1, heads, size, dim) for one in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(*whole).view(-1, dim)

    print(measured("orchestrated attention", dict(heads=heads, length=size, dim=dim), meta, lambda: found[grid](*args, **meta), {
        "plain Triton": lambda: attention[grid](*args, **meta), "torch": by_torch}, o, by_torch(), 4 * heads * size**2 * dim, 5e-3))


if __name__ == "__main__":
    import harness
    harness.run(without_gpu, measure, (4096, ))
