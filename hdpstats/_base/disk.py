"""Room on a disk, before it is needed."""

import os


def allocate(number: int, size: int) -> None:
    """Give an open file its room on the disk, or raise an OSError; a file that has it stays as it is."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(number, 0, size)
    elif os.fstat(number).st_size < size:  # macOS
        os.pwrite(number, bytes(size), 0)
        os.fsync(number)
