"""Floor 6: models as files.

Architectures as plain values, the checkpoints of a directory, and full
values in one file; it uses `store` for the bytes and every floor below
`models`. Read `config.py` first.
"""

from meshkeras.saving.checkpoints import delete_checkpoint, latest_checkpoint
from meshkeras.saving.registry import register, registered
from meshkeras.store.commit import wait_for_saves

__all__ = [
    "delete_checkpoint",
    "latest_checkpoint",
    "register",
    "registered",
    "wait_for_saves",
]
