/* A program without Python: scales 80 rows of 64 numbers by -0.5 with the exported kernel, and compares. Prints "ok". */
#include <stdio.h>
#include <stdlib.h>
#include "scale_rows.h"

#define ROWS 80
#define WIDTH 64
#define TRY(call) do { CUresult status = (call); if (status) { printf("%s: status %d\n", #call, (int)status); return 1; } } while (0)

int main(void) {
  static float source[ROWS * WIDTH], target[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; ++i) source[i] = (float)i;
  CUdevice device;
  CUcontext context;
  CUdeviceptr from, to;
  TRY(cuInit(0));
  TRY(cuDeviceGet(&device, 0));
  TRY(cuDevicePrimaryCtxRetain(&context, device));
  TRY(cuCtxSetCurrent(context));
  TRY(cuMemAlloc(&from, sizeof source));
  TRY(cuMemAlloc(&to, sizeof target));
  TRY(cuMemcpyHtoD(from, source, sizeof source));
  TRY(cuMemsetD8(to, 0xff, sizeof target));
  scale_rows_kernel kernel;
  TRY(scale_rows_load(&kernel));
  scale_rows_tensor2 rows = {from, {ROWS, WIDTH}, {WIDTH, 1}};
  for (int i = 0; i < 3; ++i) TRY(scale_rows_launch(&kernel, NULL, scale_rows_GRID_X, 1, 1, rows, to, -0.5f, ROWS));
  TRY(cuMemcpyDtoH(target, to, sizeof target));
  for (int i = 0; i < ROWS * WIDTH; ++i)
    if (target[i] != -0.5f * source[i]) return printf("element %d is %g, not %g\n", i, target[i], -0.5f * source[i]), 1;
  const char *problem = scale_rows_problem(rows, to, -0.5f, ROWS + 1);
  if (!problem || scale_rows_launch(&kernel, NULL, 1, 1, 1, rows, to, -0.5f, ROWS + 1) != CUDA_ERROR_INVALID_VALUE) return 1;
  TRY(scale_rows_unload(&kernel));
  printf("ok\n");
  return 0;
}
