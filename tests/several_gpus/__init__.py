"""What only real GPUs show of several: processes that torchrun starts, one each, and checks in them.

    python -m torch.distributed.run --standalone --nproc-per-node 4 -m tests.several_gpus.words [names]

words.py has the host side and the words, sharded.py tensors that are spread over GPUs, operators.py and ring.py the operators.
running.py runs checks at all ranks; test_shared_gpu.py all of this on one GPU that the ranks share.
"""
