"""Jobs that crash, hang, lose their device, or are good, for the test of the workers: next to nothing to import.

    misbehave("hang")       a job; its result is a dictionary, if it has one
"""

import os
import time


def misbehave(job: str) -> dict:
    """What happens to a worker at `job`."""
    if job == "crash":
        os._exit(139)
    if job == "hang":
        time.sleep(600)
    return {"job": job, "process": os.getpid(), "lost": job == "lost"}
