"""The benchmarks of kernels on a GPU, whole but for the GPU: their command lines, rows and tables, with a timer that is fake.

Every `measure` is the real one where it needs no tensors; else it is replaced by one that makes the row out of fake times.
"""

import importlib
import json
import re
import sys
from types import SimpleNamespace

import pytest

from benchmarks import (
    attention,
    attention_decode,
    attention_varlen,
    bank_conflicts,
    batched_gemm,
    block_scaled_gemm,
    cross_entropy,
    driver,
    gather,
    gather_matmul_scatter,
    gemm,
    gemm_epilogue,
    gemm_peers,
    gpu,
    grouped_gemm,
    launch_time,
    linear_attention,
    linear_attention_forward,
    linear_attention_published,
    linear_attention_step,
    microbench,
    mla_decode,
    moe,
    moe_align,
    norm,
    rope,
    scaled_linear_few_rows,
    simplicial_attention,
    skinny_gemm,
    softmax,
    sparse_mla,
    timing,
    topk,
    topk_selector,
)
from mimw.testing.gpus import gpu_available

NAMES = ("attention", "attention_decode", "bank_conflicts", "batched_gemm", "block_scaled_gemm", "counters", "cross_entropy",
         "gather", "gather_matmul_scatter", "gemm", "gemm_epilogue", "gemm_peers", "grouped_gemm", "launch_time",
         "linear_attention_backward", "distributed_collectives", "distributed_constants", "distributed_layer", "microbench",
         "models", "moe", "moe_align", "linear_attention_forward", "linear_attention", "linear_attention_step",
         "linear_attention_published",
         "linear_cross_entropy", "norm", "pipes_before_after", "proxy_fence", "rope", "sanitize", "mla_decode",
         "scaled_linear_few_rows", "simplicial_attention", "skinny_gemm", "softmax", "sparse_mla", "timing", "topk",
         "topk_selector")
ROW = {"name", "shape", "configuration", "microseconds", "baselines", "error", "inputs", "chip", "versions", "date"}


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch):
    """A torch that knows a chip and the sizes of types, in every benchmark."""
    cuda = SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "a chip",
                           get_device_properties=lambda device: SimpleNamespace(multi_processor_count=132))
    sizes = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1}
    torch = SimpleNamespace(cuda=cuda, **{name: SimpleNamespace(itemsize=size) for name, size in sizes.items()})
    for module in list(globals().values()):
        if getattr(module, "__name__", "").startswith("benchmarks.") and hasattr(module, "torch"):
            monkeypatch.setattr(module, "torch", torch)


def run(module, monkeypatch, capsys, *arguments) -> list[str]:
    """What the benchmark prints, line by line."""
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    module.main()
    return capsys.readouterr().out.splitlines()


def rows(file) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_help_needs_no_gpu(name, monkeypatch, capsys):
    """The docstring with its examples, and every option of the examples."""
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    said = capsys.readouterr().out
    assert ended.value.code == 0 and module.__doc__.strip() in said
    options = said.split("options:")[1]
    examples = [line for line in module.__doc__.splitlines() if f"python -m benchmarks.{name}" in line]
    flags = {word.strip("[]") for line in examples for word in line.split() if word.strip("[]").startswith("--")}
    assert examples and all(flag in options for flag in flags), flags


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.skipif(gpu_available(), reason="without a GPU")
def test_without_a_gpu_it_ends_with_a_message(name, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "torch", None)
    monkeypatch.setattr(sys, "argv", [name, *(["--before", "."] if name == "pipes_before_after" else [])])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 2 and "needs torch and a CUDA device" in capsys.readouterr().err


def measured_gemm(name, shape, dtype_name, chosen=None, at_least_ms=200.0):
    used, times = gemm.Configuration(), {"mimw": 800.0, "cuBLAS": 1000.0}
    return gpu.row_of(f"gemm-{dtype_name}-{name}", dict(zip("MNK", shape)), vars(used), times, 0.001, "standard normal")


def test_gemm(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gemm, "measure", measured_gemm)
    printed = run(gemm, monkeypatch, capsys, "GH1", "GH4", "--dtype", "fp16", "--results", tmp_path / "new")
    found = rows(tmp_path / "new" / "gemm-fp16.jsonl")
    assert [row["name"] for row in found] == ["gemm-fp16-GH1", "gemm-fp16-GH4"] and set(found[0]) == ROW
    assert found[0]["shape"] == {"M": 8192, "N": 8192, "K": 1024} and found[0]["baselines"] == {"cuBLAS": 1000.0}
    assert printed[0].startswith("gemm-fp16-GH1  8192x8192x1024         800.0 us    172 TFLOP/s  cuBLAS    137  ratio 1.250")
    assert printed[-1] == "geometric mean of 2 ratios to cuBLAS: 1.250, lowest 1.250" and len(printed) == 3


@pytest.mark.parametrize("module, words, given", [
    (gemm, ("GH2", "GH4", "--dtype", "fp8"), ["gemm", "--shapes", "8192x8192x2048", "8192x8192x8192", "--dtype", "fp8"]),
    (grouped_gemm, ("8x1024", "ragged", "--ms", "20"), ["grouped_gemm", "--shapes", "8x1024x4096x4096", "64x256x2048x7168:ragged",
                                                        "--dtype", "bf16"]),
    (attention_decode, ("8x8192", "--page", "64", "--ms", "20"),
     ["attention_decode", "--shapes", "8x1x64x8x8192x128:paged", "--dtype", "bf16"])])
def test_a_search_is_the_tuners(tmp_path, monkeypatch, capsys, module, words, given):
    said = []
    monkeypatch.setattr(driver, "mimw", lambda words: said.append(words) or 0)
    with pytest.raises(SystemExit) as ended:
        run(module, monkeypatch, capsys, *words, "--tune", "--results", tmp_path / "new")
    (operator, *_, dtype), (found, ) = given, said
    assert ended.value.code == 0 and found[:len(given) + 1] == ["tune", *given]
    assert found[len(given) + 1:][:4] == ["--journal", str(tmp_path / "new" / f"tune-{operator}-{dtype}.jsonl"),
                                          "--write", str(tmp_path / "new" / f"configs-{operator}-{dtype}.json")]
    assert found[len(given) + 5:][:2] == (["--ms", "20.0"] if module is not gemm else [])


def test_the_gemm_beside_triton_and_gluon(tmp_path, monkeypatch, capsys):
    def measured(name, shape, dtype_name):
        times = {"mimw": 800.0, "Triton": 1000.0, "Gluon": 880.0, "cuBLAS": 840.0}
        return gpu.row_of(f"gemm_peers-{dtype_name}-{name}", dict(zip("MNK", shape)), {}, times, 0.001, "standard normal")

    monkeypatch.setattr(gemm_peers, "measure", measured)
    printed = run(gemm_peers, monkeypatch, capsys, "GH4", "--results", tmp_path)
    (row, ) = rows(tmp_path / "gemm_peers.jsonl")
    assert set(row["baselines"]) == {"Triton", "Gluon", "cuBLAS"}
    assert "Triton 1100 (ratio 1.250), Gluon 1249 (ratio 1.100)" in printed[0]
    assert printed[-1].startswith("geometric mean of 1 ratios to Gluon: 1.100")


def test_what_the_gemm_does_on_the_way_out(tmp_path, monkeypatch, capsys):
    def measured(kind, shape, chosen, at_least_ms):
        times = {"mimw": 800.0, "plain": 790.0, "torch": 1000.0 + at_least_ms}
        used = chosen or gemm_epilogue.candidates(kind)[0]
        return gpu.row_of(f"gemm_epilogue-{kind}", dict(zip("MNK", shape)), vars(used), times, 0.001, "standard normal")

    monkeypatch.setattr(gemm_epilogue, "measure", measured)
    printed = run(gemm_epilogue, monkeypatch, capsys, "bias", "fp8-row", "--ms", 8, "--results", tmp_path)
    found = rows(tmp_path / "gemm_epilogue.jsonl")
    assert [row["name"] for row in found] == ["gemm_epilogue-bias"] * 2 + ["gemm_epilogue-fp8-row"] * 4 and set(found[0]) == ROW
    assert printed[-1] == "geometric mean of 6 ratios to torch: 1.260, lowest 1.260" and "plain 0.988  torch 1.260" in printed[0]


def test_groups(tmp_path, monkeypatch, capsys):
    def measured(name, chosen=None, at_least_ms=200.0):
        used, shape = grouped_gemm.grouped_gemm.configuration(8192, 8), dict(zip("GMNK", grouped_gemm.CASES[name]))
        return gpu.row_of(f"grouped_gemm-{name}", shape, vars(used), {"mimw": 900.0 + used.bm, "torch": 1028.0}, 0.001, "normal")

    monkeypatch.setattr(grouped_gemm, "measure", measured)
    file = tmp_path / "grouped_gemm.jsonl"
    printed = run(grouped_gemm, monkeypatch, capsys, "8x1024", "--ms", 8, "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and "267 TFLOP/s" in printed[0] and "ratio 1.000" in printed[0]


def test_mixtures_of_experts(tmp_path, monkeypatch, capsys):
    def measured(name, chosen=None, at_least_ms=200.0, matrices=None, fp8=False):
        shape = dict(zip(("tokens", "experts", "k", "hidden", "inner"), moe.CASES[name]))
        assert matrices == name.partition("-")[0] and chosen.bm == 32
        return gpu.row_of(f"moe-{name}", shape, vars(chosen), {"mimw": 100.0, "torch": 300.0, "triton": 110.0}, 0.001, "normal")

    monkeypatch.setattr(moe, "measure", measured)
    monkeypatch.setattr(moe, "weights_of", lambda model: model)
    file = tmp_path / "moe-bf16.jsonl"
    printed = run(moe, monkeypatch, capsys, "qwen-1", "mixtral-1", "--set", "bm=32", "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and len(printed) == 4
    assert "torch  3.00  triton  1.10" in printed[0] and " 32x128, " in printed[0]
    assert printed[1].split()[3:7] == ["7", "TFLOP/s", "7046", "GB/s"] and "stock Triton: 1.100, lowest 1.100" in printed[3]


def test_batches(tmp_path, monkeypatch, capsys):
    times = {"mimw": 10.0, "torch": 12.0}

    def measured(name, at_least_ms):
        return gpu.row_of(f"batched_gemm-{name}", dict(zip("BMNK", batched_gemm.CASES[name])), {}, times, 0.1, "")

    monkeypatch.setattr(batched_gemm, "measure", measured)
    printed = run(batched_gemm, monkeypatch, capsys, "one", "--results", tmp_path)
    assert "ratio 1.200" in printed[0] and printed[1] == "geometric mean of 1 ratios to torch.bmm: 1.200, lowest 1.200"


def test_few_rows(tmp_path, monkeypatch, capsys):
    def measured(name, chosen=None, at_least_ms=200.0):
        used, (m, n) = chosen or skinny_gemm.candidates(1, 28672, 132)[0], skinny_gemm.CASES[name]
        times = {"mimw": 30.0 + used.consumers, "cuBLAS": 40.0}
        return gpu.row_of(f"skinny_gemm-{name}", dict(M=m, N=n, K=8192), vars(used), times, 0.001, "standard normal")

    monkeypatch.setattr(skinny_gemm, "measure", measured)
    file = tmp_path / "skinny_gemm.jsonl"
    printed = run(skinny_gemm, monkeypatch, capsys, "16x8192", "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and "4194 GB/s  ratio 1.250" in printed[0]
    tuned = run(skinny_gemm, monkeypatch, capsys, "1x28672", "--tune", "--results", tmp_path)
    assert len(tuned) == 5 and tuned[-1].endswith("1.290, lowest 1.290")


def test_few_rows_with_scales(tmp_path, monkeypatch, capsys):
    def measured(name, chosen=None, at_least_ms=200.0):
        m, n, k = scaled_linear_few_rows.CASES[name]
        used = chosen or scaled_linear_few_rows.skinny_scaled_gemm.configuration(m, n, k, 132)
        times = {"mimw": 9.0 + used.consumers, "tiles": 20.0, "torch": 15.0}
        return gpu.row_of("scaled_linear_few_rows", dict(M=m, N=n, K=k), vars(used), times, 0.002, "standard normal")

    monkeypatch.setattr(scaled_linear_few_rows, "measure", measured)
    printed = run(scaled_linear_few_rows, monkeypatch, capsys, "64x2112x7168", "--results", tmp_path)
    assert "11.00 us (predicted 3.69)  1376 GB/s   176 TFLOP/s  ratios: tiles 1.82  torch 1.36" in printed[0]
    assert printed[0].endswith("64 weights in 4 parts x 64, 8 stages")
    tuned = run(scaled_linear_few_rows, monkeypatch, capsys, "64x2112x7168", "--tune", "--results", tmp_path)
    assert [row.split("  ")[-1] for row in tuned[:6]] == [
        "64 weights x 64, 10 stages", "128 weights x 64, 8 stages", "192 weights x 64, 6 stages",
        *(f"64 weights in {parts} parts x 64, 8 stages" for parts in (1, 2, 4))]
    assert set(rows(tmp_path / "scaled_linear_few_rows.jsonl")[0]) == ROW
    tuned = run(scaled_linear_few_rows, monkeypatch, capsys, "--rows", 160, "--tune", "--results", tmp_path)
    assert len(tuned) == 2 * 6 + 2 and tuned[-1] == "geometric mean of 6 ratios to torch: 1.500, lowest 1.500"
    assert scaled_linear_few_rows.PUBLISHED[128, 7168, 2048] == 510 and len(scaled_linear_few_rows.PUBLISHED) == 12


def test_latent_decoding(tmp_path, monkeypatch, capsys):
    def measured(name, batch, ragged, kind, at_least_ms, alone):
        heads, queries, length = mla_decode.CASES[name]
        shape = dict(batch=batch, heads=heads, queries=queries, length=length, ragged=int(ragged), row_bytes=1152,
                     operations=10**11, bytes=10**9)
        return gpu.row_of(f"mla_decode-{kind}", shape, {}, {"mimw": 250.0, "FlashMLA, H800": 200.0}, 0.002, "standard normal")

    monkeypatch.setattr(mla_decode, "measure", measured)
    printed = run(mla_decode, monkeypatch, capsys, "128x2x8192", "--cache", "packed", "--ragged", "--results", tmp_path)
    assert printed[0].startswith("batch 128 heads 128 queries 2 keys 8192  packed, ragged    250.0 us  400 TFLOP/s  4000 GB/s")
    assert printed[1].endswith("0.800, lowest 0.800") and set(rows(tmp_path / "mla_decode.jsonl")[0]) == ROW


def test_decoding(tmp_path, monkeypatch, capsys):
    def measured(shape, chosen=None, at_least_ms=200.0, with_flex=False):
        used, size = attention_decode.attention_decode.Configuration(), {**shape, "bytes": 8 << 20}
        return gpu.row_of("attention_decode", size, vars(used), {"mimw": 4.0, "copy": 5.0, "Triton": 7.0}, 0.001, "standard normal")

    monkeypatch.setattr(attention_decode, "measure", measured)
    file = tmp_path / "attention_decode.jsonl"
    printed = run(attention_decode, monkeypatch, capsys, "1x1024", "--page", 16, "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and "2097 GB/s  ratios: copy 1.250  Triton 1.750" in printed[0] and "page 16" in printed[0]
    assert printed[-1] == "geometric mean of 1 ratios to Triton: 1.750, lowest 1.750"


def test_scales_of_blocks(tmp_path, monkeypatch, capsys):
    def measured(name, chosen=None, at_least_ms=200.0):
        case, used = block_scaled_gemm.CASES[name], chosen or block_scaled_gemm.CANDIDATES[0]
        shape = dict(G=case.groups, M=case.m, N=case.n, K=case.k)
        return gpu.row_of(f"block_scaled_gemm-{name}", shape, vars(used), {"mimw": 500.0 + used.bm, "fp8": 600.0}, 0.001, "normal")

    monkeypatch.setattr(block_scaled_gemm, "measure", measured)
    file = tmp_path / "block_scaled_gemm.jsonl"
    printed = run(block_scaled_gemm, monkeypatch, capsys, "4096x7168x16384", "32x256x4096x7168", "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and "1532 TFLOP/s  fp8 1603  H800, published: 1484" in printed[0]
    assert "published: -" in printed[1] and "published of an H800: 1.032, lowest 1.032" in printed[2]
    tuned = run(block_scaled_gemm, monkeypatch, capsys, "4096x2112x7168", "--tune", "--results", tmp_path)
    assert len(tuned) == len(block_scaled_gemm.CANDIDATES) + 1


def measured_attention(shape, dtype_name, causal, chosen=None, at_least_ms=200.0):
    used = chosen or attention.attention.configuration(shape["dim"], causal, seq_q=shape["seq"])
    assert at_least_ms == 5.0
    times = {"mimw": 100.0, "cuDNN": 110.0, "FlashAttention": 90.0}
    name = f"attention-{dtype_name}-{'causal' if causal else 'full'}"
    return gpu.row_of(name, shape, vars(used), times, 0.002, "standard normal")


def test_attention(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention, "measure", measured_attention)
    printed = run(attention, monkeypatch, capsys, "--dim", 64, "--seq", 1024, 2048, "--kv-heads", 8, "--ms", 5,
                  "--results", tmp_path)
    found = rows(tmp_path / "attention-bf16.jsonl")
    assert [(row["name"], row["shape"]["seq"]) for row in found] == [
        (f"attention-bf16-{mask}", seq) for mask in ("full", "causal") for seq in (1024, 2048)]
    assert found[0]["shape"] == {"batch": 4, "heads": 48, "kv_heads": 8, "seq": 1024, "dim": 64} and set(found[0]) == ROW
    assert printed[0].startswith("attention-bf16-full    seq 1024   dim 64       100.0 us    515 TFLOP/s  cuDNN 469 ratio 1.100  "
                                 "FlashAttention 573 ratio 0.900  error 2.0e-03")
    assert printed[-2:] == ["geometric mean of 4 ratios to cuDNN: 1.100, lowest 1.100",
                            "geometric mean of 4 ratios to FlashAttention: 0.900, lowest 0.900"]
    assert len(run(attention, monkeypatch, capsys, "--tune", "--mask", "full", "--seq", 1024, "--ms", 5,
                   "--results", tmp_path)) == len(attention.CANDIDATES[128]) + 2


def measured_varlen(case, heads, kv_heads, dim, dtype_name, causal, chosen=None, at_least_ms=200.0):
    times = {"mimw": 100.0, "torch varlen": 120.0}
    of_q, of_k = attention_varlen.lengths(case)
    shape = dict(case=case, sequences=len(of_q), queries=sum(of_q), keys=sum(of_k), heads=heads, kv_heads=kv_heads, dim=dim,
                 pairs=attention_varlen.work(of_q, of_k, causal))
    return gpu.row_of(f"attention_varlen-{dtype_name}-{'causal' if causal else 'full'}", shape, {}, times, 0.002, "standard normal")


def test_attention_of_packed_sequences(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention_varlen, "measure", measured_varlen)
    printed = run(attention, monkeypatch, capsys, "--varlen", "--heads", 8, "--mask", "causal", "--results", tmp_path)
    assert [row["shape"]["case"] for row in rows(tmp_path / "attention_varlen-bf16.jsonl")] == list(attention_varlen.CASES)
    assert "equal      8 sequences, 32768 on 32768, dim 128      100.0 us   2749 TFLOP/s  torch varlen 2291" in printed[0]
    assert attention_varlen.work([3, 2], [2, 4], True) == 3 + 7 and attention_varlen.work([3, 2], [2, 4], False) == 14


def test_an_attention_candidate_that_fails_ends_the_search(tmp_path, monkeypatch, capsys):
    def failing(*_):
        raise AssertionError("wrong")

    monkeypatch.setattr(attention, "measure", failing)
    with pytest.raises(AssertionError, match="wrong"):
        run(attention, monkeypatch, capsys, "--tune", "--results", tmp_path)


def measured_topk(size, chosen=None, at_least_ms=200.0):
    dtype, m, n, k = size
    times = {"mimw": 10.0 + (chosen.warps if chosen else 0), "torch": 20.0}
    return gpu.row_of(f"topk-{dtype}", dict(M=m, N=n, K=k), vars(chosen or topk.topk.configuration(n)), times, 0.0, "uniform")


def test_topk(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(topk, "measure", measured_topk)
    file = tmp_path / "topk.jsonl"
    printed = run(topk, monkeypatch, capsys, "64x1024:32", "--results", tmp_path)
    assert [row["name"] for row in rows(file)] == ["topk-fp16", "topk-fp32"] and set(rows(file)[0]) == ROW
    assert printed[0].startswith("topk-fp16 64x1024:32          10.00 us  torch    20.00  ratio  2.00  (H800, published: 2.27)")
    assert "published" not in printed[1]
    assert printed[2] == "geometric mean of 2 ratios to torch.topk: 2.00, lowest 2.00"
    tuned = run(topk, monkeypatch, capsys, "64x128:8", "--tune", "--results", tmp_path)
    assert len(tuned) == 2 * 3 + 1 and len(rows(file)) == 2 + sum(len(topk.candidates((d, 64, 128, 8))) for d in ("fp16", "fp32"))


def measured_sparse_mla(rows, at_least_ms=200.0):
    times = {"plain": 8000.0, "pipe": 4000.0, "shared": 7624.0}
    return [gpu.row_of(f"sparse_mla-{form}", dict(rows=rows), {}, times, 2e-3, "normal / 10", form) for form in times]


def test_sparse_mla(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sparse_mla, "measure", measured_sparse_mla)
    printed = run(sparse_mla, monkeypatch, capsys, 8192, "--results", tmp_path)
    assert printed[2] == ("   8192 shared    7.624 ms  306 TFLOP/s  1.05 x plain (H800: 1.43)  published 6.927 ms, 0.91; FlashMLA "
                          "3.850 ms, 0.50  error 2.0e-03")
    found = [row["name"] for row in rows(tmp_path / "sparse_mla.jsonl")]
    assert found == ["sparse_mla-plain", "sparse_mla-pipe", "sparse_mla-shared"]


def test_linear_attention(tmp_path, monkeypatch, capsys):
    def measured(family, shape, error, at_least_ms, ways, alone, drawn):
        extents = dict(zip(("batch", "rows", "heads", "columns"), linear_attention.SHAPES[shape]))
        times = {"mimw": 400.0} if alone else {"mimw": 400.0, "fla": 800.0}
        return [gpu.row_of(f"linear_attention-{family}-{way}", extents, {"gates": drawn}, times, error, "normal")
                for way in ways]

    monkeypatch.setattr(linear_attention, "measure", measured)
    monkeypatch.setattr(linear_attention, "errors_of", lambda family, alone: {"mimw": 3e-3})
    printed = run(linear_attention, monkeypatch, capsys, "gdn", "--shapes", "8x1024x8x64", "--gates", "slow",
                  "--results", tmp_path)
    assert "gdn-training     8x1024x8x64      gates slow      0.400 ms  fla    0.800 ms, 2.00  error 3.0e-03" in printed
    assert "geometric mean of 2 ratios to fla: 2.000, lowest 2.000" in printed
    assert [row["name"] for row in rows(tmp_path / "linear_attention.jsonl")] == ["linear_attention-gdn-forward",
                                                                                 "linear_attention-gdn-training"]


def test_linear_attention_step(tmp_path, monkeypatch, capsys):
    def measured(family, sequences, at_least_ms):
        times = {"mimw": 200.0, "fla": 300.0}
        return gpu.row_of(f"linear_attention_step-{family}", dict(sequences=sequences), {}, times, 2e-3, "normal")

    monkeypatch.setattr(linear_attention_step, "measure", measured)
    printed = run(linear_attention_step, monkeypatch, capsys, "kda", "--results", tmp_path)
    assert "kda  256 sequences    200.0 us  5.37 TB/s  fla    300.0 us, 1.50  error 2.0e-03" in printed


def measured_linear_attention(name, at_least_ms, with_fla):
    times = {"mimw": 400.0, "0 prepare": 150.0, "1 recurrence": 250.0, "fla": 800.0}
    return gpu.row_of(f"linear-attention-forward-{name}", {}, {"drawn": "slow", "parts": 8}, times, 3e-3, "normal")


def test_linear_attention_forward(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(linear_attention_forward, "measure", measured_linear_attention)
    printed = run(linear_attention_forward, monkeypatch, capsys, "gdn-16", "--results", tmp_path)
    assert "gdn-16           gates slow, parts 8, error 3.0e-03:     400 us (0 prepare 150, 1 recurrence 250, fla 800)" in printed
    assert [row["name"] for row in rows(tmp_path / "linear-attention-forward.jsonl")] == ["linear-attention-forward-gdn-16"]


def measured_published(name, at_least_ms, alone):
    times = {"mimw": {"kda-4-1x1024": 50.0, "kda-16-8x2048": 200.0}[name], "mimw, a graph": 40.0, "fla": 400.0}
    return gpu.row_of(f"linear-attention-published-{name}", {}, {}, times, 4e-3, "as the published benchmark")


def test_linear_attention_at_published_shapes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(linear_attention_published, "measure", measured_published)
    printed = run(linear_attention_published, monkeypatch, capsys, "kda-4-1x1024", "kda-16-8x2048", "--results", tmp_path)
    assert ("kda-16-8x2048                200 us (mimw, a graph 40, fla 400); published, H100: FlashKDA 503, fla 1372; "
            "error 4.0e-03") in printed
    assert "kda: geometric means of 2 cells: call 100 us, graph 40; published, H100: FlashKDA 277, fla 1020" in printed
    assert len(rows(tmp_path / "linear-attention-published.jsonl")) == 2


def test_published_figures_of_sparse_mla_count_in_full_where_the_cache_fits_into_l2():
    assert sparse_mla.scaled(8192, "pipe") == {"published form, H800 scaled": 4832.0, "FlashMLA, H800 scaled": 3850.0}
    assert sparse_mla.scaled(131072, "plain")["published form, H800 scaled"] == pytest.approx(11923 * 3.35 / 4.8)


def measured_selector(size, chosen=None, at_least_ms=200.0):
    used = vars(chosen or topk_selector.topk_selector.configuration(*size))
    times = {"mimw": 10.0, "torch": 40.0, "others, H800 scaled": 15.0, "TLE, H800 scaled": 20.0}
    return gpu.row_of("topk_selector", dict(zip("MNK", size)), used, times, 0.0, "standard normal")


def test_topk_selector(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(topk_selector, "measure", measured_selector)
    file = tmp_path / "topk_selector.jsonl"
    printed = run(topk_selector, monkeypatch, capsys, "1x8192:256", "--results", tmp_path)
    assert printed == ["1x8192:256         10.00 us     3 GB/s  ratios: torch 4.00  others, H800 scaled 1.50  TLE, H800 scaled "
                       "2.00  ctas 1 warps 16 chunks 4 candidates 1024 pinned True",
                       "geometric mean of 1 ratios to the best published figure, scaled: 1.50, lowest 1.50"]
    assert set(rows(file)[0]) == ROW
    assert len(run(topk_selector, monkeypatch, capsys, "64x8192:256", "--tune", "--results", tmp_path)) == 4


def measured_simplicial_attention(seq, chosen=None, at_least_ms=200.0, stock=None):
    times = {"mimw": 100.0} | ({} if stock is None else {"Triton, keys outside": 400.0, "Triton, second keys outside": 150.0})
    used = vars(chosen or simplicial_attention.simplicial_attention.configuration(128))
    return gpu.row_of("simplicial_attention", dict(seq=seq), used, times, 2e-3, "standard normal")


def test_simplicial_attention(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(simplicial_attention, "measure", measured_simplicial_attention)
    file = tmp_path / "simplicial_attention.jsonl"
    printed = run(simplicial_attention, monkeypatch, capsys, 1024, "--results", tmp_path)
    assert printed == ["  1024     100.0 us 4124 TFLOP/s  ratios: Triton, keys outside 4.000  Triton, second keys outside 1.500  "
                       "error 2.0e-03  64 keys, 4 of 4 blocks held",
                       "geometric mean of 1 ratios to the better stock form: 1.500, lowest 1.500"]
    assert set(rows(file)[0]) == ROW
    tuned = run(simplicial_attention, monkeypatch, capsys, 1024, "--tune", "--results", tmp_path)
    assert len(tuned) == len(simplicial_attention.CHOICES)
    monkeypatch.setattr(simplicial_attention, "measure_backward", lambda seq, ms: gpu.row_of(
        "simplicial_attention-backward", dict(seq=seq), {}, {"mimw": 1000.0, "Triton, published split": 1500.0}, 2e-3, "normal"))
    assert run(simplicial_attention, monkeypatch, capsys, 1024, "--backward", "--results", tmp_path) == [
        "  1024 backward    1000.0 us 1031 TFLOP/s  ratio 1.500  error 2.0e-03"]


def measured_norms(kind, name, choices, at_least_ms, compiled, backward, go_on):
    batch, n = norm.SHAPES[name]
    baselines = {"torch": 180.0, "copy": 76.0} | ({"torch.compile": 120.0} if compiled else {})
    way, found = "backward" if backward else "forward", []
    for chosen in choices:
        used = norm.asdict(chosen or norm.norm.configuration(batch, n, 2, kept_bytes=4)) | {"room": 30}
        times = {"mimw": 80.0 + used["stages"], **baselines}
        found.append(gpu.row_of(f"{kind}-{way}-{name}", dict(B=batch, N=n), used, times, 0.002, "ones"))
    return found


def test_norm(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(norm, "side_by_side", measured_norms)
    file = tmp_path / "norm.jsonl"
    printed = run(norm, monkeypatch, capsys, "LN6", "LN1", "--results", tmp_path)
    found = rows(file)
    assert [row["name"] for row in found] == ["layer_norm-forward-LN6", "layer_norm-forward-LN1"] and set(found[0]) == ROW
    assert printed[0].startswith("layer_norm-forward-LN6       88.00 us  3432 GB/s  torch 180.00 (2.045)  copy 76.00 (0.864)  ")
    assert printed[-1] == "geometric mean of 2 ratios to the copy, of few rows to torch: 1.352, lowest 0.864"
    file.unlink()
    printed = run(norm, monkeypatch, capsys, "LN6", "--tune", "--no-compile", "--kind", "rms_norm", "--results", tmp_path)
    assert len(rows(file)) == len(norm.candidates(1152, 65536))
    best = json.loads((tmp_path / "norm.configs.json").read_text())
    assert best["rows"][0]["n"] == 65536 and best["rows"][0]["configuration"]["stages"] == 4
    printed = run(norm, monkeypatch, capsys, "LN6", "--backward", "--results", tmp_path)
    assert printed[0].startswith("layer_norm-backward-LN6      88.00 us  5148 GB/s")
    assert all(one.chunk * one.chunks * one.ctas == 16384 for one in norm.candidates(1152, 16384, True))


def test_cross_entropy(tmp_path, monkeypatch, capsys):
    def measured(kind, name, chosen=None, at_least_ms=200.0, compiled=True):
        rows, n = cross_entropy.SHAPES[name]
        used = cross_entropy.asdict(chosen or cross_entropy.cross_entropy.configuration(rows, n, 2))
        return gpu.row_of(f"cross_entropy-{kind}-{name}", dict(B=rows, N=n), used, {"mimw": 1000.0, "copy": 950.0}, 0.0, "normal")

    monkeypatch.setattr(cross_entropy, "measure", measured)
    file = tmp_path / "cross_entropy.jsonl"
    printed = run(cross_entropy, monkeypatch, capsys, "8192x128256", "--kind", "fused", "forward", "--results", tmp_path)
    assert set(rows(file)[0]) == ROW and "4203 GB/s  copy 950.0 (0.950)" in printed[0] and "2101 GB/s" in printed[1]
    tuned = run(cross_entropy, monkeypatch, capsys, "8192x128256", "--tune", "--results", tmp_path)
    assert len(tuned) == len(cross_entropy.candidates(8192, 128256)) + 1


def test_softmax(tmp_path, monkeypatch, capsys):
    def measured(name, at_least_ms, compiled, backward, log):
        rows, n = softmax.SHAPES[name]
        used = softmax.asdict(softmax.softmax.gradient_configuration(rows, n, 2))
        return gpu.row_of(f"softmax-backward-{name}", dict(B=rows, N=n), used, {"mimw": 130.0, "copy": 117.0}, 0.0, "normal")

    monkeypatch.setattr(softmax, "measure", measured)
    printed = run(softmax, monkeypatch, capsys, "LN6", "--backward", "--results", tmp_path)
    assert "3484 GB/s  copy 117.00 (0.900)" in printed[0] and printed[1].endswith("0.900, lowest 0.900")


def test_rope(tmp_path, monkeypatch, capsys):
    def measured(name, at_least_ms):
        shape = dict(zip(("batch", "length", "heads", "kv_heads", "dim", "turning"), rope.CASES[name]))
        return gpu.row_of(f"rope-{name}", shape, {}, {"mimw": 100.0, "copy": 90.0}, 0.0, "normal")

    monkeypatch.setattr(rope, "measure", measured)
    printed = run(rope, monkeypatch, capsys, "16384x32x8x128", "--results", tmp_path)
    assert "3355 GB/s  copy 90.0 (0.900)" in printed[0] and printed[1].endswith("ratios to the copy: 0.900, lowest 0.900")


def test_launch_time(tmp_path, monkeypatch, capsys):
    """Each candidate is held against stock Triton with the same arguments."""
    times = {"triton.jit": 10.0, "frozen, same arguments": 2.5, "triton.jit, 3 descriptors": 20.0, "frozen, 3 descriptors": 4.0}
    monkeypatch.setattr(launch_time, "with_numbers", lambda: dict(list(times.items())[:2]))
    monkeypatch.setattr(launch_time, "with_descriptors", lambda: dict(list(times.items())[2:]))
    monkeypatch.setattr(launch_time, "block_of_launches", lambda time: time)
    monkeypatch.setattr(launch_time.torch, "__version__", "2", raising=False)
    printed = run(launch_time, monkeypatch, capsys, "--rounds", 3, "--results", tmp_path)
    assert printed[1].split() == ["frozen,", "same", "arguments", "2.50", "us", "0.250", "of", "stock"]
    assert rows(tmp_path / "launch_time.jsonl")[0]["ratios"] == {
        "triton.jit": 1.0, "frozen, same arguments": 0.25, "triton.jit, 3 descriptors": 1.0, "frozen, 3 descriptors": 0.2}


def measured_moe_align(tokens, experts, candidates, at_least_ms):
    shape = dict(tokens=tokens, experts=experts, block_size=moe_align.BLOCK_SIZE)
    return [gpu.row_of(f"moe_align-{chosen.form}", shape, vars(chosen), {"mimw": 10.0 + at, "triton": 30.0, "torch": 200.0}, 0.0,
                       "Zipf 1.2") for at, chosen in enumerate(candidates)]


def test_moe_align(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(moe_align, "measure", measured_moe_align)
    printed = run(moe_align, monkeypatch, capsys, 256, 163840, "--results", tmp_path)
    found = rows(tmp_path / "moe_align.jsonl")
    assert [(row["shape"]["tokens"], row["shape"]["experts"]) for row in found[::2]] == [(256, 64), (163840, 64), (163840, 512)]
    assert [row["configuration"]["form"] for row in found[:2]] == ["grid", "cluster"] and set(found[0]) == ROW
    assert printed[0].startswith("   256 E=64  grid ") and "H800  44.5, its triton 26.0, SGLang 16.0" in printed[0]
    assert printed[-1] == "geometric mean of 3 ratios to stock Triton: 3.000, lowest 3.000"
    run(moe_align, monkeypatch, capsys, 512, "--tune", "--results", tmp_path)
    best = json.loads((tmp_path / "configs-moe_align.json").read_text())
    assert best["command"] == "python -m benchmarks.moe_align --tune" and best["rows"][0]["numel"] == 512


def test_moe_aligns_rows_have_ours_one_by_one_beside_the_same_baselines(monkeypatch):
    """The real `measure`, with neither tensors nor a timer of its own."""
    for name in ("zipf", "by_torch", "check"):
        monkeypatch.setattr(moe_align, name, lambda *_: None)
    monkeypatch.setattr(moe_align, "buffers", lambda *_: [None] * 4)
    monkeypatch.setattr(moe_align, "launcher", lambda *_: lambda: None)
    monkeypatch.setattr(moe_align.plain_moe_align, "launcher", lambda *_: lambda: None)
    monkeypatch.setattr(moe_align.torch.cuda, "synchronize", lambda: None, raising=False)
    monkeypatch.setattr(moe_align, "alternate", lambda runs, ms: {name: 10.0 * (at + 1) for at, name in enumerate(runs)})
    one, two = moe_align.CANDIDATES["grid"][:2]
    found = moe_align.measure(256, 64, [one, two], 20.0)
    assert [(row.microseconds, row.configuration["block"]) for row in found] == [(10.0, one.block), (20.0, two.block)]
    assert all(row.baselines == {"triton": 30.0, "torch": 40.0} for row in found)


def test_timing(tmp_path, monkeypatch, capsys):
    """The real `measure`: a fake kernel, timer and profile."""
    profile = SimpleNamespace(dropped=0, microseconds=12.5, megahertz=1700.0, utilisation=lambda: {"producer": {"wait": 0.5}})
    launched = []
    kernel = {(1, ): lambda *args, **meta: launched.append(meta)}
    monkeypatch.setattr(timing, "problem", lambda name: (kernel, (1, ), (), {"num_warps": 4}, lambda: 0.001))
    monkeypatch.setattr(timing, "alternate", lambda runs, ms: {name: 10.0 for name in runs})
    monkeypatch.setattr(timing.mimw, "profile", lambda *args, **meta: profile)
    file = tmp_path / "timing.jsonl"
    printed = run(timing, monkeypatch, capsys, "attention-1024", "gemm-2048x2048x2048", "--results", tmp_path)
    assert printed[0] == "attention-1024: 10.0 us, stamped 12.5 us at 1700 MHz"
    one, other = rows(file)
    assert one.keys() == {"name", "shape", "configuration", "microseconds", "stamped_microseconds", "megahertz", "utilisation",
                          "errors", "chip", "versions", "date"}
    assert one["configuration"] == {"causal": False} and other["configuration"]["bm"] == 128 and len(launched) == 2 * 21


def test_microbench(tmp_path, monkeypatch, capsys):
    """Figures are rounded and kept as they come; a group that fails is a row, too."""
    monkeypatch.setattr(microbench.Bench, "__init__", lambda self, names, results: vars(self).update(names=names, results=results))
    monkeypatch.setattr(microbench.Bench, "barriers", lambda self: self.note("ping", named=True, cycles=41.123456))
    monkeypatch.setattr(microbench.Bench, "tma", lambda self: 1 / 0)
    monkeypatch.setattr(microbench.Bench, "dots", lambda self: pytest.fail("not asked for"))
    file = tmp_path / "microbench.jsonl"
    printed = run(microbench, monkeypatch, capsys, "tma", "barriers", "--results", tmp_path)
    assert printed == file.read_text().splitlines()
    assert json.loads(printed[0]).keys() >= {"name", "chip", "date", "triton"}
    assert printed[1:] == ['{"name": "ping", "named": true, "cycles": 41.1235}',
                           '{"name": "failed", "group": "tma", "error": "division by zero"}']


def test_bank_conflicts(tmp_path, monkeypatch, capsys):
    def measured(dtype, shape):
        return gpu.row_of("transpose", {"M": shape[0], "N": shape[1]}, {"dtype": f"torch.{dtype}"},
                          {"found": 50.0, "plain": 100.0, "nvmma": 75.0}, 0.0, "integers", ours="found")

    monkeypatch.setattr(bank_conflicts, "measure", measured)
    printed = run(bank_conflicts, monkeypatch, capsys, "--results", tmp_path)
    assert printed[0] == "torch.float32 (64, 64): 50.0 us, 2.00 x plain, 1.50 x nvmma" and len(printed) == 9
    assert len(rows(tmp_path / "bank_conflicts.jsonl")) == 9 and set(rows(tmp_path / "bank_conflicts.jsonl")[0]) == ROW


def test_bank_conflicts_counted(monkeypatch, capsys):
    """Without a GPU: the shape of rows of words, for a chip that reads 256 bytes a wavefront."""
    monkeypatch.setattr(bank_conflicts, "SHAPES", ((64, 64), ))
    monkeypatch.setattr(bank_conflicts, "DTYPES", {"float32": None})
    (line, ) = run(bank_conflicts, monkeypatch, capsys, "--count", "gfx950")
    now, before = map(int, re.findall(r"(\d+) (?:wavefronts|in)", line))
    assert line.startswith("gfx950, float32 (64, 64): ") and 5 * now < before


def test_gather(tmp_path, monkeypatch, capsys):
    """The real `measure`: a fake problem, and a timer that knows its candidates."""
    x, rows_, y = (SimpleNamespace(shape=shape) for shape in ((1 << 18, 64), (1 << 20, ), (1 << 20, 64)))
    monkeypatch.setattr(gather, "problem", lambda kind, width: (x, rows_, y))
    times = {"TMA": 100.0, "cp.async": 50.0, "tl.load": 200.0, "index_select": 400.0}
    monkeypatch.setattr(gather, "candidates", lambda kind, *_: dict.fromkeys(
        (*gather.WAYS, "index_select") if kind == "copy" else gather.WAYS))
    monkeypatch.setattr(gather, "alternate", lambda runs, ms: {name: times[name] for name in runs})
    printed = run(gather, monkeypatch, capsys, 128, 4096, "--ms", 5, "--results", tmp_path)
    found = rows(tmp_path / "gather.jsonl")
    assert [(row["name"], row["shape"]["row_bytes"]) for row in found] == [
        (f"gather-{kind}", width) for kind in ("copy", "read") for width in (128, 4096)] and set(found[0]) == ROW
    assert found[0]["baselines"] == {"cp.async": 50.0, "tl.load": 200.0, "index_select": 400.0}
    assert found[0]["microseconds"] == 100.0
    assert found[1]["configuration"]["tile_rows"] == 8
    assert printed[0] == "gather-copy  rows of  128 bytes, GB/s:  TMA   1342  cp.async   2684  tl.load    671  index_select    336"
    assert printed[-1] == "geometric mean of 4 ratios to cp.async: 0.500, lowest 0.500"


def measured_product(size, chosen=None, at_least_ms=200.0):
    used = chosen or gather_matmul_scatter.Configuration()
    times = {"mimw": 200.0 if chosen is None else 300.0 - used.load_warps, "gather, cuBLAS, scatter": 260.0, "product": 190.0}
    return gpu.row_of("gather_matmul_scatter-bf16", dict(M=size, N=size, K=size), vars(used), times, 0.002, "standard normal")


def test_gather_matmul_scatter(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gather_matmul_scatter, "measure", measured_product)
    file = tmp_path / "gather_matmul_scatter.jsonl"
    printed = run(gather_matmul_scatter, monkeypatch, capsys, 4096, "--results", tmp_path)
    assert printed[0].startswith(" 4096^3    200.0 us  687 TFLOP/s  gather, cuBLAS, scatter  529  product  723  ratio 1.300")
    assert printed[1] == "geometric mean of 1 ratios to gather, cuBLAS and scatter: 1.300, lowest 1.300"
    assert rows(file)[0]["shape"] == {"M": 4096, "N": 4096, "K": 4096} and set(rows(file)[0]) == ROW
    tuned = run(gather_matmul_scatter, monkeypatch, capsys, 4096, "--tune", "--results", tmp_path)
    assert len(tuned) == len(gather_matmul_scatter.CANDIDATES) + 1
