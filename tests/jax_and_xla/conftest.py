"""Give JAX eight virtual devices on the CPU, before any test imports it."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
