"""Learning-rate schedule: warm-up, then a cosine, linear or inverse square root decay, or warm-up, stable, decay."""

import math

from tfcli.recipe.train import TrainSection


def learning_rate(step: int, train: TrainSection) -> float:
    """The rate of step `step`, counted from 1."""
    return train.learning_rate * learning_rate_factor(step, train)


def learning_rate_factor(step: int, train: TrainSection) -> float:
    """The rate of step `step`, counted from 1, as a share of the peak.

    Rises linearly to 1 over `warmup_steps`; then

    - cosine: falls along a half cosine to final_learning_rate (Loshchilov and Hutter 2017, equation 5, one cycle);
    - linear: falls along a line to the same (Devlin et al. 2019, appendix A.2, to 0);
    - inverse_sqrt: √(warmup / step) (Vaswani et al. 2017, equation 3, with the peak named);
    - constant: stays;
    - wsd: stays, and over the last `decay_share` falls along a line (Hu et al. 2024, section 4.2; Hägele et al. 2024).

    The steps are those that the schedule is made for; after them the rate stays."""
    steps = schedule_length(train)
    step, warmup = min(step, steps), min(train.warmup_steps, steps)
    if step <= warmup:
        return step / warmup
    if train.schedule == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / step)
    if train.schedule == "constant":
        return 1.0
    begin = decay_begin(train) if train.schedule == "wsd" else warmup
    if step <= begin:
        return 1.0
    left = 1 - (step - begin) / (steps - begin)
    if train.schedule == "cosine":
        left = (1 - math.cos(math.pi * left)) / 2
    return train.final_learning_rate + (1 - train.final_learning_rate) * left


def decay_begin(train: TrainSection) -> int:
    """The last step that wsd takes at the peak."""
    steps = schedule_length(train)
    return max(min(train.warmup_steps, steps), steps - round(train.decay_share * steps))


def schedule_length(train: TrainSection) -> int:
    """Steps until the rate's last."""
    return min(train.schedule_steps or train.steps, train.steps)
