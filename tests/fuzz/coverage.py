"""Which words the generator reaches: read off the support tables of docs/ and off the op table.

Input: sources of generated programs. Output: the words that none of them names. A word that no program can hold is in
`NOT_HERE` with the reason.

    missing([program_of(seed)[0].kernel for seed in range(600)])     # []
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mimw.ir import OPS

_DOCS = Path(__file__).parents[2] / "docs"
# Rows of docs/tle.md that are no name, and what names them.
_TLE_ROWS = {
    "gpu.local_ptr: atomics": r"tl\.atomic_\w+\(tle\.gpu\.local_ptr",
    "gpu.local_ptr: compare and swap": r"tl\.atomic_cas\(tle\.gpu\.local_ptr",
    "gpu.copy, pointers": r"tle\.gpu\.copy\(g\d+, y\d+ \+",
    "gpu.copy, rows of a descriptor": r"tle\.gpu\.copy\(d\d+, .*tl\.load\(",
    "gpu.copy, descriptors": r"tle\.gpu\.copy\(d\d+,|tle\.gpu\.copy\(g\d+, d\d+",
    "distributed_barrier, cluster": r"'cluster':[\s\S]*tle\.distributed_barrier",
    "distributed_barrier, grid": r"'block':[\s\S]*tle\.distributed_barrier",
    "gpu.alloc, gpu.local_ptr": r"tle\.gpu\.local_ptr\(",
}
# Rows of docs/tlx.md that are a use of a word.
_TLX_ROWS = {
    "barrier_arrive, remote": r"remote_cta_rank=",
    "async_load, bulk": r"bulk=True",
    "async_descriptor_load, multicast": r"multicast_targets=",
    "prefetch, tensormap": r"tensormap=True",
    "local_alloc, tmem": r"tlx\.local_alloc\(.*storage_kind\.tmem",
    "async_dot, tmem": r"tlx\.async_dot\(.*(mBarriers|force_async|use_acc)=",
    "async_dot_scaled, two_ctas": r"tlx\.async_dot_scaled\(.*two_ctas=True",
    "async_dot, two_ctas": r"tlx\.async_dot\(.*two_ctas=True",
}
_CLC = "clc_producer and clc_consumer, which programs hold, are made of it; tests/check/test_truth_tables_launch_control.py has it"
_GPUS = "programs of the fuzzer run on one GPU; tests/check/test_truth_tables_gpus.py and tests/words/test_world_words.py have it"
_MULTIMEM = "memory of several GPUs at once; tests/words/test_multimem.py and its truth tables have it"
_LOCAL = "the family locals holds them (edges/locals.py), and tests/tle/test_dsa_*.py; it is not among the seeds that are looked at"
NOT_HERE = {
    **dict.fromkeys(("tlx.peer_pointer", "tlx.signal", "tlx.wait_signal", "tlx.world_barrier", "tlx.world_rank", "tlx.world_size",
                     "tle.bind_mesh: shard_id, several GPUs", "tle.bind_mesh: remote, several GPUs",
                     "tle.bind_mesh: distributed_barrier, several GPUs", "tle.bind_mesh: reshard, several GPUs",
                     "tle.bind_mesh: distributed_dot, several GPUs",
                     "tle.bind_mesh: remote of a sharded tensor, several GPUs"), _GPUS),
    **dict.fromkeys(("tlx.multicast_pointer", "tlx.multimem_load_reduce", "tlx.multimem_reduce", "tlx.multimem_store"), _MULTIMEM),
    "tlx.barrier_try_wait": "its flag depends on who was faster; tests/words/test_try_wait.py has the word",
    "tlx._to_mxfp8_block": "a helper of `tl` code; tests/words/test_mxfp8.py has it",
    "tle.struct": "a class around values, of which nothing is left in a program; tests/tle/test_struct.py has it",
    "tlx.dot_scaled": "tl.dot_scaled, which programs hold; tests/words/test_dot_scaled.py has the word",
    **dict.fromkeys(("tlx._alloc_clc_responses", "tlx._clc_issue", "tlx._clc_query"), _CLC),
    "tlx.async_dot_scaled, two_ctas": "as the op tcgen05_mma_pair_scaled, below",
    "tlx.warp_redux": "what it gives depends on the layout; tests/words/test_warp_redux.py has it",
    **dict.fromkeys(("tle.dsa.alloc, dsa.copy, dsa.add", "tle.dsa.to_tensor, dsa.to_buffer", "tle.dsa.subview, dsa.local_ptr",
                     "tle.dsa.extract_slice, dsa.insert_slice, dsa.extract_element", "tle.dsa.pipeline, dsa.hint",
                     "tle.dsa.parallel"), _LOCAL),
    "tle.gpu.copy, rows of a pointer": "tests/tle has it",
    **dict.fromkeys(("tle.call", "tle.raw.call, body in MLIR's words", "tle.raw.call, vprintf",
                     "tle.raw.call, functions on tiles in MLIR text", "tle.raw.call, CUDA C++, PTX, LLVM IR", "tle.raw.call_smem"),
                    "raw code is the author's; tests/tle/test_raw*.py have them"),
}
# Ops of the table that no program reaches, and why.
OPS_NOT_HERE = {
    **dict.fromkeys(("peer_pointer", "signal_wait", "world_barrier", "world_scratch"), _GPUS),
    **dict.fromkeys(("multicast_pointer", "multimem_load_reduce", "multimem_reduce", "multimem_store"), _MULTIMEM),
    **dict.fromkeys(("dsa_load", "dsa_fetch", "dsa_store", "dsa_move", "dsa_to_tensor", "dsa_to_buffer", "dsa_binary",
                     "dsa_subview", "dsa_extract_slice", "dsa_insert_slice", "dsa_extract_element", "local_free"),
                    _LOCAL),
    "barrier_test": "as barrier_try_wait, whose op it is",
    "pipe_held": "a reader of the fuzzer waits for each chunk; tests/tle has it",
    **dict.fromkeys(("raw_address", "raw_arrives", "raw_barrier", "raw_call", "raw_loads", "raw_reads", "raw_stores", "raw_writes"),
                    "native code is the author's; tests/tle/test_raw.py has the words"),
    **dict.fromkeys(("raw_mlir", "pure_mlir", "mlir_loads", "mlir_reads", "mlir_stores", "mlir_writes"),
                    "functions in MLIR are the author's; tests/tle/test_raw_mlir.py calls them"),
    **dict.fromkeys((name for name, row in OPS.items() if "ttgir" in row.traits),
                    "no word records them: tests/check/test_truth_tables_allocations.py has what they mean"),
    "breakpoint": "nothing happens there; tests/debugger has it",
    "print_lanes": "it prints; tests/tle/test_raw_body.py has it",
    "inline_asm": "programs of the family looped hold it; tests/simulator/test_assembly.py has what it means",
    "tma_load_pair_multicast": "pairs of the fuzzer share nothing; tests/check/test_truth_tables_pairs.py, b_of_two_pairs, has it",
    **dict.fromkeys(
        ("tcgen05_mma_pair_scaled", "tmem_copy_pair"),
        "the fuzzer's products of pairs have no scales; tests/check/test_truth_tables_pairs_scaled.py has them",
    ),
    "cut": "what `tle.extract_tile` makes of tiles of odd extents, which no fixed seed has; tests/extents, `parts`, has it",
    "warp_redux": "what it gives depends on the layout; tests/words/test_warp_redux.py has it",
    **dict.fromkeys(("wait_stamp", "wait_words", "watched_wait"), "put in by the watchdog"),
    "time_base": "put in by mimw.profile",
    "time_stamp": "put in by mimw.profile",
    **dict.fromkeys(
        ("fcmpONE", "fcmpUEQ", "fcmpUGE", "fcmpUGT", "fcmpULE", "fcmpULT"),
        "tl compares with the ordered ones, and by fcmpUNE",
    ),
}


def _rows(page: str, chip: str) -> list[str]:
    """The first cells of the rows of a page's tables that say yes for a chip."""
    found, column = [], None
    for line in (_DOCS / page).read_text().split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if chip in cells:
            column = cells.index(chip)
        elif column is not None and len(cells) > column and cells[column] == "yes":
            found.append(cells[0])
        elif not line.startswith("|"):
            column = None
    return found


def words() -> dict[str, str]:
    """Each word that works on sm_90a, sm_100a, gfx950 or gfx1250, and a pattern that finds it in a source."""
    found = {}
    for row in dict.fromkeys(row for chip in ("sm_90a", "sm_100a", "gfx950", "gfx1250") for row in _rows("tlx.md", chip)):
        name = re.match(r"`(\w+)", row)[1]
        if "`, " in row:
            label = f"{name}, {row.split('`, ')[1]}"
            found[f"tlx.{label}"] = _TLX_ROWS[label]
        else:
            found[f"tlx.{name}"] = rf"tlx\.{name}\b"
    for row in _rows("tle.md", "sm_90a"):
        name = row.strip("`")
        found[f"tle.{name}"] = _TLE_ROWS.get(name, rf"(tle|\bv\d+)\.{re.escape(name)}\b")
    return found


def named(source: str) -> set[str]:
    """The words that a source holds."""
    return {name for name, pattern in words().items() if re.search(pattern, source)}


def missing(sources: Iterable[str]) -> list[str]:
    """The words that none of the sources holds, and that no reason excuses."""
    left = {name: pattern for name, pattern in words().items() if name not in NOT_HERE}
    for source in sources:
        left = {name: pattern for name, pattern in left.items() if not re.search(pattern, source)}
        if not left:
            break
    return sorted(left)


def ops_of(program, kernel) -> set[str]:
    """The ops of a program as its author wrote it, and as the passes leave it."""
    import mimw
    from mimw.runtime.simulate import prepare

    from .launch import arrays_of, bound, launch_meta

    values = bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor)
    launch = prepare(kernel, program.launched, values, launch_meta(program), program.chip)
    return {op.name for one in (launch.recorded, launch.program) for op in one.walk()}


def choose(count: int, least: int = 0, only: str | None = None) -> list[int]:
    """Few and small seeds below `count` whose programs hold every word and every op that any of them holds, and all families; of
    `only` "blackwell" or "amd" what the other seeds of fixed.py do not hold."""
    from .families import program_of
    from .fixed import SEEDS
    from .launch import load

    reach: dict[int, set[str]] = {}
    length: dict[int, int] = {}
    held: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for one in (*((seed, only) for seed in range(count)), *((seed, None) for seed in (SEEDS if only else ()))):
            program, _ = program_of(*one)
            if "sim" in program.skips:
                continue
            found = {program.family} | named(program.kernel) | {f"op {name}" for name in ops_of(program, load(program, folder))}
            if one[1] != only:
                held |= found
                continue
            reach[one[0]], length[one[0]] = found, 1500 + len(program.kernel)
    left, chosen = set().union(*reach.values()) - held, []
    while left or len(chosen) < least:
        best = max(
            (seed for seed in reach if seed not in chosen),
            key=lambda seed: (len(reach[seed] & left) + 0.01) / length[seed],
        )
        chosen.append(best)
        left -= reach[best]
    return sorted(chosen)


if __name__ == "__main__":  # python -m tests.fuzz.coverage COUNT [blackwell or amd]: the tuples for fixed.py
    print(choose(int(sys.argv[1]), 0 if sys.argv[2:] else 40, *sys.argv[2:]))
