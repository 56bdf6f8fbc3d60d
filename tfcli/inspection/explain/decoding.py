"""Decoding step by step: the stages of sampling as generation itself passes them, beside greedy and beam search. In the
toy, what follows depends on the last token alone. After "will", the probabilities are 8, 4, 2, 1 and 1 sixteenths: at a
temperature of ½ they are squared, 64 : 16 : 4 : 1 : 1. The likeliest first word leads into the less likely text."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.beam_search import beam_search
from tfcli.generation.decoding import Continuation, DecodingStages, collect, decode, prefill
from tfcli.generation.generate import Labels, PromptBatch, beam_tree, settled
from tfcli.generation.sampling import FILTERS
from tfcli.inspection.explain import DecodedPath, DecodingCandidate, DecodingRecord, DecodingStep
from tfcli.inspection.explain.subject import lectures
from tfcli.inspection.passes import Inputs, require_room
from tfcli.models.head import require_head
from tfcli.models.transformer import Decoder, EncoderDecoder
from tfcli.recipe.loading import generation_settings
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import BeamNode, Generated
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun

ROLES = TokenRoles(pad=0, bos=1, eos=2)
TOKENS = ("<pad>", "<s>", "</s>", *(" travel", " stay", " work", " rest", " far", " soon", " alone", " again", " home"))
PROMPT = "Lucas will"


class ToyState:
    """Stands for a `DecodingState` at the beginning of a text of `longest` tokens at most: logits are ln of the
    sixteenths, −∞ where there are none; the end follows wherever nothing else does."""

    model = None

    def __init__(self, longest: int) -> None:
        shares = [lectures()["sixteenths"].get(token, {"</s>": 16}) for token in TOKENS]
        self._table = torch.tensor([[float(row.get(other, 0)) for other in TOKENS] for row in shares]).log()
        self.logits = self._table[ROLES.bos][None]
        self.limits = [longest]

    def read(self, ids: Tensor) -> None:
        """Add one token of (R,) to each text."""
        self.logits = self._table[ids]

    def select(self, rows: list[int]) -> None:
        """Text i becomes a copy of what text `rows[i]` was."""
        self.logits, self.limits = self.logits[rows], [self.limits[row] for row in rows]


CANDIDATES = 8  # shown at every step


def run_settings(run: LoadedRun, given: Mapping[str, Any]) -> GenerateSection:
    """What `tfcli generate` draws with: the recipe's, and over it what is given. A UsageError of what is unfit."""
    settings = generation_settings(run.recipe, {**given, "num_samples": 1})
    sample = None if given.get("temperature") is None else settings.temperature > 0
    drawn = settled(run.model, run.tokenizer, replace(settings, beam=1), sample)
    return replace(drawn, beam=max(2, settings.beam))


def explain_toy_decoding(settings: GenerateSection) -> DecodingRecord:
    """The toy language, whose numbers can be checked by hand."""
    about = {"source": None, "prompt": PROMPT, "vocabulary": len(TOKENS)}

    def labels(ids: Sequence[int]) -> list[str]:
        return [TOKENS[token] for token in ids]

    return _explained(settings, lambda rows: ToyState(settings.max_new_tokens), ROLES, labels, about, texts=[()])


def explain_decoding(run: LoadedRun, prompt: str, settings: GenerateSection) -> DecodingRecord:
    """A run's text behind a prompt, or its translation, by `run_settings`. A UsageError: no decoder, head or room."""
    require_head(run.config.model)
    if not isinstance(run.model, Decoder | EncoderDecoder):
        raise UsageError("An encoder writes no text", "name a decoder or an encoder-decoder, or leave --run out")
    batch, roles = PromptBatch(run.model, run.tokenizer, [prompt], settings, run.recipe.objective), run.config.roles
    if settings.beyond_context == "stop" and isinstance(run.model, Decoder):
        require_room(run, Inputs(decoder=tuple(batch.ids[0])))
    about = {"source": str(run.directory.path), "prompt": prompt, "vocabulary": run.tokenizer.vocab_size}
    read = partial(prefill, batch.model, batch.ids, roles, settings)
    return _explained(settings, read, roles, run.tokenizer.labels, about, texts=[batch.ids[0]], **batch.how)


@torch.inference_mode()
def _explained(
    settings: GenerateSection,
    read: Callable[..., Any],
    roles: TokenRoles,
    labels: Labels,
    about: Mapping[str, Any],
    **how: Any,
) -> DecodingRecord:
    """What follows a text, which `read` reads into so many rows; `about` is recorded, too, `how` is for `decode`."""
    settings = replace(settings, num_samples=1)
    [greedy] = collect(decode(read(rows=1), roles, replace(settings, temperature=0.0), **how), 1)
    # Texts of one length are compared by their probability alone.
    beams, nodes = replace(settings, temperature=0.0, length_penalty=0.0), list[BeamNode]()
    [[best]] = beam_search(read(rows=settings.beam), roles, beams, **how, observe=lambda _, node: nodes.append(node))
    text = "".join(labels([token for token in best.token_ids if token not in roles.ends]))
    found = Generated(about["prompt"], text, best.token_ids, best.score, best.log_probabilities, finish="length")
    new, steps = list[int](), list[DecodingStep]()

    def record(stages: DecodingStages) -> None:
        if len(new) >= len(how.get("prefix", ())):
            steps.append(_step(stages, labels, tuple(labels(new))))
        new.append(int(stages.token_ids[0]))

    collect(decode(read(rows=1), roles, settings, **how, observe=record), 1)
    drawn = {name: getattr(settings, name) for name in _SETTINGS}
    tree = beam_tree(found.prompt, nodes, [found], labels, beams)
    paths = _path("greedy", greedy, labels), _path(f"beam {settings.beam}", best, labels)
    return DecodingRecord(**about, **drawn, steps=tuple(steps), greedy=paths[0], beam=paths[1], tree=tree)


_SETTINGS = ("repetition_penalty", "no_repeat_ngram", "temperature", "top_k", "top_p", "min_p", "seed")


def _path(name: str, text: Continuation, labels: Labels) -> DecodedPath:
    return DecodedPath(name, tuple(labels(text.token_ids)), tuple(map(math.exp, text.log_probabilities)), text.score)


def _step(stages: DecodingStages, labels: Labels, before: tuple[str, ...]) -> DecodingStep:
    """What the step of one text says of its likeliest tokens; `before` are the labels of the new ones before it."""
    logits, allowed, chosen = stages.logits[0], stages.processed[0], int(stages.token_ids[0])
    drawn, possible = stages.probabilities[0].cpu(), int((allowed > -torch.inf).sum())
    ends, uniforms = drawn.double().cumsum(-1), stages.uniforms
    shown = allowed.sort(descending=True, stable=True).indices[: min(CANDIDATES, possible)].tolist()
    if chosen not in shown:
        shown[-1] = chosen
    # Where nothing is drawn, no filter has taken anything away.
    filtered = {name: stages.filtered[name][0] if stages.filtered else allowed for name in FILTERS}
    after = {name: after_it.softmax(-1) for name, after_it in filtered.items()}
    numbers = {"logit": logits, "adjusted": allowed, "probability": logits.softmax(-1), "chance": drawn}
    numbers |= {"begin": (ends - drawn.double()) / ends[-1], "end": ends / ends[-1]}
    filters = [name for name in FILTERS if name != "temperature"]
    candidates = tuple(
        DecodingCandidate(
            token=label,
            token_id=token,
            scaled=None if uniforms is None else float(filtered["temperature"][token]),
            tempered=float(after["temperature"][token]),
            after={f"after_{name}": float(after[name][token]) for name in filters},
            **{name: float(values[token]) for name, values in numbers.items()},
        )
        for token, label in zip(shown, labels(shown), strict=True)
    )
    others, rest = possible - len(candidates), max(0.0, 1.0 - sum(one.probability for one in candidates))
    kept = {f"kept_{name}": int((filtered[name] > -torch.inf).sum()) for name in filters}
    uniform, [label] = None if uniforms is None else float(uniforms[0]), labels([chosen])
    return DecodingStep(before, candidates, others, rest, kept, uniform=uniform, token=label, token_id=chosen)
