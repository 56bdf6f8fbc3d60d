"""Bahdanau attention: a recurrent encoder-decoder (RNN) with additive attention (Bahdanau, Cho and Bengio 2015) beside
one without it and a transformer as large, all trained. B batch, S source length, T target length, D size of states."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import PreparedDataset
from tfcli.data.loader import build_batches
from tfcli.errors import UsageError
from tfcli.evaluation.intervals import mean_interval
from tfcli.evaluation.measure import sum_cells
from tfcli.evaluation.windows import Cells, Placed
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import focused
from tfcli.inspection.recurrent import ComparedModel, RecurrentRecord
from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.build import build_model, initialize
from tfcli.models.head import build_head
from tfcli.models.transformer import AttentionWeights, Transformer
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import Recipe
from tfcli.records.arrays import frozen
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.training.job import decide
from tfcli.training.objective import TrainingLoss
from tfcli.training.optimizer import build_optimizers, optimizer_step
from tfcli.training.schedule import learning_rate_factor

_EVERY = 8  # of the held-out batches, one is enough for gradients
_FEWEST = 200  # gradients, for a mean


class RecurrentEncoderDecoder(Transformer):
    """Bahdanau's model; or, where it does not `attend`, one whose decoder knows the source by its first state alone
    (Sutskever et al. 2014). It is asked what an `EncoderDecoder` is, so that one loss, optimizer and evaluation serve
    both. Unlike the paper's, its GRUs have no biases, and a tanh stands for the maxout."""

    def __init__(self, section: ModelSection, d_model: int, *, attends: bool, seed: int) -> None:
        section = replace(section, d_model=d_model, num_heads=1, positions="none", scale_embeddings=True)
        super().__init__(replace(section, initialization="vaswani2017"))
        self.attends, read = attends, 3 * d_model if attends else d_model  # the word before, and the context
        self.embedding = TokenEmbedding(self.section)
        self.encoder = nn.GRU(d_model, d_model, bias=False, batch_first=True, bidirectional=True)
        self.start = nn.Linear(d_model, d_model)  # W_s
        if attends:
            self.query = nn.Linear(d_model, d_model, bias=False)  # W
            self.key = nn.Linear(2 * d_model, d_model, bias=False)  # U
            self.score = nn.Linear(d_model, 1, bias=False)  # vᵀ
        self.decoder = nn.GRUCell(read, d_model, bias=False)
        self.output = nn.Linear(d_model + read, d_model)  # O
        self.head = build_head(self.section, self.embedding.weight)
        draw = torch.Generator().manual_seed(seed)
        initialize(self, self.section, draw)
        for name, matrix in self.named_parameters():
            if "weight_hh" in name:  # from state to state: orthogonal (appendix B.1), a gate at a time
                for gate in matrix.data.chunk(3):
                    nn.init.orthogonal_(gate, generator=draw)

    def hidden(
        self, source: Tensor, target: Tensor, padding_mask: Tensor, weights: AttentionWeights | None = None
    ) -> Tensor:
        """Annotations h_j = [→h_j; ←h_j] (section 3.2), s_0 = tanh(W_s ←h_1) (A.2.2), then token after token, for each
        state needs the one before it: e_ij = vᵀ tanh(W s_{i-1} + U h_j), α_i = softmax(e_i) without padding, c_i =
        Σ_j α_ij h_j (equations 5, 6, A.1.2), s_i = GRU(s_{i-1}, [y_{i-1}; c_i]) (4), and tanh(O [s_i; y_{i-1}; c_i]).

        Shape:
            source, padding_mask (True at real tokens): (B, S); target: (B, T); returns: (B, T, D)
            weights: receives α, (B, 1, T, S), where there is attention
        """
        lengths = padding_mask.sum(1).cpu()
        packed = pack_padded_sequence(self.embedding(source), lengths, batch_first=True, enforce_sorted=False)
        annotations, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(annotations, batch_first=True, total_length=source.shape[1])
        keys = self.key(memory) if self.attends else memory
        state, outputs, looked = torch.tanh(self.start(last[1])), list[Tensor](), list[Tensor]()
        for read in self.embedding(target).unbind(1):
            if self.attends:
                scores = self.score(torch.tanh(self.query(state)[:, None] + keys))[..., 0]
                looked.append(scores.masked_fill(~padding_mask, -torch.inf).softmax(-1))
                read = torch.cat([read, (looked[-1][:, None] @ memory)[:, 0]], -1)
            state = self.decoder(read, state)
            outputs.append(torch.cat([state, read], -1))
        if self.attends and weights is not None:
            weights["cross"] = [torch.stack(looked, 1)[:, None]]
        return torch.tanh(self.output(torch.stack(outputs, 1)))


def compared(
    recipe: Recipe, tokenizer: Tokenizer, data: PreparedDataset, text: str, tell: Callable[[str], None]
) -> RecurrentRecord:
    """Train the three on the same batches; they translate `text`. A UsageError where it is empty, unknown, too long."""
    recipe, words = decide(recipe, tokenizer, data), tokenizer.encode(text)
    train, roles, source = recipe.train, tokenizer.roles, tokenizer.roles.source(words)
    unknown, most = tokenizer.count_unknown(words), recipe.context - len(source) + len(words)
    if unknown or not 0 < len(words) <= most:
        problem = f"The text has {len(words)} tokens, {unknown} of them unknown; the models read 1 to {most} known ones"
        raise UsageError(problem, "give words of builtin:pt-en, such as 'O livro está em cima da mesa.'")
    models: dict[str, Transformer] = {  # of as many parameters, to 2 %
        "RNN": RecurrentEncoderDecoder(recipe.model, 98, attends=False, seed=train.seed),
        "RNN with attention": RecurrentEncoderDecoder(recipe.model, 82, attends=True, seed=train.seed),
        "transformer": build_model(recipe.model, train.seed),
    }
    learners = [(TrainingLoss(model, train), build_optimizers(model, train)) for model in models.values()]
    clock = np.zeros((train.steps, len(models) + 1))
    for step, batch in enumerate(islice(build_batches(recipe, data, "train", roles).training(), train.steps)):
        rate, clock[step, 0] = learning_rate_factor(step + 1, train), time.perf_counter()
        for at, (objective, optimizers) in enumerate(learners, start=1):
            optimizer_step(objective, optimizers, [batch], learning_rate_factor=rate, clip_norm=train.clip_norm)
            clock[step, at] = time.perf_counter()
        tell(f"Training, step {step + 1} of {train.steps}")
    tell("Measuring losses and gradients")
    seconds, placed, pairs = np.median(np.diff(clock), 0).tolist(), list[Placed](), 0
    for batch in build_batches(recipe, data, "validation", roles).whole():
        placed.append(Placed(batch, pairs + np.arange(len(batch.labels))[:, None]))
        pairs += len(batch.labels)
    cells, found = Cells(None, np.arange(pairs), np.arange(pairs), "pairs"), list[ComparedModel]()
    for (name, model), spent in zip(models.items(), seconds, strict=True):
        sums = sum_cells(model, placed, cells, model.device)
        compared_model = ComparedModel(
            name=name,
            parameters=model.num_parameters(),
            loss=sums.total.loss,
            interval=mean_interval(sums.nats, sums.tokens.astype(np.float64)),
            step_seconds=spent,
            gradient=gradients_by_distance(model, [one.batch for one in placed[::_EVERY]]),
            alignment=_alignment(model, tokenizer, source),
        )
        found.append(compared_model)
    return RecurrentRecord(train.steps, train.seed, train.threads, pairs, tuple(found))


def gradients_by_distance(model: Transformer, batches: Iterable[Batch]) -> tuple[tuple[int, float], ...]:
    """Distances j + t + 1 from source word j to output word t, both from 0, by way of the states ←h_j … ←h_0 and s_0 …
    s_t+1, and the root mean square of the gradients there, where there are `_FEWEST` or more; ``</s>`` is no word."""
    found: list[NDArray[np.float64]] = []
    for batch in batches:
        assert batch.padding_mask is not None
        sides = batch.labels != IGNORED, batch.padding_mask
        outputs, words = (there.cumsum(1) < there.sum(1, keepdims=True) for there in sides)
        places = np.nonzero(outputs[:, :, None] & words[:, None])
        found.append(np.stack([places[1] + places[2] + 1, squared_gradients(model, batch)[places]]))
    distance, squares = np.concatenate(found, 1)
    counts, sums = (np.bincount(distance.astype(int), weighed) for weighed in (None, squares))
    return tuple((at, float(sums[at] / counts[at]) ** 0.5) for at in np.flatnonzero(counts >= _FEWEST).tolist())


def squared_gradients(model: Transformer, batch: Batch) -> NDArray[np.float32]:
    """‖∂ logit of label t / ∂ embedding of source token j‖². Shape: (B, T, S)."""
    sides, embedded = (batch.input_ids, batch.decoder_input_ids, batch.padding_mask), list[Tensor]()
    with model.get_submodule("embedding").register_forward_hook(lambda *call: embedded.append(call[-1])):
        logits = model.eval()(*map(torch.as_tensor, sides))
    labels = torch.as_tensor(batch.labels).clamp(min=0)[..., None]
    of_labels = logits.gather(-1, labels).sum((0, 2))  # rows know nothing of each other
    slopes = [torch.autograd.grad(one, embedded[0], retain_graph=True)[0] for one in of_labels]
    return torch.stack([(slope**2).sum(-1) for slope in slopes], 1).numpy()


@torch.inference_mode()
def _alignment(model: Transformer, tokenizer: Tokenizer, source: list[int]) -> AttentionRecord | None:
    """Translate greedily; then where the model looked, the head with the sharpest rows first. None: nowhere."""
    roles, ids, seen = tokenizer.roles, torch.tensor([source]), AttentionWeights()
    target, mask = list(roles.target_prefix), torch.ones_like(ids, dtype=torch.bool)
    while len(target) <= min(model.section.max_seq_len, len(source) + 8) and target[-1] not in roles.ends:
        target.append(int(model(ids, torch.tensor([target]), mask)[0, -1].argmax()))
    model.hidden(ids, torch.tensor([target[:-1]]), mask, weights=seen)
    if not (looked := seen.get("cross")):
        return None
    words, read = (tuple(tokenizer.labels(side)) for side in (target, source))
    weights = frozen(torch.stack([one[0] for one in looked]).numpy(), np.float32)
    return focused(AttentionRecord("cross", words[:-1], read, weights, next_tokens=words[1:]))
