"""Packages of others that call our operators, one module each; none is imported before it is asked for.

Input: the other package, installed. Output: its kernels replaced by those of `mimw.ops`. For example:

    import mimw.integrations.transformers
    model = AutoModelForCausalLM.from_config(config, attn_implementation="mimw")
"""
