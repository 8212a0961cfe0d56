"""Files of GPU drivers: facts about a GPU without asking Triton or torch, which take a second or two to import.

    any(map(os.path.exists, AMD_DEVICES))       False: no driver of AMD's, nor any inside WSL

Input and output: none, only names. A driver that has such a file may have no GPU; one that has a GPU has the file.
"""

AMD_DEVICES = ("/dev/kfd", "/dev/dxg")                  # AMD's driver; any driver inside WSL
DEVICES = ("/dev/nvidiactl", *AMD_DEVICES)              # NVIDIA's, too
