"""The `datasets` library, kept from writing to the terminal."""

import logging
from types import ModuleType


def datasets_library() -> ModuleType:
    """Import `datasets`; what goes wrong is said by our errors, so its own log lines and bars are off."""
    import datasets

    datasets.disable_progress_bars()
    for name in ("datasets", "huggingface_hub", "fsspec"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return datasets
