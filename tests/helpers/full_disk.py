"""A stand-in for a full disk."""

import resource
from contextlib import contextmanager


@contextmanager
def largest_file(size):
    """A stand-in for a full disk: writing more than `size` bytes to a file fails with an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
