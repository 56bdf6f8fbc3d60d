"""Where text comes from: files, standard input, the hub, and built-in generators."""
