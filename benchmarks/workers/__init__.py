"""One program per competitor: reads a data file, fits, prints one line of JSON."""
