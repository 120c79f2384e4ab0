"""Temporary files of tests in memory where there is room: a ledger in a file flushes the disk at every commit."""

import os
import tempfile

MEMORY = "/dev/shm"
ENOUGH = 4 * 2**30
"""Bytes that must be free: a run of all tests leaves one gigabyte at most."""


def use_memory():
    """Let this process and those that it starts put their temporary files there, unless ``TMPDIR`` names a place."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None  # to be read again


def _has_room():
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    runs_programs = not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return runs_programs and os.access(MEMORY, os.W_OK) and found.f_bavail * found.f_frsize >= ENOUGH
