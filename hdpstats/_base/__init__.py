"""What all packages use: errors, validation of arguments, exact numbers, progress."""
