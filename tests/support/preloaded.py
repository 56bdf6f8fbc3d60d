"""All that workers import, once for all tests: see `workers`."""

import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp  # noqa: F401

import tests.support.workers  # noqa: F401
