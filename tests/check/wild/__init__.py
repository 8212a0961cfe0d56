"""Bugs found in the wild, each as the smallest program of ours with the same mistake, and its mended twin."""
