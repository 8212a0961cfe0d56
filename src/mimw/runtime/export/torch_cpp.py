"""The C++ file that makes an exported kernel an operator of torch: what AOTInductor's programs call where there is no Python.

Input: the facts of a kernel, its arguments, which of them it writes. Output: the text of NAME_torch.cpp. With NAME.c and NAME.h
it is a library that `torch.ops.load_library` loads, or a C++ program links:

    mimw_export::double(Tensor x, Tensor(a!) y, SymInt n, SymInt grid_x, SymInt grid_y=1, SymInt grid_z=1) -> ()

The grid is an argument, so the program that calls the operator computes it, symbols included. `torch_op` has the same schema.
"""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Described, Number, Pointer
from .facts import Facts

NAMESPACE = "mimw_export"
_GRID = ("grid_x", "grid_y", "grid_z")
# Of Triton's element types, torch's; what is not here is passed as bytes or not at all.
SCALARS = {"i1": "Bool", "u8": "Byte", "i8": "Char", "i16": "Short", "i32": "Int", "i64": "Long", "fp16": "Half",
           "bf16": "BFloat16", "fp32": "Float", "fp64": "Double", "fp8e4nv": "Float8_e4m3fn", "fp8e5": "Float8_e5m2",
           "fp8e4b8": "Float8_e4m3fnuz",
           "fp8e5b16": "Float8_e5m2fnuz", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64"}

_FILE = """\
// {origin} wrote this file, an operator of torch around the launcher of {name}.h; do not edit it.
//
//     {schema}
//
// Build it with {name}.c as a shared library, against torch and CUDA's driver (not its runtime); torch.ops.load_library loads it,
// and a C++ program links it.
#include <torch/library.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/Stream.h>
{included}#include <map>
#include <mutex>
#include "{name}.h"

namespace {{

// A module belongs to a context; torch has one for each device.
const {name}_kernel &loaded(int device) {{
  static std::mutex mutex;
  static std::map<int, {name}_kernel> kernels;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = kernels.find(device);
  if (found == kernels.end()) {{
    {name}_kernel kernel;
    CUresult status = {name}_load(&kernel);
    const char *text = nullptr;
    if (status) cuGetErrorString(status, &text);
    TORCH_CHECK(!status, "{namespace}::{name} cannot be loaded: ", text ? text : "unknown error");
    found = kernels.emplace(device, kernel).first;
  }}
  return found->second;
}}

void check(const at::Tensor &tensor, at::ScalarType type, int64_t rank, int device, const char *name) {{
  TORCH_CHECK(tensor.is_cuda() && tensor.get_device() == device, "{namespace}::{name}: ", name, " is not on device ", device);
  TORCH_CHECK(tensor.scalar_type() == type, "{namespace}::{name}: ", name, " has elements of ", tensor.scalar_type(), ", not ",
              type);
  TORCH_CHECK(rank < 0 || tensor.dim() == rank, "{namespace}::{name}: ", name, " has ", tensor.dim(), " dimensions, not ", rank);
}}

// What is written, as torch has it of its own operators in place: autograd notices a use of the old values.
[[maybe_unused]] void check_written(const at::Tensor &tensor, const char *name) {{
  TORCH_CHECK(!(c10::GradMode::is_enabled() && tensor.requires_grad()), "{namespace}::{name} has no derivative, and ", name,
              " requires grad: call it without recording gradients, or give a clone");
}}

[[maybe_unused]] void note_written(const at::Tensor &tensor) {{
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}}
{described}
// The dispatcher's integers have 64 bits; a number that the kernel's type does not hold is refused, never cut.
template <typename Type>
Type narrow(int64_t value, const char *name) {{
  TORCH_CHECK(value == static_cast<int64_t>(static_cast<Type>(value)), "{namespace}::{name}: ", name, " is ", value,
              ", which its type does not hold");
  return static_cast<Type>(value);
}}

unsigned extent(int64_t value, const char *name) {{
  TORCH_CHECK(value >= 0 && value <= INT32_MAX, "{namespace}::{name}: ", name, " is ", value);
  return static_cast<unsigned>(value);
}}

void on_cuda({parameters}) {{
  TORCH_CHECK({first}.is_cuda(), "{namespace}::{name}: {first} is not on a GPU");
  const c10::DeviceGuard guard({first}.device());
  const int device = {first}.get_device();
{checks}{own_workspace}  const char *problem = {name}_problem({values});
  TORCH_CHECK(!problem, "{namespace}::{name}: ", problem);
  const c10::impl::VirtualGuardImpl streams(at::kCUDA);
  CUstream stream = (CUstream)streams.getStream({first}.device()).native_handle();
  CUresult status = {name}_launch(&loaded(device), stream, {grid}{workspace}, {values});
  const char *text = nullptr;
  if (status) cuGetErrorString(status, &text);
  TORCH_CHECK(!status, "{namespace}::{name} was not launched: ", text ? text : "unknown error");
{noted}}}

void without_data({unnamed}) {{}}

}}  // namespace

TORCH_LIBRARY_FRAGMENT({namespace}, library) {{
  library.def("{short_schema}", {{at::Tag::pt2_compliant_tag}});
}}

TORCH_LIBRARY_IMPL({namespace}, CUDA, library) {{
  library.impl("{name}", on_cuda);
}}

TORCH_LIBRARY_IMPL({namespace}, Meta, library) {{
  library.impl("{name}", without_data);
}}
"""

_DESCRIBED = """
{name}_tensor{rank} described{rank}(const at::Tensor &tensor) {{
  {name}_tensor{rank} found;
  found.data = (CUdeviceptr)tensor.data_ptr();
  for (int axis = 0; axis < {rank}; ++axis) {{
    found.shape[axis] = tensor.size(axis);
    found.strides[axis] = tensor.stride(axis);
  }}
  return found;
}}
"""


def schema(name: str, arguments: Sequence[Argument], written: Sequence[str]) -> str:
    """The operator's schema, without its namespace."""
    aliases, parts = iter("abcdefghijklmnopqrstuvwxyz"), []
    for one in arguments:
        if isinstance(one, Number):
            parts.append(f"{'float' if one.c_type in ('float', 'double') else 'SymInt'} {one.name}")
        else:
            parts.append(f"Tensor({next(aliases)}!) {one.name}" if one.name in written else f"Tensor {one.name}")
    return f"{name}({', '.join([*parts, *(f'SymInt {name}' for name in ('grid_x', 'grid_y=1', 'grid_z=1'))])}) -> ()"


def torch_operator(facts: Facts, arguments: Sequence[Argument], written: Sequence[str], origin: str) -> str:
    """The text of the C++ file.

    errors:    LaunchError for a kernel without arrays, or with an element type or a number that torch does not pass
    """
    short = schema(facts.name, check_for_torch(facts.name, arguments), written)
    arrays = [one for one in arguments if not isinstance(one, Number)]
    changed = [one for one in arrays if one.name in written]
    tensors = sorted({one.rank for one in arrays if isinstance(one, Described)})
    own_workspace = (f"  at::Tensor workspace = at::empty({{(int64_t){facts.name}_scratch_bytes({', '.join(_GRID)})}}, "
               f"{arrays[0].name}.options().dtype(at::kByte));\n" if facts.scratch else "")
    return _FILE.format(
        name=facts.name, namespace=NAMESPACE, origin=origin, schema=f"{NAMESPACE}::{short}", short_schema=short,
        described="".join(_DESCRIBED.format(name=facts.name, rank=rank) for rank in tensors),
        parameters=", ".join([*map(_parameter, arguments), *(f"int64_t {name}" for name in _GRID)]), first=arrays[0].name,
        checks="".join(f"  check({one.name}, at::ScalarType::{SCALARS[one.element]}, "
                       f"{one.rank if isinstance(one, Described) else -1}, device, \"{one.name}\");\n" for one in arrays)
        + "".join(f"  check_written({one.name}, \"{one.name}\");\n" for one in changed),
        noted="".join(f"  note_written({one.name});\n" for one in changed),
        own_workspace=own_workspace, workspace=", (CUdeviceptr)workspace.data_ptr()" if facts.scratch else "",
        unnamed=", ".join([*(_parameter(one).rpartition(" ")[0].replace("int64_t", "c10::SymInt") + " " for one in arguments),
                           *(["c10::SymInt"] * len(_GRID))]),
        included="#include <ATen/ops/empty.h>\n" if facts.scratch else "",
        grid=", ".join(f"extent({name}, \"{name}\")" for name in _GRID), values=", ".join(map(_value, arguments)))


def check_for_torch(name: str, arguments: Sequence[Argument]) -> Sequence[Argument]:
    """The arguments, if an operator of torch can have them; LaunchError otherwise."""
    from ...errors import LaunchError

    if all(isinstance(one, Number) for one in arguments):
        raise LaunchError(f"{name} has no arrays, and an operator of torch without tensors has no device",
                          hint="export it without --torch")
    for one in arguments:
        wrong = one.kind in ("fp16", "bf16") if isinstance(one, Number) else one.element not in SCALARS
        if wrong:
            kind = one.kind if isinstance(one, Number) else f"an array of {one.element}"
            raise LaunchError(f"the argument {one.name!r} of {name} is {kind}, which operators of torch do not take",
                              hint="pass such a number as fp32, such an array as one of bytes")
    return arguments


def _parameter(one: Argument) -> str:
    if isinstance(one, Number):
        return f"{'double' if one.c_type in ('float', 'double') else 'int64_t'} {one.name}"
    return f"const at::Tensor &{one.name}"


def _value(one: Argument) -> str:
    match one:
        case Number():
            floating = one.c_type in ("float", "double")
            return f"({one.c_type}){one.name}" if floating else f"narrow<{one.c_type}>({one.name}, \"{one.name}\")"
        case Pointer():
            return f"(CUdeviceptr){one.name}.data_ptr()"
        case Described():
            return f"described{one.rank}({one.name})"
