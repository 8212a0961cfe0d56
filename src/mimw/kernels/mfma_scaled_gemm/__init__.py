from .kernel import mfma_scaled_gemm as kernel
