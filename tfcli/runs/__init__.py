"""Run directories: what a training leaves behind, and how it is loaded."""
