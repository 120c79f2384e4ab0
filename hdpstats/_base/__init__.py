"""What every room stands on: errors, validation of arguments, exact numbers, progress."""
