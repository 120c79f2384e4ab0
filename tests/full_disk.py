"""A disk without room, as far as this process is concerned."""

import contextlib
import resource


@contextlib.contextmanager
def full_disk(room=0):
    """Let the system refuse what this process writes to a file beyond so many bytes, until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))  # Python ignores the signal that comes with a refusal
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
