"""What docs/performance.md says of each operator: which rows, how much work a row is, what bounds it, which goals there are.

Input: nothing. Output: SECTIONS, in the page's order. For example:

    section.work(row)           (floating-point operations, bytes that cross the memory)
    section.goals[0].at_least   1.05

Bytes are the least there is to move: each operand once and each result once. Files that no section names get a table of
their own at the end of the page, without a ceiling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.block_scaled_gemm import published
from benchmarks.sparse_mla import scaled

from . import performance_work as work
from .performance_rows import Row


@dataclass(frozen=True)
class Goal:
    """Ratio to the best of the baselines in `against`: of `every` row, or as a geometric mean, of the rows whose
    names match `rows`."""

    at_least: float
    against: tuple[str, ...]
    rows: str = ""
    every: bool = False


@dataclass(frozen=True)
class Section:
    """`starts` of the rows' names; `curves`: the name of a chart and a pattern with which its rows' names start; `published`:
    figures of other chips that a row is held against, for rows that were kept without. `link`: the bytes go to other GPUs."""

    title: str
    command: str
    files: tuple[str, ...]
    starts: str
    work: Callable[[Row], tuple[float, float]]
    unit: str
    bound: str
    goals: tuple[Goal, ...] = ()
    kind: str = "bf16"
    curves: tuple[tuple[str, str], ...] = ()
    published: Callable[[Row], dict[str, float]] | None = None
    link: bool = False

    @property
    def of_several(self) -> bool:
        """Whether the rows are of several GPUs. Then there are no counters: ncu runs a kernel alone, again and again, and one that
        waits for its peers does not end."""
        return "distributed" in self.command


POWER = """Operations at the rate that 700 W sustain with normal numbers, 0.68 of what the tensor cores do at 1980 MHz (`power` in
src/mimw/simulator/costs/sm_90a.toml), twice that for fp8 and half of it for tf32. """
BEST = ("cuDNN", "FlashAttention", "FlashAttention-3", "FlashAttention-4")
TORCH = ("torch", "torch.compile")

SECTIONS = (
    Section("GEMM", "python -m benchmarks.gemm", ("gemm-bf16", "gemm-fp16", "gemm-tf32"), "gemm-", work.product, "TFLOP/s",
            POWER + """
            What is above it ran before the clock fell. A tile of 128 x 128 reads 1/64 byte of L2 an operation; larger tiles
            read less and hide less of their epilogue, so ping-pong wins where K is short and cooperative 256 x 128 at GH6
            (benchmarks/notes/gemm.md, "GEMM, bf16, against cuBLAS").""",
            (Goal(1.05, ("cuBLAS", ), "gemm-(bf16|fp16)-GH"), Goal(0.98, ("cuBLAS", ), "gemm-(bf16|fp16)-GH", True),
             Goal(1.03, ("cuBLAS", ), "gemm-tf32-GH")),
            curves=(("gemm", "gemm-bf16-GH"), )),
    Section("GEMM, fp8", "python -m benchmarks.gemm --dtype fp8", ("gemm-fp8", ), "gemm-", work.product, "TFLOP/s", POWER +
            """
            What is above it ran before the clock fell.""", (Goal(1.03, ("cuBLAS", )), ), "fp8",
            (("gemm-fp8", "gemm-fp8-GH"), )),
    Section("Products of real models", "python -m benchmarks.models", ("models-bf16", ), "models-", work.product, "TFLOP/s", """
            Prefill as the GEMM; decoding, 16 to 128 rows, by the bytes of the weights, behind a flush of L2 as few rows are
            (below). The extents are those of the models' published configurations (benchmarks/model_shapes.py).""",
            (Goal(1.05, ("torch", )), Goal(0.98, ("torch", ), every=True))),
    Section("Products of real models, fp8", "python -m benchmarks.models", ("models-fp8", ), "models-", work.product, "TFLOP/s", """
            As those of bf16. Both operands have a scale for each row, and the sums stay in the tensor cores.""",
            (Goal(1.05, ("torch", )), Goal(0.98, ("torch", ), every=True)), "fp8"),
    Section("GEMM beside stock Triton and Gluon", "python -m benchmarks.gemm_peers", ("gemm_peers", ), "gemm_peers-", work.product,
            "TFLOP/s", """
            As the GEMM. `Triton` is the fastest of eight configurations of one kernel (benchmarks/plain_gemm.py), `Gluon` the
            library's cooperative schedule in Gluon's words (benchmarks/gluon_gemm.py), in one configuration.""",
            (Goal(1.0, ("Triton", ), every=True), Goal(1.0, ("Gluon", ), every=True)), curves=(("gemm-peers", "gemm_peers-"), )),
    Section("What a GEMM does on the way out", "python -m benchmarks.gemm_epilogue", ("gemm_epilogue", ), "gemm_epilogue-",
            work.product,
            "TFLOP/s", """
            As the GEMM. What an epilogue once seemed to cost was the host's time of its launch; a bias is free, gelu is 19
            instructions an element that stand between a consumer and its next product where K is short, and a residual is read
            once more (benchmarks/notes/gemm.md, "What the GEMM does on the way out").""",
            (Goal(1.0, ("plain", ), "bias|residual", True), Goal(1.03, ("torch", ), "fp8"))),
    Section("Groups", "python -m benchmarks.grouped_gemm", ("grouped_gemm", ), "grouped_gemm-", work.product, "TFLOP/s",
            """
            Large groups as the GEMM; with 128 rows and fewer a group, the bytes of the weights
            (benchmarks/notes/gemm-groups-batches-few-rows.md, "Groups").""",
            (Goal(1.1, ("torch", )), Goal(1.0, ("torch", ), every=True)), curves=(("grouped", "grouped_gemm-"), )),
    Section("Batches", "python -m benchmarks.batched_gemm", ("batched_gemm", ), "batched_gemm-", work.product, "TFLOP/s", """
            As the GEMM; of K = 128 the stores.""", (Goal(1.0, ("torch", )), )),
    Section("Few rows", "python -m benchmarks.skinny_gemm", ("skinny_gemm", ), "skinny_gemm-", work.product, "GB/s", """
            The bytes of the weights. Behind a flush of L2 by writing, 30 to 50 MB of it are still to be written back when the
            weights come: 8 of the 45 us at N = 8192, for cuBLAS as for us. These rows are older than weights that leave L2
            first, which spare some of that (benchmarks/notes/gemm-groups-batches-few-rows.md, "Few rows of real models").""",
            (Goal(1.1, ("cuBLAS", ), "x8192$"), Goal(1.0, ("cuBLAS", ), "x28672$")),
            curves=(("skinny-8192", r"skinny_gemm-\d+x8192"), ("skinny-28672", r"skinny_gemm-\d+x28672"))),
    Section("Products over several GPUs", "python -m benchmarks.distributed_gemm", ("distributed-gemm", ), "distributed-gemm-",
            work.product_of_ranks, "TFLOP/s", POWER + """
            The rate is one GPU's. All-gather GEMM: `alone` is the product of rows that are all there, which is the least that is
            left to do, so a ratio of 1 to it is a gather that costs nothing; its goal is 1 / 1.08. The reductions are held
            against what computes the same. Copy engines carry their sums, which costs nothing; our product alone, of which no
            sums travel, is 1.13 to 1.15 of torch's fused one at three of the four shapes, so more is not to be had there
            (benchmarks/notes/distributed-gemm.md, "Sums carried by copy engines").""",
            (Goal(0.926, ("cuBLAS alone", ), "gather", True), Goal(0.926, ("mimw GEMM alone", ), "gather", True),
             Goal(1.15, ("cuBLAS, NCCL", "torch fused"), "scatter", True))),
    Section("Collectives", "python -m benchmarks.distributed_collectives", ("distributed_collectives", ), "", work.collective,
            "GB/s", """
            The link: 18 of 25 GB/s a direction between two H200s, 450 GB/s nominal, of which puts of all SMs get 370 (`link` in
            src/mimw/simulator/costs/sm_90a.toml); the rate is of bytes that leave a GPU. Few bytes are bound by time: a launch in a
            graph and one way of 1.4 us. All sides are CUDA graphs of several calls, in step, with what they need in L2. `symmetric`
            is ours on tensors that peers read where they are, `one-shot` and `two-shot` are torch's operators on its symmetric
            memory, `copy engine` the driver's copies between two barriers
            (benchmarks/notes/collectives.md, "Collectives between two GPUs").""",
            (Goal(1.3, ("NCCL", ), "^all_reduce-.*-([0-9]+K|1M)$", True),
             Goal(1.0, ("NCCL", ), "^all_reduce-.*-([0-9][0-9]+|[4-9])M$", True),
             Goal(1.0, ("NCCL", ), "^(all_gather|reduce_scatter)", True), Goal(1.0, ("one-shot", "two-shot"), "^all_reduce", True)),
            link=True, curves=(("all_reduce", "all_reduce-"), ("all_gather", "all_gather-"),
                               ("reduce_scatter", "reduce_scatter-"))),
    Section("Tokens to experts on other GPUs", "python -m benchmarks.distributed_moe", ("distributed_moe", ), "moe_",
            work.of_experts, "GB/s", """
            The link, as of collectives, for a row a token and GPU that has experts of it; `link` is one copy by the copy engine of
            as many bytes. With 8 choices of a token the memory is as near, if nothing waits: dispatch writes 470 MB of
            rows by expert, reads 176 MB and stages 59, combine reads 470 MB and moves 175 more, which takes 150 us at 4.3 TB/s
            where the link takes 154. `NCCL` moves a row a choice and knows beforehand how many. 128 tokens are bound by what
            follows each other: ids, a copy, a signal of 1.4 us, a copy home
            (benchmarks/notes/dispatch-combine.md, "Tokens to experts on other GPUs").""",
            (Goal(0.9, ("link", ), "^(?!.*decode)", True), Goal(0.7, ("link", ), "decode", True),
             Goal(2.0, ("NCCL", ), every=True)), link=True),
    Section("A mixture of experts over two GPUs", "python -m benchmarks.distributed_moe --what layer", ("distributed_moe_layer", ),
            "moe_layer-", work.layer, "TFLOP/s", """
            Dispatch, both products of the experts of one GPU, combine; `rows by number` has rows that stay where they come, which
            the first product reads by their numbers, `grouped_matmul` rows by expert and SwiGLU in a launch of its own. Few tokens
            are bound by the matrices of the experts that they choose
            (benchmarks/notes/dispatch-combine.md, "Tokens to experts on other GPUs").""",
            (Goal(1.0, ("grouped_matmul", "rows by number"), every=True), )),
    Section("A layer of experts in fp8, in micro-batches", "python -m benchmarks.distributed_layer --parts",
            ("distributed_layer", ), "moe_layer_fp8-", work.layer, "TFLOP/s", """
            Tokens quantised, dispatch, experts with a scale for each 128 x 128, combine. `mimw` has two halves of the tokens, of
            which one travels while the experts compute the other; `one batch` has them together, `in turn` the halves one behind
            the other.""",
            (Goal(1.2, ("one batch", ), every=True), ), kind="fp8"),
    Section("Scales of blocks", "python -m benchmarks.block_scaled_gemm", ("block_scaled_gemm", ), "block_scaled_gemm-",
            work.product,
            "TFLOP/s", POWER + """
            Each product of a chunk of K is waited for and added up in fp32 before its registers are free: tensor cores 84 %
            busy, 94 % in our product without, at the 1400 MHz that 700 W leave either; busy all the time they would do 1517
            TFLOP/s (benchmarks/notes/block-scaled-gemm.md, "What bounds it"). Since these rows releases, fences and scales stand
            beside products, and 2112 columns are tiles of 192: 1.06 to 1.11 times as fast in a run of its own ("Fences").
            Published is what DeepGEMM says of an H800, a figure of another machine.""",
            (Goal(1.0, ("torch", )), Goal(1.0, ("DeepGEMM, H800", ), every=True)), "fp8",
            published=lambda row: published(row.name.removeprefix("block_scaled_gemm-"))),
    Section("Words of local memories", "python -m benchmarks.local_memories", ("local_memories", ), "local_memories-", work.product,
            "TFLOP/s", POWER + """
            Tutorial 23: copies by cp.async ahead of their trips and one product in flight, as Triton's own pipeliner has it; what
            TMA and roles of warps add is the GEMM above.""", (Goal(0.9, ("tl.dot", ), every=True), )),
    Section("Attention, forward", "python -m benchmarks.attention", ("attention-bf16", "attention-fp16"), "attention-",
            work.attention,
            "TFLOP/s", POWER + """
            From length 4096 on the clock is 1410 to 1470 MHz and the tensor cores are busy 81 % of the time; at 1024 the
            clock is 1590 MHz and latency decides
            (benchmarks/notes/attention-forward.md, "Attention forward").""", (Goal(1.05, BEST, every=True), ),
            curves=(("attention-full", "attention-bf16-full"), ("attention-causal", "attention-bf16-causal"))),
    Section("Attention, backward", "python -m benchmarks.attention --backward", ("attention-backward-bf16", ),
            "attention-backward-",
            work.attention, "TFLOP/s", POWER + """
            By ncu, full at 4096, shared memory is busy 80 % of the time and the tensor cores 70 % (cuDNN: 68 and 65 %): a block of
            64 x 128 takes 3300 cycles where the products need 2560, and dS^T and the shares of dQ go through shared memory
            beside the products' own reads. A program's start and end are 2.5 us, the launches for delta
            and dQ, at the speed of a copy, 18 % at 1024 and 5 % at 4096 (benchmarks/notes/attention-backward.md,
            "Attention backward"; of wide heads, which have seven products, "Wide heads, 129 to 256").""",
            (Goal(1.05, BEST, every=True), ),
            curves=(("attention-backward-full", "attention-backward-bf16-full"),
                    ("attention-backward-causal", "attention-backward-bf16-causal"))),
    Section("Attention, packed sequences", "python -m benchmarks.attention --varlen [--backward]",
            ("attention_varlen-bf16", "attention_varlen_backward-bf16"), "attention_varlen", work.varlen, "TFLOP/s", """
            As attention: pairs of queries and keys that see each other count. Gradients as the dense ones
            (benchmarks/notes/varlen.md).""",
            (Goal(1.05, (*BEST, "torch varlen", "cuDNN, dense"), every=True), )),
    Section("Attention over several GPUs", "python -m benchmarks.distributed_attention [--backward]", ("distributed-attention", ),
            "distributed-attention-", work.attention_of_ranks, "TFLOP/s", POWER + """
            The rate is one GPU's. `mimw alone` has as many operations and all keys at hand, the least that is left to do: a ratio
            of 1 to it is keys that come for nothing. They come beside the products, forward and for the gradients, whose shares of
            dK and dV go to their ranks beside the products, too, and are added up at the end: all that costs up to 2.3 %. A
            consumer over two GPUs has the loops of the one alone (`python -m benchmarks.loops`); why the gradients of 32768 rows
            take no longer than alone, nobody has measured
            (benchmarks/notes/ring-attention.md, "Attention over two GPUs").""",
            (Goal(0.97, ("mimw alone", ), every=True), Goal(1.05, ("NCCL, cuDNN", "ring"), every=True))),
    Section("Attention with sinks", "python -m benchmarks.attention_sinks", ("attention_sinks", ), "sinks-", work.sinks, "TFLOP/s",
            """
            All keys up to a query's own: as attention. A window of 128 keys is a few blocks of a tile, and latency bounds it:
            tiles begin and end more often than they multiply
            (benchmarks/notes/attention-forward.md, "Sinks and windows of few keys"). Eager is bound by scores in memory, which are
            as many for heads of 128 as of 64, while our products double: so 20 x eager, which
            heads of 64 reach in each row, is asked of the mean of `full-both`, where heads of 128 reach 18.2.""",
            (Goal(1.2, ("Flex", ), "full", True), Goal(0.9, ("Flex", ), "window", True),
             Goal(20.0, ("eager", ), "forward|window", True), Goal(20.0, ("eager", ), "full-both"))),
    Section("Attention, decoding", "python -m benchmarks.attention_decode", ("attention_decode", ), "attention_decode", work.decode,
            "GB/s", """
            The bytes of keys and values, at 4.6 TB/s, and what no byte pays for: 5 us at 1 x 1024, 6 at 1 x 8192, 8 to 11 where
            much is read, cuDNN's 7, 9 and 10 to 12
            (benchmarks/notes/decode.md, "Keys as rows of products, and a share that is guessed").""",
            (Goal(1.05, (*BEST, "torch", "FlashInfer")), )),
    Section("Norms", "python -m benchmarks.norm [--backward] [--kind rms_norm]", ("norm", ), "", work.norm, "GB/s", """
            Bytes: x read and y written, or x, dy and dx. A copy by the same ring, without a sum, reaches 0.93 of the device
            copy with the 120 SMs that clusters of 4 and 8 leave, 0.95 with all. How consumers, exchanges and CTAs are
            arranged matters little, forward and backward: it is the way to memory that is full ("Seventh run"). Few rows
            are bound by their launch (benchmarks/notes/norms.md).""",
            (Goal(1.1, (*TORCH, "Quack"), "LN[123]$", True), Goal(0.95, ("copy", ), "LN[4567]$", True)),
            curves=(("layer-norm", "layer_norm-forward-LN"), ("rms-norm", "rms_norm-forward-LN"),
                    ("layer-norm-backward", "layer_norm-backward-LN"), ("rms-norm-backward", "rms_norm-backward-LN"))),
    Section("Softmax", "python -m benchmarks.softmax [--backward] [--log]", ("softmax", ), "", work.norm, "GB/s", """
            Bytes, as the norms; `direct` is ours without the ring of bulk copies.""", (Goal(1.0, (*TORCH, "Quack"),
            every=True), ), curves=(("softmax", "softmax-forward-LN"), ("softmax-backward", "softmax-backward-LN"))),
    Section("Cross entropy", "python -m benchmarks.cross_entropy --kind fused forward backward", ("cross_entropy", ),
            "cross_entropy-",
            work.cross_entropy, "GB/s", """
            Bytes: each logit read, and where there is a gradient written, once
            (benchmarks/notes/cross-entropy.md, "Cross entropy").""",
            (Goal(1.0, (*TORCH, "Quack"), every=True), ), curves=(("cross-entropy", "cross_entropy-fused"), )),
    Section("Last layer and cross entropy", "python -m benchmarks.linear_cross_entropy --kind train forward",
            ("linear_cross_entropy", ), "linear_cross_entropy-", work.linear_cross_entropy, "TFLOP/s", """
            The tensor cores: three products with gradients, one without. torch has whole logits
            (benchmarks/notes/linear-cross-entropy.md).""", (Goal(1.0, ("torch", "Liger"), every=True), )),
    Section("Rotary embedding", "python -m benchmarks.rope", ("rope", ), "rope-", work.rope, "GB/s", """
            Bytes: queries and keys read once and written once
            (benchmarks/notes/rope.md, "Rotary embedding").""", (Goal(1.0, (*TORCH, "Quack"),
            every=True), )),
    Section("Top-k", "python -m benchmarks.topk", ("topk", ), "topk-", work.topk, "GB/s", """
            Bytes where rows are long; else the launch and the rounds over digits: some 90 instructions a number, many
            around atomics (benchmarks/notes/topk.md, "Top-k against torch.topk").""",
            (Goal(1.5, ("torch", ), every=True), ), curves=(("topk", "topk-fp32"), )),
    Section("Top-k selector", "python -m benchmarks.topk_selector", ("topk_selector", ), "topk_selector", work.topk, "GB/s",
            """
            Bytes where rows are long; else the launch. What is published of an H800 counts 0.70 times, the ratio of the
            memories, also where latency bounds it.""",
            (Goal(1.5, ("torch", ), every=True), Goal(1.0, ("TLE, H800 scaled", "others, H800 scaled"), every=True))),
    Section("2-simplicial attention", "python -m benchmarks.simplicial_attention [--backward]", ("simplicial_attention", ),
            "simplicial_attention", work.simplicial, "TFLOP/s", """
            The tensor cores, as attention; what each change of the second key costs besides, 1.4 blocks of keys for every four
            (benchmarks/notes/simplicial-attention.md, "2-simplicial attention").""",
            (Goal(1.0, ("Triton, keys outside", "Triton, second keys outside", "Triton, published split"), every=True), ),
            curves=(("simplicial-attention", "simplicial_attention"), )),
    Section("Linear attention", "python -m benchmarks.linear_attention", ("linear_attention", ), "linear_attention-",
            work.linear_attention, "GB/s", """
            Bytes, of which what the launches hand on is half and more (benchmarks/notes/linear-attention-forward.md); where rows
            are few, the host that launches them, in ours and in fla's. `training` is forward and backward. Gates are drawn as in
            fla's own benchmark; with `slow` ones, whose sums over a chunk are -0.5, no state is forgotten.""",
            (Goal(1.0, ("fla", ), every=True), Goal(1.3, ("fla", ), "linear_attention-.*-training", True))),
    Section("Linear attention, one token", "python -m benchmarks.linear_attention_step", ("linear_attention_step", ),
            "linear_attention_step-", work.linear_attention_step, "GB/s", """
            The bytes of the states, from some 64 sequences on.""", (Goal(1.0, ("fla", ), every=True), )),
    Section("Sparse MLA", "python -m benchmarks.sparse_mla", ("sparse_mla", ), "sparse_mla-", work.sparse_mla, "TFLOP/s", """
            The products; in these rows the latency of gathered rows before that: device memory is 3 to 6 % busy, the tensor
            cores 57 % (pipe) and 33 %, and warps wait for loads
            (benchmarks/notes/sparse-mla.md, "Sparse MLA prefill"). The forms are
            columns beside each other, and no baselines: each is held against what is published of it on an H800, whose tensor
            cores, clocks and L2 are an H200's, so that its time counts as it is where the cache fits into L2, and 0.70 times,
            the ratio of the memories, where it does not.""",
            (Goal(1.0, ("published form, H800 scaled", ), every=True), ),
            published=lambda row: scaled(row.shape["rows"], row.name.removeprefix("sparse_mla-"))),
    Section("MLA decoding", "python -m benchmarks.mla_decode", ("mla_decode", ), "mla_decode-bf16", work.mla_decode, "TFLOP/s", """
            The products of 64 rows with 576 and 512 columns, and what stands between two of them; with 64 heads or fewer the
            memory (benchmarks/notes/mla-decode.md). FlashMLA's published 660 TFLOP/s and 3000 GB/s of an H800 count as
            they are.""",
            (Goal(0.9, ("FlashMLA, H800", ), every=True), Goal(1.0, ("Triton", "torch", "vLLM"), every=True))),
    Section("Lightning indexer", "python -m benchmarks.indexer", ("indexer", ), "indexer-", work.indexer, "TFLOP/s", POWER + """
            The sum over heads takes two instructions an element besides, which is half of what an SM issues while the tensor
            cores multiply. Decoding: the bytes of keys and scales (benchmarks/notes/indexer.md).""",
            (Goal(1.0, ("torch", "plain", "torch.topk"), every=True), ), "fp8"),
    Section("Mixture of experts", "python -m benchmarks.moe", ("moe-bf16", ), "moe-", work.experts, "TFLOP/s", """
            Up to some 100 rows an expert the bytes of the matrices that tokens choose; then the tensor cores as in a GEMM,
            rows of padding, half a block an expert, and the matrices once more for its second block, since L2 has lost them
            (19 to 31 % of hits at deepseek-4096; benchmarks/notes/moe.md, "A mixture of experts as one call").""",
            (Goal(1.0, ("torch", "triton")), Goal(1.0, ("torch", "triton"), every=True)),
            curves=tuple((f"moe-{model}", f"moe-{model}-") for model in ("deepseek", "qwen", "mixtral"))),
    Section("Mixture of experts, fp8", "python -m benchmarks.moe --fp8", ("moe-fp8", ), "moe-fp8-", work.experts, "TFLOP/s",
            """
            As in bf16 with half the bytes, twice the rate, and two launches that quantise rows.""", (Goal(1.0, ("triton", )),
            ), "fp8", (("moe-fp8-qwen", "moe-fp8-qwen-"), )),
    Section("MoE alignment", "python -m benchmarks.moe_align", ("moe_align", ), "moe_align-", work.moe_align, "GB/s", """
            One launch with two barriers of the grid, or a cluster's: latency, not bytes.""", (Goal(1.0, ("triton", )), ),
            curves=(("moe-align", "moe_align-grid"), )),
)
