"""Every example in a docstring gives what it says."""

import doctest
import importlib

import pytest

from tests.single import source

MODULES = [
    file.module for folder in source.FOLDERS
    for file in source.files_of(folder) if "\n    >>> " in file.text]


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_a_module_are_true(module):
  shown = []
  runner = doctest.DocTestRunner()
  found = doctest.DocTestFinder(exclude_empty=True).find(
      importlib.import_module(module))
  for example in found:
    runner.run(example, out=shown.append)
  results = runner.summarize(verbose=False)
  assert not results.failed, "".join(shown)
  assert results.attempted


def test_most_modules_have_examples():
  assert len(MODULES) > 40
