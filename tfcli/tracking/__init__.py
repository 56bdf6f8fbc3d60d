"""Training watched by other programs: TensorBoard, trackio, Weights & Biases. None is loaded before it is asked for."""
