"""The version of meshkeras, and the versions it was tested with, as data.

Read textually by setup.py and run alone by tools/setup_env.py, before
anything is installed: nothing may be imported here.
"""

__version__ = "0.1.0"

DEFAULT_TENSORFLOW = "2.21.0"
MESH_TENSORFLOW = "0.1.21"
HOROVOD = "0.28.1"

# First and last Python of each TensorFlow release series meshkeras was made
# for. The first and last key are the range which is checked at import.
PYTHONS_OF_TENSORFLOW = {
    "2.15": ("3.9", "3.11"),
    "2.16": ("3.9", "3.12"),
    "2.17": ("3.9", "3.12"),
    "2.18": ("3.9", "3.12"),
    "2.19": ("3.9", "3.12"),
    "2.20": ("3.9", "3.13"),
    "2.21": ("3.10", "3.13"),
}
