"""Host values as kernel arguments: how a launch sees an array, a number, a descriptor or a tuple.

Input: a JIT function and its arguments by name. Output: the types, the compile-time constants and the run-time values.
For example:

    specialise(double, {"x": numpy.ones(256, "float32"), "n": 256, "BLOCK": 128})
        {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2, ): 128}, {(0, ): array, (1, ): 256}

Triton's own binder needs a GPU driver and objects with `data_ptr()`. The simulator has neither, so this file makes the
same specialisation for numpy arrays and torch CPU tensors: pointers by element type, integers by width (1 becomes a
constant, as on a launch), floats as fp32, booleans, None and `constexpr` parameters as constants.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiler.triton_port.any_shapes import check_positive
from ..compiler.triton_port.origin import is_tritons
from ..compiler.triton_port.runtime import TensorDescriptor as StockTensorDescriptor
from ..errors import ArgumentError, LaunchError, SimulatorMisuse
from ..ir.callers import ends_at_call
from ..ir.tensor_map import tensor_problem
from ..ir.tuples import like

_ELEMENTS = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
    "float8_e8m0fnu": "u8", "float4_e2m1fn_x2": "u8",
}
_NUMPY = {"i1": "bool", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "fp8e5": "float8_e5m2",
          "fp8e4nv": "float8_e4m3fn", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz"}
_BYTES = ("float8_e8m0fnu", "float4_e2m1fn_x2")  # scales, and pairs of fp4: plain bytes in kernels, and no types of Triton's

_NO_ADDRESS = ("FakeTensor", "FunctionalTensor")  # torch's stand-ins, as in Triton's own check


class HostArray:
    """A numpy array with the few methods of a torch tensor that Triton's host side asks for."""

    def __init__(self, array: np.ndarray):
        self.array, self.dtype, self.shape = array, array.dtype, tuple(array.shape)

    def data_ptr(self) -> int:
        return self.array.__array_interface__["data"][0]

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)


class TensorDescriptor(StockTensorDescriptor):
    """Triton's host tensor descriptor, which also takes numpy arrays (for the simulator).

    errors:    LaunchError for what no TMA descriptor can describe (`mimw.ir.tensor_map`), with the facts and the mend
    """

    def __post_init__(self):
        """Triton's own checks and those that it leaves to the driver; not Triton's method, which would do the half of it again."""
        if isinstance(self.base, np.ndarray):
            self.base = HostArray(self.base)
        try:
            check_descriptor(self)
        except AttributeError:
            _check_array(self.base)
            raise
        check_positive(self.block_shape)
        if self.round_f32_to_tf32 and element_name(self.base.dtype) != "fp32":
            raise LaunchError(f"round_f32_to_tf32 is for float32 tensors, not {self.base.dtype}", hint="leave it out.")

    @staticmethod
    @ends_at_call
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero",
                    round_f32_to_tf32: bool = False) -> TensorDescriptor:
        """A descriptor of a whole array: numpy, or a torch tensor as for Triton's own. ArgumentError, a TypeError, for anything
        else, and unless `block_shape` is a list."""
        if not isinstance(block_shape, (list, tuple)):
            raise ArgumentError(f"block_shape is a list of ints, one a dimension, such as [64, 64]; got {block_shape!r}")
        tensor = HostArray(tensor) if isinstance(tensor, np.ndarray) else tensor
        _check_array(tensor)
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block_shape, padding, round_f32_to_tf32)


def _check_array(tensor: Any) -> None:
    """ArgumentError for what is no array. A tensor of torch, or what stands for one, has these three."""
    if not all(hasattr(tensor, name) for name in ("dtype", "shape", "stride")):
        what = "nothing" if tensor is None else f"{tensor!r:.60}, a {type(tensor).__name__}"
        raise ArgumentError(f"a tensor descriptor is of an array of numpy or torch, and got {what}")


def check_descriptor(descriptor: StockTensorDescriptor, what: str = "this tensor descriptor") -> None:
    """LaunchError for a tensor that TMA cannot describe; `what` names the descriptor."""
    base = descriptor.base
    address = 0 if type(base).__name__ in _NO_ADDRESS else base.data_ptr()
    problem = tensor_problem(address, descriptor.shape, descriptor.strides, len(descriptor.block_shape), base.dtype.itemsize)
    if not problem and descriptor.padding != "zero":
        element = element_name(base.dtype)
        if descriptor.padding != "nan":
            problem = f"it pads with {descriptor.padding!r}", "pad with 'zero' or 'nan'"
        elif not element.startswith(("fp", "bf")) or element.startswith("fp8"):
            problem = (f"it pads with `nan`, and TMA copies elements of type {element} as plain integers",
                       "pad with `zero`, or use fp16, bf16, fp32 or fp64")
    if problem:
        raise LaunchError(f"{what} is invalid: {problem[0]}.", hint=f"{problem[1]}.")


def check_descriptors(names: list[str], args, kwargs) -> None:
    """LaunchError for the first tensor descriptor among a launch's arguments that cannot be."""
    for name, value in (*zip(names, args), *kwargs.items()):
        if isinstance(value, StockTensorDescriptor):
            check_descriptor(value, f"the tensor descriptor given as {name!r}")


def check_on_gpu(names: list[str], args, kwargs) -> None:
    """LaunchError for the first argument of a launch that is not simulated and yet lies in numpy, itself or in a descriptor."""
    for name, value in (*zip(names, args), *kwargs.items()):
        if isinstance(value.base if isinstance(value, StockTensorDescriptor) else value, (np.ndarray, HostArray)):
            raise LaunchError(f"{name} is an array of numpy, and a launch that is not simulated takes tensors on a GPU.",
                              hint=f"pass torch.from_numpy({name}).cuda(); or simulate the launch, by mimw.simulate(kernel, grid, "
                              "...) or MIMW_SIMULATE=1.")


def element_name(dtype: Any) -> str:
    """Triton's signature name of a numpy or torch dtype: "bf16", "i32", ..."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    if name not in _ELEMENTS:
        raise SimulatorMisuse(f"arrays of {dtype} cannot be kernel arguments",
                              hint=f"use one of {', '.join(_ELEMENTS)}")
    if not getattr(dtype, "isnative", True):
        raise SimulatorMisuse(f"arrays of {dtype.str} hold their bytes in the other order than this machine and every GPU",
                              hint="convert: array.astype(array.dtype.newbyteorder('='))")
    return _ELEMENTS[name]


def numpy_dtype(dtype: Any) -> np.dtype:
    """numpy's dtype for a numpy or torch dtype."""
    import ml_dtypes  # noqa: F401  numpy learns its types
    element = element_name(dtype)
    return np.dtype(_NUMPY.get(element) or {"i": "int", "u": "uint"}[element[0]] + element[1:])


def as_launched(value: Any) -> Any:
    """An argument as Triton's own binder takes it: numpy arrays with a `data_ptr`, numpy's numbers as Python's."""
    if isinstance(value, (tuple, list)):
        return like(value, map(as_launched, value))
    if isinstance(value, np.ndarray):
        return HostArray(as_bytes(value))
    return value.item() if isinstance(value, np.generic) else as_bytes(value)


def as_bytes(value: Any) -> Any:
    """Arrays of scales and of pairs of fp4, also in descriptors and tuples, as arrays of bytes; everything else as it is."""
    if isinstance(value, (tuple, list)):
        return like(value, map(as_bytes, value))
    if isinstance(value, StockTensorDescriptor):
        base = as_bytes(value.base)
        return value if base is value.base else replace(value, base=base)
    if isinstance(value, HostArray):
        array = as_bytes(value.array)
        return value if array is value.array else HostArray(array)
    if not is_array(value) or not is_bytes(value.dtype):
        return value
    if isinstance(value, np.ndarray):
        return value.view(np.uint8)
    return value.view(sys.modules["torch"].uint8)


def meant_bytes(error: KeyError) -> bool:
    """True if Triton's binder refused one of those arrays: it looks types up by their names."""
    return any(error.args == (name, ) for name in _BYTES)


def is_bytes(dtype: Any) -> bool:
    """True of the types of scales and of pairs of fp4, by numpy or torch."""
    return (getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")) in _BYTES


def is_array(value: Any) -> bool:
    """True for what a launch passes as a pointer."""
    return isinstance(value, (np.ndarray, HostArray)) or (hasattr(value, "data_ptr") and hasattr(value, "dtype"))


def is_aligned(value: Any, parameter) -> bool:
    """True for an integer that a launch specialises on being a multiple of 16, and for an array: a GPU's memory begins at one."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        plain = not parameter.do_not_specialize and not parameter.do_not_specialize_on_alignment
        return plain and int(value) % 16 == 0
    return is_array(value)


def specialise(fn, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[tuple[int, ...], Any], dict[tuple[int, ...], Any]]:
    """Specialise `fn` for a launch with these arguments.

    returns:   signature  parameter name -> Triton type string, or nested tuples of them
               constants  path -> compile-time value
               values     path -> run-time host value (array, number or descriptor)
    """
    signature, constants, values = {}, {}, {}
    for index, parameter in enumerate(fn.params):
        value = arguments[parameter.name]
        signature[parameter.name] = _describe(value, (index, ), parameter, constants, values)
    return signature, constants, values


def check_structs(parameters: list, args, kwargs) -> None:
    """LaunchError for the first argument of a launch that is a struct, and no constant."""
    for parameter, value in (*zip(parameters, args), *((one, kwargs[one.name]) for one in parameters if one.name in kwargs)):
        _check_struct(parameter, value)


def _check_struct(parameter, value: Any) -> None:
    if getattr(type(value), "__triton_aggregate__", False) and not parameter.is_constexpr:
        name = parameter.name
        kind = type(value).__name__
        raise LaunchError(f"the argument {name!r} is a {kind}, and a kernel takes no struct from its launch",
                          hint=f"give the fields as arguments, and call {kind}(..) in the kernel; a struct of constants may be "
                               f"given for a parameter `{name}: tl.constexpr`")


def _describe(value, path, parameter, constants, values):
    _check_struct(parameter, value)
    if parameter.is_constexpr or value is None or _is_compile_time(value):
        constants[path] = value
        return "constexpr"
    if isinstance(value, (tuple, list)):
        described = [_describe(item, (*path, i), parameter, constants, values) for i, item in enumerate(value)]
        return like(value, described) if isinstance(value, tuple) else tuple(described)
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        if int(value) == 1 and not parameter.do_not_specialize and not parameter.annotation_type:
            constants[path] = 1
            return "constexpr"
    values[path] = value
    return _type_string(value, parameter)


def _is_compile_time(value) -> bool:
    return is_tritons(type(value)) and not isinstance(value, StockTensorDescriptor) and not _is_gluons(value) or callable(value)


def _is_gluons(value) -> bool:
    """True of a tensor descriptor of Gluon's, which has the layout of its blocks, and says its type itself."""
    return hasattr(value, "block_shape") and hasattr(value, "layout") and hasattr(type(value), "__mangle__")


def _gluons_type(value) -> str:
    """The type as Triton's launcher says it: in im2col mode, where a block has two dimensions, with the rank of the tensor."""
    said = value.__mangle__()
    return said.replace("],", f"],input_rank={len(value.shape)},", 1) if said.startswith("tensordesc_im2col<") else said


def _type_string(value, parameter) -> str:
    if isinstance(value, StockTensorDescriptor):
        check_descriptor(value, f"the tensor descriptor given as {parameter.name!r}")
        block = ",".join(map(str, value.block_shape))
        return f"tensordesc<{element_name(value.base.dtype)}[{block}]>"
    if _is_gluons(value):
        return _gluons_type(value)
    if is_array(value):
        return f"*{'k' if parameter.is_const else ''}{element_name(value.dtype)}"
    if parameter.annotation_type:
        _check_fits(value, parameter.annotation_type, parameter.name)
        return parameter.annotation_type
    if isinstance(value, (bool, np.bool_)):
        return "i1"
    if isinstance(value, (int, np.integer)):
        fitting = [name for name in ("i32", "i64", "u64") if _fits(int(value), name)]
        if not fitting:
            _check_fits(value, "i64" if value < 0 else "u64", parameter.name)
        return fitting[0]
    if isinstance(value, (float, np.floating)):
        return "fp32"
    raise SimulatorMisuse(f"argument {parameter.name!r} is a {type(value).__name__}",
                          hint="pass numpy arrays, torch CPU tensors, numbers, tensor descriptors or tuples of them")


def _fits(value: int, type_: str) -> bool:
    bits = int(type_[1:])
    return 0 <= value < 1 << bits if type_[0] == "u" else -(1 << bits - 1) <= value < 1 << bits - 1


def _check_fits(value, type_: str, name: str) -> None:
    """Refuse a number that a launch could not pass as `type_`: it would come out as another one."""
    if type_ not in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
        return
    if isinstance(value, (float, np.floating)):
        raise SimulatorMisuse(f"argument {name!r} is declared {type_} and was given {value}, which is not a whole number type",
                              hint="pass int(...)")
    if hasattr(value, "__index__") and not _fits(int(value), type_):
        raise SimulatorMisuse(f"argument {name!r} is {value}, which {type_[1:]} bits do not hold",
                              hint="a kernel's widest integers have 64 bits" if type_ in ("i64", "u64") else
                              f"leave out the annotation, or declare it tl.{'u' * (type_[0] == 'u')}int64")
