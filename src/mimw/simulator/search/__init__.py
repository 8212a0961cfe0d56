"""Schedules: all interleavings of a launch that can matter, and programs with one thing changed."""
