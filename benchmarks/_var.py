import sys, torch, json
from benchmarks.attention import *
from mimw.kernels import attention as A
def variants(seq, causal, cfgs, ms=100., dim=128, heads=48, batch=4, base=True, kv=None):
    shape=dict(batch=batch,heads=heads,kv_heads=kv or heads,seq=seq,dim=dim)
    q,k,v=problem(shape,torch.bfloat16)
    runs={}
    for name,(cfg,env) in cfgs.items():
        o,lse=torch.full_like(q,float("nan")),torch.empty(q.shape[:3],device="cuda")
        try:
            programs=torch.cuda.get_device_properties(0).multi_processor_count
            old=A.L2_BYTES
            if env: A.L2_BYTES=env<<20
            grid,args,meta=A.arguments(q,k,v,o,lse,torch.zeros(1,dtype=torch.int32,device="cuda"),programs,causal,None,cfg)
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
