"""Every collective at 1, 2 and 4 processes against NumPy (B25).

The simulated mesh runs the same operations in this process, against the
same formulas.
"""

import numpy as np
import pytest

from meshkeras.mesh import Mesh
from meshkeras.store import counter_random
from tests.parallel.collective_operations import operations, slices_of
from tests.parallel.collectives_cases import (
  CONSTANT_DTYPES,
  MESHES,
  OF_CONSTANTS,
  SHAPES,
  full_value,
  layout_of,
  run_half_sums,
  run_operation,
  run_places,
  run_random,
  simulated,
  sizes_of,
)

SUITE = "collectives"
ALL_MESHES = [mesh for meshes in MESHES.values() for mesh in meshes]
PARALLEL = [mesh for mesh in ALL_MESHES if mesh not in MESHES[1]]
OPERATIONS = [(mesh, name) for mesh in ALL_MESHES
              for name in operations(sizes_of(mesh))]
ON_PROCESSES = [pair for pair in OPERATIONS if pair[0] in PARALLEL]


def size_of(mesh):
  return int(np.prod(sizes_of(mesh)))


def check(mesh, name, found, dtypes=None):
  """Compares {dtype: [slice by rank]} with the operation's formula."""
  operation = operations(sizes_of(mesh))[name]
  wanted_dtypes = [d for d in operation.dtypes if not dtypes or d in dtypes]
  assert sorted(found) == sorted(wanted_dtypes)
  for dtype in wanted_dtypes:
    wanted = operation.expected(slices_of(size_of(mesh), dtype))
    assert len(found[dtype]) == len(wanted)
    for rank, (got, want) in enumerate(zip(found[dtype], wanted)):
      told = "%s on %s, %s, rank %d" % (name, mesh, dtype, rank)
      assert got.dtype == want.dtype, told
      np.testing.assert_array_equal(got, want, told)


def joined(values):
  """Returns {key: [the one value of each rank]}."""
  return {key: [value[key][0] for value in values] for key in values[0]}


@pytest.mark.parametrize("mesh, name", OPERATIONS)
def test_operation_simulated_equals_numpy(mesh, name):
  found = run_operation(
      operations(sizes_of(mesh))[name], lambda: simulated(mesh),
      size_of(mesh))
  check(mesh, name, found)


@pytest.mark.parametrize("mesh, name", ON_PROCESSES)
def test_operation_on_processes_equals_numpy(by_rank, mesh, name):
  values = by_rank(size_of(mesh), "%s, %s" % (mesh, name))
  check(mesh, name, joined(values))


@pytest.mark.parametrize("mesh", PARALLEL)
@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_operation_of_constants_waits_for_nobody(by_rank, mesh, name):
  values = by_rank(size_of(mesh), "%s, constant %s" % (mesh, name))
  check(mesh, name, joined(values), CONSTANT_DTYPES)


def box_of(mesh, dims, rank):
  """Returns the index of a rank's slice, from sizes alone."""
  sizes = sizes_of(mesh)
  place = dict(zip(Mesh(mesh).axis_names, np.unravel_index(rank, sizes)))
  index = []
  for name, size in dims:
    axis = layout_of(mesh).axis_of(name)
    ways = dict(Mesh(mesh).axes).get(axis, 1)
    begin = place.get(axis, 0) * (size // ways)
    index.append(slice(begin, begin + size // ways))
  return tuple(index)


def places(by_rank, mesh, kind):
  """Returns {what: [value by rank]} of `run_places`."""
  if kind == "simulated":
    return run_places(lambda: simulated(mesh))
  values = by_rank(size_of(mesh), mesh + ", places")
  return joined(values)


BOTH_KINDS = [(mesh, "simulated") for mesh in ALL_MESHES] + [
    (mesh, "processes") for mesh in PARALLEL]


@pytest.mark.parametrize("mesh, kind", BOTH_KINDS)
def test_processor_numbers_count_the_last_axis_fastest(by_rank, mesh, kind):
  found = places(by_rank, mesh, kind)
  size = size_of(mesh)
  assert found["pnum"] == list(range(size))
  coordinates = np.unravel_index(np.arange(size), sizes_of(mesh))
  for axis, wanted in enumerate(coordinates):
    assert found["pcoord %d" % axis] == list(wanted)
  if mesh == "a:2,b:2":
    # [y, x] is cut along b, then a: slice y * 2 + x of rank x * 2 + y.
    assert list(map(int, found["slice_num cut along both"])) == [0, 2, 1, 3]


@pytest.mark.parametrize("mesh, kind", BOTH_KINDS)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool"])
def test_import_export_and_broadcast_keep_values(
    by_rank, mesh, kind, name, dtype):
  found = places(by_rank, mesh, kind)
  dims = SHAPES[name]
  full, key = full_value(dims, dtype), "%s, %s" % (name, dtype)
  new_dims = [("w", 2)] + dims[::-1] + (
      [] if ("y", 4) in dims else [("y", 4)])
  wide = np.transpose(full).reshape(
      [1] + [size for _, size in dims[::-1]] + [1] * (
          len(new_dims) - len(dims) - 1))
  wide = np.broadcast_to(wide, [size for _, size in new_dims])
  for exported in found["export " + key]:
    np.testing.assert_array_equal(exported, full)
  for rank in range(size_of(mesh)):
    np.testing.assert_array_equal(
        found["import " + key][rank], full[box_of(mesh, dims, rank)])
    np.testing.assert_array_equal(
        found["broadcast " + key][rank], wide[box_of(mesh, new_dims, rank)])


@pytest.mark.parametrize("mesh", PARALLEL)
def test_print_says_the_rank_and_its_coordinates(by_rank, launched, mesh):
  assert places(by_rank, mesh, "processes")["Print"] == [7.0] * size_of(mesh)
  output = launched(size_of(mesh)).output()
  for rank in range(size_of(mesh)):
    place = np.unravel_index(rank, sizes_of(mesh))
    coordinates = dict(zip(Mesh(mesh).axis_names, map(int, place)))
    assert "rank %d %s: seen by Print" % (rank, coordinates) in output


@pytest.mark.parametrize("mesh", PARALLEL)
def test_random_values_equal_those_of_one_process_in_every_bit(
    by_rank, mesh):
  wanted = run_random(lambda: simulated("a:1"))
  # The formula itself, in NumPy, at step 5 of seed 0.
  sizes = [size for _, size in SHAPES["cut along both"]]
  np.testing.assert_array_equal(
      wanted["uniform"], counter_random.numpy_step_uniform(
          counter_random.make_key(0, "some"), 5, sizes,
          [(0, size) for size in sizes]))
  assert 0 < np.mean(wanted["mask"] == 0) < 0.6
  assert 2 <= wanted["upstream uniform"].min() < (
      wanted["upstream uniform"].max()) < 3
  simulated_values = run_random(lambda: simulated(mesh))
  for values in by_rank(size_of(mesh), mesh + ", random"):
    for name, want in wanted.items():
      np.testing.assert_array_equal(values[name], want, name)
      np.testing.assert_array_equal(simulated_values[name], want, name)


@pytest.mark.parametrize("mesh, kind", BOTH_KINDS)
def test_half_precisions_are_added_up_in_float32(by_rank, mesh, kind):
  if kind == "simulated":
    found = run_half_sums(lambda: simulated(mesh))
  else:
    found = joined(by_rank(size_of(mesh), mesh + ", half sums"))
  others = size_of(mesh) - 1
  for dtype, large in (("bfloat16", 256), ("float16", 2048)):
    wanted = np.float32(large + others).astype(found[dtype][0].dtype)
    assert [float(v[0]) for v in found[dtype]] == [float(wanted)] * (
        size_of(mesh))
  if size_of(mesh) == 4:
    assert float(found["bfloat16"][0][0]) == 260.0


@pytest.mark.parametrize("num_processes", [2, 4])
def test_host_collectives_give_every_rank_the_same(by_rank, num_processes):
  ranks = range(num_processes)
  for found in by_rank(num_processes, "host collectives"):
    assert found["sum"].tolist() == [1.5 * num_processes, sum(ranks)]
    assert [part.tolist() for part in found["bytes"]] == [
        list(range(3 * rank)) for rank in ranks]
    assert found["objects"] == [{"rank": rank} for rank in ranks]
    assert found["chief"] == "said by 0"
    assert found["none"] == [None] * num_processes
