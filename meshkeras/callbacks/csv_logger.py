"""The numbers of each epoch in a text file."""

import csv
import os

from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback

MISSING = "NA"


class CSVLogger(Callback):
  """Writes one line per epoch: the epoch, then its logs by name.

  Process 0 writes; the others do not touch the file. Each line is on disk
  before the next epoch begins. Where a later epoch has a name that the
  first had not (validation every second epoch), the file is written anew
  with one more column, and "NA" where there is no value.

  Args:
    filename: path of the file.
    separator: what stands between two values.
    append: continue a file that is there, instead of replacing it.

  Raises:
    ArgumentError: the file cannot be written, or is none of ours.
  """

  def __init__(self, filename, separator=",", append=False):
    self.filename = os.fspath(filename)
    self.separator = separator
    self.append = append
    self._columns = ["epoch"]
    self._lines = []

  def on_train_begin(self, logs=None):
    if not self.is_chief:
      return
    self._columns, self._lines = ["epoch"], []
    if self.append and os.path.exists(self.filename):
      self._read()
    self._write()

  def on_epoch_end(self, epoch, logs=None):
    if not self.is_chief:
      return
    logs = logs or {}
    new_columns = sorted(set(logs) - set(self._columns))
    line = dict(logs, epoch=epoch)
    self._lines.append(line)
    if new_columns:
      self._columns += new_columns
      self._write()
    else:
      self._write([line], mode="a")

  def _read(self):
    with open(self.filename, newline="", encoding="utf-8") as file:
      reader = csv.DictReader(file, delimiter=self.separator)
      columns = list(reader.fieldnames or self._columns)
      if columns[0] != "epoch":
        raise ArgumentError(
            "CSVLogger: append=True with the file %r given, whose first "
            "column is %r; accepted is one that begins with 'epoch'. Choose "
            "another file, or append=False." % (self.filename, columns[0]))
      self._columns, self._lines = columns, list(reader)

  def _write(self, lines=None, mode="w"):
    try:
      with open(self.filename, mode, newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, self._columns, restval=MISSING, delimiter=self.separator,
            lineterminator="\n")
        if lines is None:
          # Without an epoch yet, the columns are not known either.
          if len(self._columns) > 1:
            writer.writeheader()
          lines = self._lines
        writer.writerows(lines)
    except OSError as error:
      raise ArgumentError(
          "CSVLogger: file %r cannot be written (%s); accepted is a path in "
          "a directory that exists and can be written. Change filename."
          % (self.filename, error)) from error
