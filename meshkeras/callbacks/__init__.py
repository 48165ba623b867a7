"""Floor 8: hooks a user chooses, one per file.

Each derives from `Callback` of floor 7 and uses the model through its
public methods only. Read `lambda_callback.py` first.
"""

from meshkeras.callbacks.backup_and_restore import BackupAndRestore
from meshkeras.callbacks.csv_logger import CSVLogger
from meshkeras.callbacks.early_stopping import EarlyStopping
from meshkeras.callbacks.lambda_callback import LambdaCallback
from meshkeras.callbacks.learning_rate_scheduler import LearningRateScheduler
from meshkeras.callbacks.model_checkpoint import ModelCheckpoint
from meshkeras.callbacks.reduce_lr_on_plateau import ReduceLROnPlateau
from meshkeras.callbacks.terminate_on_nan import TerminateOnNaN
from meshkeras.models.hooks import Callback, History

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
]
