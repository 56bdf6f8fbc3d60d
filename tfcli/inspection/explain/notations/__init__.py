"""The symbols of the four lectures, a file each."""
