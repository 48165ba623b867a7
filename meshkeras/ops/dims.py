"""Finding dimensions by name, and the mesh axes that split them."""

from meshkeras.errors import ArgumentError, DimensionError, near_names
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import mtf


def as_shape(dims):
  """Returns an mtf.Shape of dims given as a Shape or (name, size) pairs."""
  if isinstance(dims, mtf.Shape):
    return dims
  return mtf.Shape([mtf.Dimension(str(name), int(size))
                    for name, size in dims])


def find_dim(x, dim, where):
  """Returns the dimension of a tensor that `dim` names.

  Args:
    x: mtf.Tensor or mtf.Shape.
    dim: its name, or a Dimension.
    where: the words that open the error.

  Raises:
    DimensionError: there is none of that name, or it has another size.
  """
  shape = x.shape if isinstance(x, mtf.Tensor) else x
  name = dim if isinstance(dim, str) else dim[0]
  for found in shape.dims:
    if found.name == name:
      if not isinstance(dim, str) and dim[1] != found.size:
        raise DimensionError(
            "%s: dimension %s=%d given, the tensor has [%s]. Use the same "
            "size." % (where, name, dim[1], format_dims(shape.dims)))
      return found
  raise DimensionError(
      "%s: dimension %r given, the tensor has [%s]; %s"
      % (where, name, format_dims(shape.dims),
         near_names(name, shape.dimension_names)))


def find_dims(x, dims, where):
  """Returns the dimensions that `dims`, one or a sequence, names.

  Raises:
    DimensionError: as `find_dim`, or one is named twice.
  """
  if isinstance(dims, str) or (
      isinstance(dims, tuple) and len(dims) == 2
      and isinstance(dims[1], int)):
    dims = [dims]
  found = [find_dim(x, dim, where) for dim in dims]
  if len(set(found)) != len(found):
    raise DimensionError(
        "%s: dimensions [%s] given; each may be named once."
        % (where, format_dims(found)))
  return found


def check_tensor(x, where):
  """Returns x if it is an mtf.Tensor.

  Raises:
    ArgumentError: it is something else.
  """
  if not isinstance(x, mtf.Tensor):
    raise ArgumentError(
        "%s: a value of type %s given; a tensor of the mesh is accepted. "
        "Import it first, or close over it in a function."
        % (where, type(x).__name__))
  return x


def axis_number(x, dim):
  """Returns the position of `dim` among the dimensions of x."""
  shape = x.shape if isinstance(x, mtf.Tensor) else x
  return shape.dims.index(dim)


def mesh_axis_of(impl, dim):
  """Returns the number of the mesh axis that splits `dim`, or None.

  An axis of one processor splits nothing.
  """
  mesh_axis = impl.tensor_dimension_to_mesh_axis(dim)
  if mesh_axis is None or impl.shape[mesh_axis].size == 1:
    return None
  return mesh_axis


def split_axes(impl, dims):
  """Returns the sorted mesh axes that split any of `dims`."""
  axes = {mesh_axis_of(impl, dim) for dim in dims}
  return sorted(axes - {None})


def partial_axes(impl, used, kept):
  """Returns the axes over which a local result is a partial sum.

  Args:
    impl: mesh implementation.
    used: sequence of the shapes that went into the local result.
    kept: the result's shape.

  Returns: sorted list of the axes that split a dimension of `used` and none
    of `kept`: along them, processors hold different summands of one slice.
  """
  axes = set(split_axes(impl, [dim for shape in used for dim in shape.dims]))
  return sorted(axes - set(split_axes(impl, kept.dims)))


def sum_over(impl, laid_out, axes):
  """Returns the sum of slices over mesh axes, not yet reduced."""
  if not axes:
    return laid_out
  return mtf.LazyAllreduceSum(impl, laid_out, list(axes), add_counter_fn=None)


def reduced(lowering, x):
  """Returns the lowered x, reduced if it was a sum that is not."""
  return lowering.tensors[x].to_laid_out_tensor()
