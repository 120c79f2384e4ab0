"""A disk without room, as far as this process is concerned."""

import contextlib
import resource


@contextlib.contextmanager
def full_disk():
    """Let the system refuse whatever this process writes to a file, until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # Python ignores the signal that comes with a refusal
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
