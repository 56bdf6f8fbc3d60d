"""The learning rate as a function of the step."""

import math

from tfcli.recipe.train import TrainSection


def learning_rate(step: int, train: TrainSection) -> float:
    """The rate of step `step`, counted from 1.

    Rises linearly to the peak over `warmup_steps`; then

    - cosine: falls along a half cosine to peak · final_learning_rate at the last step (Loshchilov and Hutter 2017,
      equation 5, one cycle);
    - linear: falls along a line to the same (Devlin et al. 2019, appendix A.2, to 0);
    - inverse_sqrt: peak · √(warmup / step) (Vaswani et al. 2017, equation 3, with the peak named);
    - constant: stays.
    """
    peak, warmup = train.learning_rate, min(train.warmup_steps, train.steps)
    if step <= warmup:
        return peak * step / warmup
    if train.schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    if train.schedule == "constant":
        return peak
    progress = (step - warmup) / (train.steps - warmup)
    share, left = train.final_learning_rate, 1 - progress
    if train.schedule == "cosine":
        left = (1 + math.cos(math.pi * progress)) / 2
    return peak * (share + (1 - share) * left)
