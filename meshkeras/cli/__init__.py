"""Floor 8: commands, `python -m meshkeras COMMAND`.

They look at checkpoints with `saving` and the floors below, in one process,
and build no model. Read `main.py` first.
"""

__all__ = []
