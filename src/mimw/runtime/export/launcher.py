"""The launcher of an exported kernel in C: it loads the binary, looks at the arguments, encodes descriptors, and calls the driver.

Input: the facts of a kernel, its arguments and its binary. Output: the text of NAME.c, C11, which stands beside NAME.h. It passes
what Triton's own launcher passes, argument by argument (tests/export/test_launcher.py); of a launch with descriptors:

    status = encode(&a_map, a.data, 10, 2, 2, a.shape, a.strides, (const uint32_t[]){64, 64}, 3, 0);
    void *arguments[] = {&a_map, &a_extents[0], &a_extents[1], &a.strides[0], &a.strides[1], &n, &scratch, &stamps};
    return cuLaunchKernelEx(&launch, kernel->function, arguments, NULL);
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .arguments import Argument, Described, Number, Pointer
from .facts import Facts
from .header import parameters

_DEFAULT_SHARED = 48 * 1024     # what a launch may ask for without leave (CUDA C++ Programming Guide, "Shared Memory")
_MOST_ATTRIBUTES = 4

_FILE = """\
/* {origin} wrote this file, the launcher of {name}.h; do not edit it. */
#include "{name}.h"
#include <stddef.h>
#include <string.h>

#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "compile this file as C11 or newer: -std=c11"
#endif

static const _Alignas(16) unsigned char image[] = {{
{image}
}};
{encode}
CUresult {name}_load({name}_kernel *kernel) {{
  CUresult status = cuModuleLoadData(&kernel->module, image);
  if (status) return status;
  status = cuModuleGetFunction(&kernel->function, kernel->module, "{symbol}");
{attributes}  if (status) cuModuleUnload(kernel->module);
  return status;
}}

CUresult {name}_unload({name}_kernel *kernel) {{
  return cuModuleUnload(kernel->module);
}}

const char *{name}_problem({parameters}) {{
{problems}  return NULL;
}}
{scratch_bytes}
CUresult {name}_launch(const {name}_kernel *kernel, CUstream stream, unsigned grid_x, unsigned grid_y, unsigned grid_z{scratch},
{indent}{parameters}) {{
  if ({name}_problem({names})) return CUDA_ERROR_INVALID_VALUE;
  if (!grid_x || !grid_y || !grid_z) return CUDA_SUCCESS;
{maps}  CUlaunchAttribute attributes[{most_attributes}];
  memset(attributes, 0, sizeof attributes);
  CUlaunchConfig launch;
  memset(&launch, 0, sizeof launch);
  launch.gridDimX = grid_x{times};
  launch.gridDimY = grid_y;
  launch.gridDimZ = grid_z;
  launch.blockDimX = {threads};
  launch.blockDimY = launch.blockDimZ = 1;
  launch.sharedMemBytes = {shared};
  launch.hStream = stream;
  launch.attrs = attributes;
{asked}{own_scratch}  CUdeviceptr stamps = 0;
  void *arguments[] = {{{pointers}}};
  return cuLaunchKernelEx(&launch, kernel->function, arguments, NULL);
}}
"""

_ENCODE = """
/* A tensor map as Triton's launcher makes it. `shape` and `strides` are in elements, outermost first; the driver wants them
 * innermost first and in bytes. */
static CUresult encode(CUtensorMap *map, CUdeviceptr data, int type, int rank, int size, const int64_t *shape,
                       const int64_t *strides, const uint32_t *box, int swizzle, int nan, int pairs) {
  cuuint64_t extents[5], steps[5];
  cuuint32_t boxes[5], ones[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < rank; ++i) {
    extents[rank - 1 - i] = (cuuint64_t)shape[i] << (pairs && i == rank - 1);
    boxes[rank - 1 - i] = box[i];
    if (i + 1 < rank) steps[rank - 2 - i] = (cuuint64_t)(strides[i] * size);
  }
  steps[rank - 1] = extents[rank - 1] * (rank == 1 ? (cuuint64_t)size : steps[rank - 2]);
  CUresult status = cuTensorMapEncodeTiled(map, (CUtensorMapDataType)type, (cuuint32_t)rank, (void *)data, extents, steps, boxes,
                                           ones, CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)swizzle,
                                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                           nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                               : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status) return status;
  /* Drivers up to 13.1 mark maps of less than 128 KiB in a way that loses their last bytes; Triton's launcher mends it alike. */
  int driver = 0;
  cuDriverGetVersion(&driver);
  cuuint64_t last = (extents[0] - 1) * (cuuint64_t)size;
  for (int i = 1; i < rank; ++i) last += (extents[i] - 1) * steps[i - 1];
  if (driver <= 13010 && last + 1 < 128 * 1024) map->opaque[1] &= ~((cuuint64_t)1 << 21);
  return CUDA_SUCCESS;
}
"""


def launcher(facts: Facts, arguments: Sequence[Argument], cubin: bytes, origin: str) -> str:
    """The text of the launcher with the binary in it."""
    scratch = facts.scratch > 0
    pointers = [pointer for one in arguments for pointer in _pointers(one)] + ["&scratch", "&stamps"]
    return _FILE.format(
        name=facts.name, symbol=facts.symbol, origin=origin, image=_image(cubin),
        encode=_ENCODE if any(isinstance(one, Described) for one in arguments) else "",
        attributes="".join(f"  if (!status) status = cuFuncSetAttribute(kernel->function, {name}, {value});\n"
                           for name, value in _attributes(facts)),
        parameters=parameters(facts, arguments), names=", ".join(one.name for one in arguments),
        problems="".join(f"  if ({test}) return \"{text}\";\n" for one in arguments for test, text in _problems(one)) + "".join(
            f"  (void){one.name};\n" for one in arguments if not any(_problems(one))),
        scratch=", CUdeviceptr scratch" if scratch else "", scratch_bytes=_scratch_bytes(facts) if scratch else "",
        own_scratch="" if scratch else "  CUdeviceptr scratch = 0;\n", indent=" " * len(f"CUresult {facts.name}_launch("),
        maps="".join(line for one in arguments if isinstance(one, Described) for line in _map(one)),
        most_attributes=_MOST_ATTRIBUTES, asked="".join(_asked(facts)),
        times=f" * {facts.ctas}" if facts.ctas > 1 else "", threads=facts.threads, shared=facts.shared,
        pointers=", ".join(pointers))


def _image(cubin: bytes) -> str:
    return ",\n".join(",".join(map(str, cubin[at:at + 32])) for at in range(0, len(cubin), 32))


def _attributes(facts: Facts) -> Iterator[tuple[str, int]]:
    """The attributes of the function that the driver gets when the binary is loaded."""
    if facts.shared > _DEFAULT_SHARED:
        yield "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", facts.shared
    if not facts.portable:
        yield "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1


def _asked(facts: Facts) -> Iterator[str]:
    """Lines of C with the attributes of each launch, as Triton's launcher has them. Clusters that the launch asked for stand in
    the binary."""
    wanted = []
    if facts.early:
        wanted.append(("PROGRAMMATIC_STREAM_SERIALIZATION", {"programmaticStreamSerializationAllowed": 1}))
    if facts.cooperative:
        wanted.append(("COOPERATIVE", {"cooperative": 1}))
    if facts.ctas > 1:
        wanted.append(("CLUSTER_DIMENSION", {"clusterDim.x": facts.ctas, "clusterDim.y": 1, "clusterDim.z": 1}))
        wanted.append(("CLUSTER_SCHEDULING_POLICY_PREFERENCE",
                       {"clusterSchedulingPolicyPreference": "CU_CLUSTER_SCHEDULING_POLICY_SPREAD"}))
    for index, (name, fields) in enumerate(wanted):
        yield f"  attributes[{index}].id = CU_LAUNCH_ATTRIBUTE_{name};\n"
        for field, value in fields.items():
            yield f"  attributes[{index}].value.{field} = {value};\n"
    yield f"  launch.numAttrs = {len(wanted)};\n"


def _problems(one: Argument) -> Iterator[tuple[str, str]]:
    match one:
        case Pointer(name=name, aligned=True):
            yield f"{name} % 16", f"{name} is an address for which the kernel was not compiled: no multiple of 16"
        case Number(name=name, aligned=True):
            yield f"{name} % 16", f"{name} is a number for which the kernel was not compiled: no multiple of 16"
        case Described(name=name, rank=rank, size=size):
            yield f"!{name}.data || {name}.data % 16", f"the address of {name} is no multiple of 16, or 0"
            for axis in range(rank):
                yield (f"{name}.shape[{axis}] < 1 || {name}.shape[{axis}] > INT32_MAX",
                       f"extent {axis} of {name} is not between 1 and 2147483647")
            for axis in range(rank - 1):
                yield (f"{name}.strides[{axis}] < 0 || {name}.strides[{axis}] * {size} % 16",
                       f"stride {axis} of {name} is negative, or no multiple of 16 bytes")
            yield f"{name}.strides[{rank - 1}] != 1", f"the innermost stride of {name} is not 1"


def _pointers(one: Argument) -> Iterator[str]:
    """The addresses, in C, of the kernel's parameters that an argument stands for: of a tensor its map, its extents and its
    strides."""
    if not isinstance(one, Described):
        yield f"&{one.name}"
        return
    yield f"&{one.name}_map"
    yield from (f"&{one.name}_extents[{axis}]" for axis in range(one.rank))
    yield from (f"&{one.name}.strides[{axis}]" for axis in range(one.rank))


def _map(one: Described) -> Iterator[str]:
    name, box = one.name, ", ".join(map(str, one.box))
    yield f"  CUtensorMap {name}_map;\n"
    yield f"  int32_t {name}_extents[] = {{{', '.join(f'(int32_t){name}.shape[{axis}]' for axis in range(one.rank))}}};\n"
    yield f"  CUresult {name}_status = encode(&{name}_map, {name}.data, {one.code}, {one.rank}, {one.size}, {name}.shape,\n"
    yield f"      {name}.strides, (const uint32_t[]){{{box}}}, {one.swizzle}, {int(one.nan)}, {int(one.pairs)});\n"
    yield f"  if ({name}_status) return {name}_status;\n"


def _scratch_bytes(facts: Facts) -> str:
    return (f"\nsize_t {facts.name}_scratch_bytes(unsigned grid_x, unsigned grid_y, unsigned grid_z) {{\n"
            f"  return (size_t)grid_x * grid_y * grid_z * {facts.ctas * facts.scratch};\n}}\n")
