"""A Python that lacks what ``TFCLI_TEST_WITHOUT`` names: modules, and names of modules, as Windows' Python does.

With this folder in ``PYTHONPATH`` it holds for pytest, its workers and every process that a test starts.
"""

import importlib
import os
import sys
from contextlib import suppress

with suppress(ImportError):
    import portalocker  # noqa: F401 (of sacrebleu: it asks for the system's name, and then for that system's modules)

with suppress(ImportError):
    import psutil  # noqa: F401 (asks in the same way)

for name in os.environ.get("TFCLI_TEST_WITHOUT", "").split():
    module, _, attribute = name.rpartition(".")
    if module:
        delattr(importlib.import_module(module), attribute)
    else:
        sys.modules[name] = None  # type: ignore[assignment]
