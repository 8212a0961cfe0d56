"""Modules of torch over the operators of `mimw.ops`: drop-in replacements of those of `torch.nn`.

Input: a model, or the arguments of a module of `torch.nn`. Output: modules with the same parameters and state dict. For example:

    from mimw import nn
    norm = nn.RMSNorm(4096)
    report = nn.patch(model)
"""
