"""The kernel library, written as an outside user would write it: with public names only."""
