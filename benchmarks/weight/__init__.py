"""How heavy the sources are: figures with their goals, counted without Triton. `python -m benchmarks.weight` prints them."""
