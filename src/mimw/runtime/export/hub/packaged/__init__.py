"""The files that every package for `kernels` carries, as they are: they import Python's own modules and torch, nothing else.

Input: a folder with forms.json and binaries (mimw.runtime.export.hub writes it). Output: operators of torch. For example, there:

    forms = Forms.read(folder, Driver())            driver.py, forms.py
    operator("mimw_swiglu_1f", schema, ...)         operators.py
"""
