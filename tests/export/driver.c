/* A driver for tests: it prints what it is asked for. `sizes` of the test says how many bytes each of a kernel's parameters has; with
 * SIZES it stands here, for a library that is loaded. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#ifdef SIZES
int sizes[16];
#else
extern const int sizes[];
#endif
int driver_version = 13020, fails = 0;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  printf("load %.4s\n", (const char *)image);
  *module = (CUmodule)16;
  return fails ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  printf("function %s\n", name);
  *function = (CUfunction)32;
  return module == (CUmodule)16 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute name, int value) {
  printf("attribute %d %d\n", name, value);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) { *context = (CUcontext)8; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult status, const char **text) {
  static char told[32];
  snprintf(told, sizeof told, "error %d", (int)status);
  *text = told;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return printf("unload\n") > 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }
CUresult cuDriverGetVersion(int *version) { *version = driver_version; return CUDA_SUCCESS; }

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *data, const cuuint64_t *extents,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  printf("map type %d at %llx:", type, (unsigned long long)data);
  for (unsigned i = 0; i < rank; ++i) printf(" %llu/%u/%u", (unsigned long long)extents[i], box[i], steps[i]);
  for (unsigned i = 0; i + 1 < rank; ++i) printf(" stride %llu", (unsigned long long)strides[i]);
  printf(" %d %d %d %d\n", interleave, swizzle, promotion, fill);
  memset(map, 0xff, sizeof *map);
  return (unsigned long long)map % 64 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *launch, CUfunction function, void **arguments, void **extra) {
  printf("launch %u %u %u of %u %u %u, %u bytes, stream %llu\n", launch->gridDimX, launch->gridDimY, launch->gridDimZ, launch->blockDimX,
         launch->blockDimY, launch->blockDimZ, launch->sharedMemBytes, (unsigned long long)launch->hStream);
  for (unsigned i = 0; i < launch->numAttrs; ++i)
    printf("with %d %u\n", launch->attrs[i].id, launch->attrs[i].value.clusterDim.x);
  for (int i = 0; sizes[i]; ++i) {
    unsigned long long value = 0;
    if (sizes[i] <= 8) memcpy(&value, arguments[i], sizes[i]);
    else value = ((const CUtensorMap *)arguments[i])->opaque[1];
    printf("argument %d %llx\n", sizes[i], value);
  }
  return extra || function != (CUfunction)32 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
