"""TLE-Struct for GPUs: shared memory named, pointed into and copied; partitions that run side by side. `mimw.tle.gpu`."""

__all__: list[str] = []
