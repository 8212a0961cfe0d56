import sys, torch, json
from benchmarks.attention import *
from mimw.kernels import attention as A
def variants(seq, causal, cfgs, ms=100., dim=128, heads=48, batch=4, base=True, kv=None):
    shape=dict(batch=batch,heads=heads,kv_heads=kv or heads,seq=seq,dim=dim)
    q,k,v=problem(shape,torch.bfloat16)
    runs={}; counters={}
    for name,cfg in cfgs.items():
        cfg,env=cfg if isinstance(cfg,tuple) else (cfg,0)
        o,lse=torch.full_like(q,float("nan")),torch.empty(q.shape[:3],device="cuda")
        try:
            programs=torch.cuda.get_device_properties(0).multi_processor_count
            old=A.L2_BYTES
            if env: A.L2_BYTES=env<<20
            c=counters[name]=torch.zeros(1024,dtype=torch.int32,device="cuda")
            grid,args,meta=A.arguments(q,k,v,o,lse,c,programs,causal,None,cfg)
            A.L2_BYTES=old
            launch=A.kernel[grid]
            run=lambda launch=launch,args=args,meta=meta: launch(*args,**meta)
            run(); torch.cuda.synchronize()
            err=check(q,k,v,o,lse,causal)
            runs[name]=run
        except Exception as e:
            print(name,type(e).__name__,str(e)[:300],flush=True)
    if base: runs.update(baselines(q,k,v,causal))
    t=alternate(runs,ms)
    fl=4*batch*heads*seq*seq*dim*(.5 if causal else 1)
    print(f"{'causal' if causal else 'full  '} {seq:6d} d{dim} "+"  ".join(f"{n} {fl/x/1e6:.0f} ({t.get('cuDNN',x)/x:.3f})" for n,x in t.items()),flush=True)
    for n,c in counters.items():
        c=c[1:265].view(-1,2).double()
        if c[:,1].max()>0:
            cyc=c[:,0].max().item(); per=(c[:,0]/c[:,1].clamp(min=1)).median().item()
            print(f"      {n}: cycles/block {per:.0f}, longest {cyc:.3e} cycles, shortest {c[:,0].min().item():.3e}, clock if all of it {cyc/t[n]:.0f} MHz",flush=True)
