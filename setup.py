"""Packaging: what `pip install .` installs. Nothing else lives here."""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).parent


def _constant(name):
  """Returns a text constant of meshkeras/version.py, without importing it."""
  text = (ROOT / "meshkeras" / "version.py").read_text("utf-8")
  return re.search(r'^%s = "(.*)"$' % name, text, re.MULTILINE).group(1)


setuptools.setup(
    name="meshkeras",
    version=_constant("__version__"),
    description="Keras's fit on a mesh of processes: Mesh TensorFlow over "
    "Horovod, the same numbers on any number of processes and any layout",
    python_requires=">=3.9",
    packages=setuptools.find_packages(include=["meshkeras", "meshkeras.*"]),
    install_requires=[
        "tensorflow>=2.15,<2.22",
        "mesh-tensorflow==" + _constant("MESH_TENSORFLOW"),
        "absl-py",
        "numpy",
        # CRC-32 at the speed of memory; zlib's stands in where it is missing.
        "isal; platform_machine in 'x86_64 AMD64 aarch64 arm64'",
    ],
    extras_require={
        # Compiled against the TensorFlow that is installed: see
        # tools/install_horovod.py, which builds a wheel that fits.
        # On Python 3.12 and later horovodrun needs setuptools' distutils.
        "horovod": ["horovod==" + _constant("HOROVOD"), "setuptools<81"],
        "examples": ["scikit-learn"],
        "dev": ["pytest", "pytest-timeout", "ruff", "safetensors",
                "scikit-learn"],
    },
)
