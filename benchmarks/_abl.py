"""Makes mimw/kernels/attn_NAME from the two versions."""
import pathlib
import shutil

root=pathlib.Path("mimw/kernels")
src={"early":pathlib.Path("benchmarks/_early.txt").read_text(),"late":pathlib.Path("benchmarks/_late.txt").read_text()}
def clock(s):
    s=s.replace("            used = 0  # blocks","            began = tlx.clock64()\n            used = 0  # blocks")
    return s.replace("        with tlx.async_task(num_warps=1, num_regs=PRODUCER_REGS):  # producer","            if me == 0:\n                tl.store(counter + 1 + 2 * tl.program_id(0), (tlx.clock64() - began).to(tl.int32))\n                tl.store(counter + 2 + 2 * tl.program_id(0), used)\n\n        with tlx.async_task(num_warps=1, num_regs=PRODUCER_REGS):  # producer",1)
def make(name,s,edits=()):
    for a,b in edits:
        assert a in s,(name,a)
        s=s.replace(a,b)
    d=root/("attn_"+name); shutil.rmtree(d,ignore_errors=True); shutil.copytree(root/"attention",d)
    (d/"kernel.py").write_text(clock(s))
norescale=[("CLUSTER) * shrink[:, None]","CLUSTER)")]
nosum=[("total * shrink + tl.sum(p, 1), shrink","total, shrink")]
nomax=[("new = tl.maximum(highest, tl.max(scores, 1))","new = highest + 1.0")]
noexp=[("p = tl.exp2(scores * scale - base[:, None])","p = scores * scale - base[:, None]")]
warp=[("tlx.alloc_barriers(STAGES, arrive_count=CONSUMERS * CLUSTER)","tlx.alloc_warp_barrier(STAGES, num_warps=4, num_arrivals=CONSUMERS)"),("tlx.alloc_barriers(V_STAGES, arrive_count=CONSUMERS * CLUSTER)","tlx.alloc_warp_barrier(V_STAGES, num_warps=4, num_arrivals=CONSUMERS)")]
make("early",src["early"]); make("late",src["late"])
make("norescale_x",src["early"],norescale); make("nosum_x",src["early"],nosum); make("nomax_x",src["early"],nomax); make("noexp_x",src["early"],noexp)
make("warp",src["early"],warp); make("warplate",src["late"],warp)
