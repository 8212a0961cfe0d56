"""Why a mutant that nothing catches, and that computes the same, is no mistake: matched in order, by what was changed."""

from __future__ import annotations

import linecache

from mimw.compiler.passes.expand_pipes import expand_pipes
from mimw.compiler.passes.fence_deliveries import fence_deliveries

from .mutants import Mutant

NOT_ARGUED = "not argued: look at it"
ARRIVALS = ("barrier_arrive", "remote_arrive", "named_barrier_arrive")
OWN_WAITS = ("async_dot_wait", "tma_store_wait", "async_wait", "tdm_wait")
WAITS = (*OWN_WAITS, "barrier_wait", "named_barrier_wait")
LOADS = ("tma_load", "tma_gather", "bulk_load", "tma_load_multicast", "async_remote_store", "async_remote_copy", "clc_issue",
         "tma_load_pair", "clc_issue_all")
DECODING = "kernels/attention_decode/split_kv/kernel.py"
MICROSCALED = "kernels/mfma_scaled_gemm/kernel.py"
COPIES = ("async_load", "buffer_load_to_local")
AROUND = "tutorials/22_several_gpus.py"
PIPELINED = "tutorials/01_pipelined_gemm.py"
WARPS_APART = "kernels/attention_decode/few_rows/kernel.py"
EPILOGUE_APART = "kernels/attention_decode/few_rows_epilogue/kernel.py"
FEW_ROWS = (WARPS_APART, EPILOGUE_APART)
ASKING = ("tutorials/08_cluster_launch_control.py", "tutorials/09_blackwell_gemm.py",
          "tutorials/20_blackwell_pair_addmm.py")


def _swapped(mutant: Mutant, first, second) -> bool:
    """Whether an op of `first` went past one of `second`."""
    return mutant.word in first and any(f"past {word}," in mutant.change for word in second)


def _of(mutant: Mutant, file: str | tuple[str, ...]) -> bool:
    """True if the changed line belongs to the kernel of this file, or of one of these, maybe by a call."""
    return mutant.site.chain()[-1].file.endswith(file)


def _space_of(pointers) -> str:
    """Where a pointer, or a tile of them, points."""
    return getattr(pointers, "element", pointers).space


def _one_task_counts(mutant: Mutant) -> bool:
    """Whether an atomic goes to its own CTA's shared memory, in a program that has one task a CTA."""
    ops = list(mutant.program.walk())
    return mutant.word.startswith("atomic") and not any(op.name == "warp_specialize" for op in ops) and all(
        _space_of(op.operands[0].type) == "shared" for op in ops if op.name == mutant.word and op.site == mutant.site)


def _is_fenced_anew(mutant: Mutant) -> bool:
    """Whether the compiler puts a fence between proxies into the mutant."""
    program = fence_deliveries(expand_pipes(mutant.program))
    return any(op.name == "fence" and op.scope == "delivery" for op in program.walk())


def _meets(mutant: Mutant) -> bool:
    """Whether the changed line is of a kernel whose consumers hand data on by a named barrier."""
    return mutant.site.file.endswith("kernels/attention_backward/compute.py") or _of(mutant, DECODING)


def _of_gradients(mutant: Mutant) -> bool:
    """Whether the changed line is a consumer's of the two kernels for the gradients of attention."""
    return mutant.site.file.endswith(("kernels/attention_backward/compute.py", "kernels/attention_backward/queries.py"))


def _of_second_keys(mutant: Mutant) -> bool:
    """Whether the changed line is a consumer's of 2-simplicial attention."""
    return any(mutant.site.file.endswith(f"kernels/simplicial_attention{which}/compute.py") for which in ("", "_backward"))


def _of_wide_heads(mutant: Mutant) -> bool:
    """Whether the changed line is a consumer's of the gradients of wide heads."""
    return mutant.site.file.endswith("kernels/wide_attention_backward/kernel.py")


def _of_linear_attention(mutant: Mutant) -> bool:
    """True if the changed line is a consumer's of linear attention or of its gradients, or the score's."""
    return mutant.site.file.endswith(("kernels/linear_attention/compute.py", "kernels/linear_attention/roles.py",
                                      "kernels/linear_attention_backward/compute.py",
                                      "kernels/linear_attention_backward/multiply.py"))


def _of_a_state_in_tensor_memory(mutant: Mutant) -> bool:
    """True if the changed line is a consumer's of linear attention on Blackwell."""
    return mutant.site.file.endswith("kernels/linear_attention/blackwell.py")


def _of_gathered_rows(mutant: Mutant) -> bool:
    """Whether the changed line is one by which rows of other GPUs come."""
    return mutant.site.file.endswith(("kernels/all_gather_gemm/kernel.py", "kernels/all_gather_gemm/push.py"))


def _of_no_rest(mutant: Mutant) -> bool:
    """True if the changed line is called for the rest of chunks that are added several at a time, in a kernel that adds one."""
    called = any("first + step, 1, part" in linecache.getline(site.file, site.line) for site in mutant.site.chain()
                 if site.file.endswith("kernels/gemm/promoted.py"))
    return called and not any(op.pending == 1 for op in mutant.program.walk() if op.name == "async_dot_wait")


def _of_wrong_guess(mutant: Mutant) -> bool:
    """True if the changed line is called where lengths differ from those that a share was guessed from."""
    return any("turn, some)" in line or "Ending(0, 0, 0)" in line for line in (
        linecache.getline(site.file, site.line) for site in mutant.site.chain()
        if site.file.endswith("kernels/attention_decode/producer.py")))


def _of_listed_rows(mutant: Mutant) -> bool:
    """True if the changed line belongs to the form of sparse MLA in which tasks hand rows on."""
    return _of(mutant, "kernels/sparse_mla/pipe.py")


def _of_latent_rows(mutant: Mutant) -> bool:
    """True if the kernel is MLA decoding's."""
    return _of(mutant, "kernels/mla_decode/kernel.py")


def _of_gathered_keys(mutant: Mutant, word: str) -> bool:
    return mutant.site.file.endswith("kernels/ring_attention/gather.py") and mutant.word == word


REASONS = (
    (lambda m: _swapped(m, ("barrier_wait", ), ("mlir_reads", )),
     "What stands in front of a call in MLIR text tells passes what the text reads; the reads are the text's, behind the wait."),
    (_of_no_rest, "Products are added one at a time, so no chunk is left for the loop over the rest: nothing of it runs."),
    (lambda m: "past prefetch," in m.change or "past tma_prefetch," in m.change, "A prefetch is a hint, which orders nothing."),
    (_of_wrong_guess, "Nobody writes lengths ahead of this launch, so that the guess is right: nothing of it runs."),
    (lambda m: _of_listed_rows(m) and (m.word == "fence" or "past fence," in m.change),
     "Who reads has a fence of its own, behind its wait and in front of its product: either is enough."),
    (lambda m: _of_listed_rows(m) and m.word == "barrier_wait" and m.change.startswith("release early"),
     "Probabilities are made of this block of rows: who has waited for them knows that the rows are there."),
    (lambda m: _of_listed_rows(m) and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for rows or for a place, which come whatever it does: slower, and right."),
    (lambda m: _of(m, "kernels/sparse_mla/shared.py") and m.word in ("async_commit", "async_wait"),
     "Groups hold what cp.async copies, not what TMA does; and the rows of the last group, behind the list, nobody reads."),
    (lambda m: _of(m, "kernels/sparse_mla/shared.py") and m.word == "fence",
     "Where the fence is gone or comes too late, the compiler puts one in (passes/fence_deliveries.py)."),
    (lambda m: _of(m, "kernels/skinny_scaled_gemm/kernel.py") and m.word == "atomic_store" and m.change == "scope cta",
     "The flag is cleared for the next launch, which sees all of this one."),
    (lambda m: _of(m, "kernels/skinny_scaled_gemm/kernel.py") and _swapped(m, ("local_load", ), ("async_dot_wait", )),
     "The scales are read later than they could be, and before the slot is given back: slower, and right."),
    (lambda m: _of_latent_rows(m) and (m.word == "fence" or "past fence," in m.change),
     "Where a fence is gone or comes too late, the compiler puts one in (passes/fence_deliveries.py, fence_handovers.py)."),
    (lambda m: _of_latent_rows(m) and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for rows or for a place, which come whatever it does: slower, and right."),
    (lambda m: _of_latent_rows(m) and m.word == "barrier_wait" and m.change.startswith(
        ("release early (past barrier_arrive", "wait late (past async_dot,")),
     "The right half's rows are there without the wait: the task has waited for scores, and who sends these waited for the rows."),
    (lambda m: _of_latent_rows(m) and m.word == "barrier_wait" and m.change.startswith("wait late (past local_store"),
     "Who sends an item has brought the queries of the one before, and so waited until both consumers were through with the one "
     "whose place it takes."),
    (lambda m: _of_latent_rows(m) and m.word == "barrier_wait" and m.change.startswith("wait late (past async_load"),
     "Only the consumer that scores reads tails. It gives back the left half of that block later, for which the producer has "
     "waited."),
    (lambda m: _of_latent_rows(m) and _swapped(m, ("local_store", ), ("async_commit", )),
     "A group holds what cp.async copies, and no ordinary store."),
    (lambda m: _of(m, "kernels/lightning_indexer/kernel.py") and _swapped(m, ("async_dot_wait", ), ("local_load", )),
     "The scales are another buffer than the product reads. The wait still stands in front of its sums, and of the release."),
    (lambda m: _of(m, "kernels/lightning_indexer/kernel.py") and _swapped(m, ("barrier_arrive", ), ("local_store", )),
     "Sums go through a buffer of the consumer's own. The slot that is given back behind them orders more, and comes later."),
    (lambda m: _of(m, "kernels/moe/few_rows.py") and _swapped(m, ("async_dot", ), ("async_dot_wait", )),
     "Two waits stand side by side, one for each half's sums: the second one counts the product that the first has not met."),
    (lambda m: m.site.file.endswith("kernels/moe/kernel.py") and (m.word == "fence" or "past fence," in m.change),
     "The compiler puts a fence of its own between these stores and the tasks (passes/fence_handovers.py): either is enough."),
    (lambda m: _of(m, "kernels/norm_backward/kernel.py") and _swapped(m, ("barrier_arrive", ), ("barrier_expect", )),
     "The slot that is given back later orders more, and the bytes that are expected first are another barrier's: the producer "
     "waits a little longer."),
    (lambda m: _of(m, "kernels/norm/kernel.py") and _swapped(m, ("barrier_expect", ), ARRIVALS),
     "The bytes that this arrival asks for may land before they are announced: the arrival that the expect itself is keeps the "
     "phase open."),
    (lambda m: _of(m, "kernels/norm/kernel.py") and _swapped(m, ("barrier_wait", ), ("atomic_rmw", )),
     "A row is drawn before somebody asks for it. Its number is written behind the wait, as before."),
    (lambda m: _one_task_counts(m) and m.change.startswith(("order ", "scope cta")),
     "All who reach these elements by atomics are of one task of one CTA, which holds the scope; and nobody learns by them that "
     "something else is there."),
    (lambda m: _one_task_counts(m) and _swapped(m, ("atomic_rmw", ), ("distributed_barrier", )),
     "The barrier is for the zeros of the counters of all. The counts are the CTA's own, and it reads them behind both."),
    (lambda m: _of(m, "tutorials/12_tle_warp_specialised_gemm.py") and (
        m.word == "fence" or _swapped(m, ("barrier_wait", ), ("fence", ))),
     "A pipe fences where it commits stores and again where TMA reads them: either fence between the two is enough."),
    (lambda m: m.site.file.endswith(("kernels/attention/schedule.py", "kernels/attention_varlen/schedule.py"))
     and (m.word == "fence" or "past fence," in m.change),
     "The number of a tile is written by an ordinary store and read by ordinary loads. No copy touches it, so a fence between "
     "proxies orders nothing there; the pipe's barrier does."),
    (lambda m: any(_of(m, file) for file in ASKING) and m.word == "fence",
     "clc_consumer fences behind the read of an answer; where nobody does, the compiler puts the fence in."),
    (lambda m: any(_of(m, file) for file in ASKING) and m.change == "drop predicate",
     "After a refusal nobody asks again, so nobody waits for the stage: an arrival more does not matter."),
    (lambda m: _of(m, "tutorials/18_blackwell_attention_backward.py") and _swapped(m, ("barrier_wait", ), ("tmem_load", )),
     "dV is done by then: the task has waited for a commit that stands behind the last product for dV, and it covers that one."),
    (lambda m: _swapped(m, ("tma_store_wait", ), ("fill_descriptor_slot", )),
     "In the model a copy reads its map when it is issued: slots of descriptors hold no bytes there. On a chip that reads the map "
     "later this wait is needed."),
    (lambda m: m.word == "view_descriptor_slot" and "past barrier_wait" in m.change,
     "The map is the task's own, made before both."),
    (lambda m: _of(m, "kernels/skinny_gemm/kernel.py") and m.word == "atomic_store" and m.change == "scope cta",
     "The flag is cleared for the next launch, which sees all of this one."),
    (lambda m: _of(m, "kernels/column_gemm/kernel.py") and _swapped(m, ("tma_store_wait", ), ("barrier_expect", )),
     "The staging tile that the wait is for is written behind both; the announcement of bytes touches no memory."),
    (lambda m: m.site.file.endswith("kernels/column_gemm/shares.py") and _swapped(m, ("barrier_expect", ), ("local_store", )),
     "Sums of other CTAs may come before they are announced: the phase waits for the arrival that the announcement is."),
    (lambda m: _of(m, "kernels/block_scaled_gemm/kernel.py") and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for the next chunk, which is loaded whatever this task does: slower, and right."),
    (lambda m: _of(m, "kernels/block_scaled_gemm/kernel.py") and (m.word == "fence" or "past fence," in m.change),
     "It stands between the reads of scales and the release wherever it is, and without it the compiler puts one in front of the "
     "release: slower, and right."),
    (lambda m: _of(m, "kernels/block_scaled_gemm/kernel.py") and _swapped(m, ("async_dot_wait", ), ("async_dot", )),
     "It waits for a sum that has been added already, and stands there for its registers' sake: the next product is to take those "
     "of the last."),
    (lambda m: _of(m, "kernels/block_scaled_gemm/kernel.py") and _swapped(m, ("local_load", ), ("async_dot_wait", "barrier_wait")),
     "The scales are read later than they could be, and before the slot is given back: slower, and right."),
    (lambda m: m.site.file.endswith("kernels/gemm/promoted.py") and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for the next chunk, which is loaded whatever this task does: slower, and right."),
    (lambda m: m.site.file.endswith("kernels/gemm/promoted.py") and _swapped(m, ("barrier_wait", ), ("async_dot", )),
     "What it waits for is over without it: the product of the upper half has waited for the same chunk."),
    (lambda m: _of(m, "kernels/moe/few_rows_scaled.py") and _swapped(m, ("async_dot_wait", ), ARRIVALS),
     "The wait for the other half's products, in front of it, has left nothing for this one to wait for."),
    (lambda m: (_of(m, "kernels/moe/scaled.py") or _of(m, "kernels/moe/few_rows_scaled.py"))
     and _swapped(m, ("local_load", ), ("async_dot_wait", "barrier_wait")),
     "The scales are read later than they could be, and before the slot is given back: slower, and right."),
    (lambda m: m.site.file.endswith("kernels/norm/rows.py") and _swapped(m, ARRIVALS, ("local_load", )),
     "The arrival gives back the place of a row's number. The row itself has another barrier; a later arrival is a later draw."),
    (lambda m: _of_second_keys(m) and (m.word == "fence" or "past fence," in m.change),
     "The halves are written by ordinary stores and read by ordinary loads. No copy touches them, so a fence between proxies "
     "orders nothing there; the pipe's barrier does."),
    (lambda m: _of_second_keys(m) and _swapped(m, ("barrier_wait", ), ("async_dot", "local_store")),
     "What it waits for is over without it: the second key before has waited for the same block, or the consumers share too many "
     "blocks in a task of this launch for one to be a task ahead."),
    (lambda m: _of_second_keys(m) and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for the values of its block, which are loaded whatever this task does: slower, and "
     "right."),
    (lambda m: _of_second_keys(m) and _swapped(m, ("tma_store_wait", ), ("local_load", )),
     "What is read lies elsewhere than the result that is still on its way; the store over that comes behind the wait."),
    (lambda m: _of_second_keys(m) and _swapped(m, ARRIVALS, ("async_dot", "local_store")),
     "The release comes later than it could, and what it is put behind waits for nobody who needs it: slower, and right."),
    (lambda m: _of_wide_heads(m) and (m.word == "fence" or "past fence," in m.change),
     "The weights are written by ordinary stores and read by ordinary loads. No copy touches them, so a fence between proxies "
     "orders nothing there; the pipe's barrier does."),
    (lambda m: _of_wide_heads(m) and _swapped(m, ("local_load", ), ARRIVALS),
     "Who fills the slot again needs the other consumer, too, which gets there only with queries that come when this one's product "
     "with what it reads is over."),
    (lambda m: _of_wide_heads(m) and (_swapped(m, ("local_load", ), ("async_dot_wait", ))
                                      or _swapped(m, ("async_dot_wait", ), ("local_load", ))),
     "The numbers that are read lie elsewhere than the tiles of the product, and their slot is held: either may be first."),
    (lambda m: _of_wide_heads(m) and _swapped(m, ("barrier_wait", ), ("async_dot", "local_store")),
     "What it waits for is over without it: the slot is fresh, the loop has waited for the same chunk, or the other consumer has, "
     "which gave the weights."),
    (lambda m: _of_wide_heads(m) and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for tiles that are loaded whatever this task does: slower, and right."),
    (lambda m: _of_wide_heads(m) and _swapped(m, ARRIVALS, ("named_barrier_wait", )),
     "The last slot is given back later than it could be, and nobody fills it again."),
    (lambda m: _of_wide_heads(m) and _swapped(m, ("named_barrier_wait", ), ("local_store", )),
     "dK goes over K, which the other consumer had left when it gave the last weights. dV over V needs the wait, and is caught."),
    (lambda m: _of_linear_attention(m) and (_swapped(m, ("local_load", ), ("async_dot_wait", ))
                                            or _swapped(m, ("async_dot_wait", ), ("local_load", ))),
     "The numbers that are read lie elsewhere than the tiles of the product, and their slot is held: either may be first."),
    (lambda m: _of_a_state_in_tensor_memory(m) and _swapped(m, ("barrier_wait", ), ("tmem_load", )),
     "The state that is read does not come with the inputs of the chunk: either may be first."),
    (lambda m: _of_a_state_in_tensor_memory(m) and m.word == "barrier_wait" and m.change.startswith("release early"),
     "Behind the wait for P N, whose commit covers the product that writes the state: nothing reads the slot any more."),
    (lambda m: _of_linear_attention(m) and _swapped(m, ("async_dot", ), ("barrier_wait", )),
     "The product begins behind the wait for a slot that is given back whatever this task does: slower, and right."),
    (lambda m: _of_linear_attention(m) and _swapped(m, ("async_dot", ), ("async_dot_wait", )),
     "The product begins behind the end of the one before it, and is waited for by the wait after that: slower, and right."),
    (lambda m: _of_linear_attention(m) and _swapped(m, ("barrier_arrive", ), ("async_dot", )),
     "The slot is given back behind the begin of a product of other tiles: slower, and right."),
    (lambda m: _of(m, ("linear_attention/prepare.py", "linear_attention/by_key.py"))
     and _swapped(m, ("local_store", ), ("barrier_wait", "barrier_expect")),
     "The store is of numbers that the task itself reads, behind a barrier of its own; what it was moved past is about other "
     "memory."),
    (lambda m: _of(m, "linear_attention/by_key.py") and m.word == "fence",
     "Within one task Triton puts a fence between what threads wrote and the copy into the same place."),
    (lambda m: m.site.file.endswith("kernels/linear_attention/roles.py") and _swapped(m, ("local_store", ), ("fence", )),
     "The fence is for P, which a product reads. Factors of rows are read by ordinary loads, behind the barrier."),
    (lambda m: _of_linear_attention(m) and _swapped(m, ("barrier_arrive", ), ("local_load", )),
     "The result is handed on later than it could be, behind a read that waits for nobody: slower, and right."),
    (lambda m: _of(m, FEW_ROWS) and (m.word == "fence" or "past fence," in m.change),
     "Queries, sums and numbers are written by ordinary stores and read by ordinary loads. No copy touches them, so a fence "
     "between proxies orders nothing there; the pipe's barrier does."),
    (lambda m: _of(m, EPILOGUE_APART) and _swapped(m, ("barrier_wait", ), ("local_store", )),
     "What it waits for is over without it: the slot of the first queries is fresh, and the item that the last one goes over was "
     "read by who gave the queries of a block that is released by then."),
    (lambda m: _of(m, FEW_ROWS) and m.change == "drop predicate",
     "The first queries are then waited for in front of the first block, too; they do not need that block: slower, and right."),
    (lambda m: _of(m, FEW_ROWS) and m.word == "atomic_rmw" and m.change == "scope cta",
     "The flag is cleared for the next launch, which sees all of this one."),
    (lambda m: _of(m, WARPS_APART) and _swapped(m, ("barrier_wait", ), ("local_store", )),
     "The endings' slot that the producer has waited for before is given back behind the reading of the item that this one goes "
     "over."),
    (lambda m: _of(m, WARPS_APART) and _swapped(m, ARRIVALS, ("atomic_rmw", )),
     "The slot of the endings is given back later: its numbers are in registers, and the producer waits no longer than for the "
     "next."),
    (lambda m: _of(m, WARPS_APART) and _swapped(m, ARRIVALS, ("local_store", )),
     "The slot of the item is given back later: its numbers are in registers."),
    (lambda m: _of(m, WARPS_APART) and (_swapped(m, ("local_store", ), ARRIVALS) or _swapped(m, ARRIVALS, ("local_load", ))),
     "The barrier `begun` says when loads behind the first block may be asked for, and guards nothing: who reads the queries wrote "
     "them."),
    (lambda m: m.site.file.endswith(("kernels/moe_dispatch/kernel.py", "kernels/moe_dispatch/rows.py"))
     and _swapped(m, ("barrier_wait", ), ("signal_wait", )),
     "Which rows leave, and that the peers have begun, are waited for one behind the other, in front of the loop that needs both: "
     "either may be first."),
    (lambda m: m.word == "alloc_barriers", "Nobody uses these barriers in this schedule."),
    (lambda m: _of(m, DECODING) and (m.word == "fence" or "past fence," in m.change),
     "A consumer alone writes over values that its own product reads, where the compiler puts a fence. The author's is for the "
     "product of the other consumer: without it the kernel of many rows is caught."),
    (lambda m: _meets(m) and (m.word == "fence" or "past fence," in m.change),
     "Who multiplies by dS^T fences behind its wait for it, and so does the next step for what this one stored: either fence is "
     "enough. Of the shares of dQ, which TMA reads, the fence is the only one, and there it is caught."),
    (lambda m: _meets(m) and m.word == "async_dot" and m.change.startswith(("release early (past barrier_", "swap (past async")),
     "The product starts later than it could, and what is told of lies behind the fence: slower, and right."),
    (lambda m: _meets(m) and _swapped(m, ("local_store", ), ("barrier_wait", "async_dot_wait")),
     "dS^T is stored later than it could be, and in front of the fence still."),
    (lambda m: _meets(m) and m.word == "barrier_wait" and m.change == "shift phase",
     "Wrong where the writer of dQ starts two blocks later than the consumers: 300 seeds find it, the few of this table do not."),
    (lambda m: _of(m, DECODING) and m.change == "drop predicate",
     "The barrier of the first queries is waited for once, in a first tile of several blocks, and nobody arrives again before "
     "that."),
    (lambda m: _of(m, DECODING) and m.word == "local_store" and "past barrier_arrive" in m.change,
     "The arrival only lets the producer ask for more keys: no data go through it."),
    (lambda m: _meets(m) and m.change in ("duplicate", "next barrier"),
     "All consumers wait on this barrier together, once more or on another one that nobody else uses."),
    (lambda m: _meets(m) and _swapped(m, ("async_dot", ), ("named_barrier_wait", )),
     "The product of the next block starts later than it could: slower, and right."),
    (lambda m: _meets(m) and _swapped(m, ("named_barrier_wait", ), ("async_dot_wait", )),
     "What is waited for there was started before both, and the product that reads what the others have stored comes behind both."),
    (lambda m: _meets(m) and _swapped(m, ("barrier_arrive", ), ("named_barrier_wait", )),
     "The last share of dQ goes to memory later than it could, and all who meet there have put theirs: slower, and right."),
    (lambda m: _meets(m) and _swapped(m, ("local_store", ), ("named_barrier_wait", )),
     "dV goes over V later than it could, and nobody else uses these rows."),
    (lambda m: _meets(m) and _swapped(m, ("fence", ), ("barrier_wait", "named_barrier_wait")),
     "Each consumer still fences before it starts the product that reads, behind a wait for something else or behind the barrier."),
    (lambda m: _of_gradients(m) and _swapped(m, ("barrier_wait", ), ("async_dot", "local_store")),
     "What it waits for is over without it: the slot is fresh, or the step before has waited for the same chunk."),
    (lambda m: _of_gradients(m) and _swapped(m, ARRIVALS, ("async_dot", "local_store")),
     "The release comes later than it could, and what it is put behind waits for nobody who needs it: slower, and right."),
    (lambda m: _meets(m) and (_swapped(m, ("async_dot_wait", ), ("local_load", ))
                              or _swapped(m, ("local_load", ), ("async_dot_wait", ))),
     "The numbers that are read lie elsewhere than the tiles of the product, and their slot is held: either may be first."),
    (lambda m: not _meets(m) and (m.word.startswith("named_barrier") or "past named_barrier" in m.change),
     "These turns pace the tensor cores. No data go through them, and any turns that come round are right."),
    (lambda m: m.change == "duplicate" and m.word == "barrier_wait",
     "The second wait finds the phase over that the first has waited for: nobody can complete the next one before this task "
     "goes on."),
    (lambda m: m.change == "drop" and m.word == "barrier_wait",
     "What it waits for is over without it: the barrier is fresh, or an earlier wait of the task says so, which is behind one of a "
     "task that waited for the same phase."),
    (lambda m: _of(m, PIPELINED) and m.word == "async_dot_wait" and not _swapped(m, WAITS, WAITS),
     "On a chip without wgmma the product is over where it stands, so its wait is gone (passes/dots_at_once.py)."),
    (lambda m: m.word in OWN_WAITS and m.change in ("drop", "wait for one less"),
     "An earlier wait of the task has left nothing for this one to wait for."),
    (lambda m: m.change == "swap barriers",
     "The other barrier is as fresh as the one that was meant, or all barriers of the array are served alike."),
    (lambda m: m.change == "swap buffers", "The ring is turned by one slot for who writes and who reads alike."),
    (lambda m: _swapped(m, ("barrier_expect", ), LOADS),
     "The arrival that the expect itself is keeps the phase open, so bytes may land before they are announced."),
    (lambda m: _swapped(m, ("barrier_wait", ), ("barrier_expect", )),
     "Announcing bytes is no access. The phase before is over by an earlier wait, and the copy still comes behind this one."),
    (lambda m: _swapped(m, ("barrier_wait", ), ("local_load", )),
     "What is read is there without the wait: an earlier wait of the task is behind one of a task that waited for the same phase."),
    (lambda m: _swapped(m, ("tmem_load", ), ("barrier_wait", )),
     "The sums are read later than they could be, behind a wait for something else: slower, and right."),
    (lambda m: _swapped(m, ARRIVALS, ARRIVALS), "Two arrivals side by side, each for somebody else: either may be first."),
    (lambda m: _swapped(m, WAITS, WAITS), "Two waits side by side: what needs either comes behind both."),
    (lambda m: _swapped(m, (*LOADS, "tma_store", "tcgen05_commit", "tcgen05_commit_pair"), ("barrier_wait", "barrier_expect")),
     "The copy starts later than it could, behind what has nothing to do with it: slower, and right."),
    (lambda m: _of(m, MICROSCALED) and m.word == "async_commit" and m.change == "drop",
     "The copies of before the loop that lose their group join the next one, which the loop waits for before any of them is read."),
    (lambda m: _of(m, MICROSCALED) and _swapped(m, ("async_commit", ), ("local_load", )),
     "The group ends later, and no copy stands between: it holds the same."),
    (lambda m: _of(m, MICROSCALED) and (_swapped(m, ("local_load", ), OWN_WAITS) or _swapped(m, OWN_WAITS, ("local_load", ))),
     "What is read there has landed behind the wait of the step before; this wait is for the step that comes."),
    (lambda m: _of(m, MICROSCALED) and _swapped(m, OWN_WAITS, ("buffer_store", )),
     "The stores take sums from registers; this wait is that no copy outlives the program."),
    (lambda m: _of(m, MICROSCALED) and _swapped(m, OWN_WAITS, COPIES),
     "The copy that the wait goes past is of no group yet, and the wait counts groups."),
    (lambda m: _swapped(m, ("async_commit", ), COPIES) or _swapped(m, COPIES, ("async_commit", )),
     "The copy moves to the neighbouring group, and that is waited for before the copy is used, too."),
    (lambda m: _of(m, "kernels/mfma_gemm/kernel.py") and m.word == "async_wait" and "past buffer_store," in m.change,
     "What is under way behind the loop nobody reads: it must be there when the program ends."),
    (lambda m: (_of(m, "kernels/attention/kernel.py") or _of(m, "kernels/attention_varlen/kernel.py"))
     and m.word.startswith("atomic") and m.change == "scope cta",
     "This launch has one program: its CTA is all there is."),
    (lambda m: m.site.file.endswith("kernels/collectives/direct.py") and m.word == "peer_pointer" and m.change == "next peer",
     "Every rank is read once still, from the next one on: of two ranks the sum is the same in either order."),
    (lambda m: _of(m, "tests/kernels/several_gpus.py") and m.word == "world_barrier",
     "In each round either rank waits for both signals of the other: meeting as well orders nothing that these do not."),
    (lambda m: m.site.file.endswith("gemm_reduce_scatter/kernel.py") and "started" in linecache.getline(m.site.file, m.site.line),
     "All-reduce: a launch ends behind the finished tiles of all peers, which have read their slots by then. The signal is for "
     "launches of other kinds before this one, which have the same memory."),
    (lambda m: _of(m, "tests/kernels/carried_sums.py") and m.change in ("scope cta", "scope gpu"),
     "A task of the first program stands in for the copy engines, and these words are this GPU's own. What a stream waits for has "
     "to be of system scope."),
    (lambda m: _of_gathered_rows(m) and m.word in ("fence", "signal_wait"),
     "Rows come by bulk copies, whose end is a fence between proxies; the fence is for rows that other engines bring."),
    (lambda m: _of_gathered_rows(m) and _swapped(m, OWN_WAITS, ("barrier_expect", )), "Announcing bytes is no access to the slot."),
    (lambda m: m.site.file.endswith("moe_dispatch/announce.py") and m.word.startswith("atomic"),
     "One task counts for itself, in its CTA's shared memory: nobody else reads these counts."),
    (lambda m: m.site.file.endswith(("moe_dispatch/announce.py", "moe_combine/kernel.py")) and m.change == "next peer",
     "The loop goes over all ranks, this one as well: beginning with another one it reaches the same."),
    (lambda m: m.site.file.endswith("tests/kernels/cut_sequences.py") and m.word == "peer_pointer",
     "All ranks are given the same, one after the other: in another order each is given it, too."),
    (lambda m: _of_gathered_keys(m, "signal_wait") and m.change == "order relaxed",
     "The fence of system scope that stands behind the wait makes a relaxed one an acquire."),
    (lambda m: _of_gathered_keys(m, "fence") and m.change == "scope gpu",
     "The wait is an acquire of system scope by itself; the fence stands between proxies, whatever its scope."),
    (lambda m: _of_gathered_keys(m, "atomic_rmw") and "atomic_xchg" in linecache.getline(m.site.file, m.site.line),
     "Whoever sets the number back is the last that counted: nobody looks at it before the next launch."),
    (lambda m: _of_gathered_keys(m, "atomic_rmw") and _of(m, "tests/kernels/cut_sequences.py"),
     "This launch has one program, which counts alone. With two it is wrong (`Two GPUs, attention`)."),
    (lambda m: _of_gathered_keys(m, "world_barrier"),
     "A single call: nobody has read the peers' arrays yet. In a second one it is wrong (`Two GPUs, keys of attention`)."),
    (lambda m: m.site.file.endswith(AROUND) and m.word == "signal_wait",
     "The wait is before the end of a launch. What is taken off before all has come leaves the count as much lower, and the next "
     "launch waits for the same slots by that."),
    (lambda m: m.site.file.endswith(AROUND) and m.word == "atomic_rmw",
     "Nobody adds to this count meanwhile: what came of this launch, by the wait before; what comes of the next, by the numbers "
     "that this rank sends then."),
    (lambda m: m.site.file.endswith("kernels/gemm/product.py") and m.change == "drop predicate",
     "A launch has a step for each tile: the predicate is for K = 0, which `arguments` refuses."),
    (lambda m: m.word in ARRIVALS and m.change in ("drop", "duplicate", "count + 1") or _swapped(m, OWN_WAITS, ARRIVALS),
     "At the size of this launch the slot is not filled again, so nobody waits for the arrival. On a larger one it is wrong."),
    (lambda m: _swapped(m, ARRIVALS, (*OWN_WAITS, "barrier_wait", "tmem_load", "tmem_store")),
     "The release comes later than it could, and what it is put behind waits for nobody who needs it: slower, and right."),
    (lambda m: (m.word == "fence" or "past fence," in m.change) and _is_fenced_anew(m),
     "Where the fence is gone or comes too late, the compiler puts one in (passes/fence_deliveries.py)."),
)


def reason(mutant: Mutant) -> str:
    """The argument for a mutant that nothing is wrong with."""
    return next((text for matches, text in REASONS if matches(mutant)), NOT_ARGUED)
