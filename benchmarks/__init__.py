"""Comparisons with other software, run by hand: not part of the package."""
