"""Read-only numpy arrays, so that a record cannot be changed by whoever draws it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def frozen(values: Any, dtype: type = np.float32) -> NDArray[Any]:
    """A read-only copy of `values`."""
    array: NDArray[Any] = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array
