"""The command line: parse, call one plain function, draw, set the exit code."""
