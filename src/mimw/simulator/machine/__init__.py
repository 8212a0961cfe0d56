"""What runs: CTAs, tasks and operations in flight, the scheduler that interleaves them, and the errors of a stuck launch."""
