"""Generation from a run: prompts in, texts out, one token at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Unpack

from tfcli.data.denoising import find_sentinels
from tfcli.errors import UsageError, shortened
from tfcli.generation import decoding
from tfcli.generation.beam_search import continuations, prompt_beams
from tfcli.generation.chat_prompt import chat_ids
from tfcli.generation.classification import read_for_task, told_of
from tfcli.generation.fill_mask import CANDIDATES, fill_all, masked
from tfcli.generation.sampling import ruled_out
from tfcli.generation.stopping import StopTexts, stop_finder
from tfcli.models.transformer import Decoder, Encoder, EncoderDecoder, Transformer
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import BeamNode, BeamTree, Filled, Generated, Option, Told, Trace, TraceStep
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

Ids = Sequence[int]  # of tokens


def prompt_ids(
    model: Transformer, tokenizer: Tokenizer, prompt: str, settings: GenerateSection, objective: str | None = None
) -> list[int]:
    """``<s> prompt`` for a decoder, begun as its texts are; the bare source for an encoder-decoder, ended later. What
    stands for spans, by the run's `objective`, is read by its spelling. A `UsageError` where the prompt is empty, lacks
    a sentinel that such a run fills, or the chat template refuses it."""
    roles = tokenizer.roles
    if settings.chat:
        messages = [{"role": "user", "content": prompt}]
        if settings.system:
            messages.insert(0, {"role": "system", "content": settings.system})
        ids = chat_ids(tokenizer, messages, special_tokens=settings.special_tokens)
    elif objective == "infilling":
        ids = tokenizer.encode_masked(prompt)
    elif objective == "span-corruption":
        ids = tokenizer.encode_special(prompt)
        first, *others = find_sentinels(tokenizer.token_id)
        given = [one for one in ids if one in (first, *others)]
        if not given or given != [first, *others][: len(given)]:
            name = tokenizer.labels([first])[0]
            missing = f"The prompt {shortened(prompt)!r} has no {name}, and this run fills sentinels"
            problem = "The sentinels of the prompt are not in their order" if first in given else missing
            raise UsageError(problem, f"put {name}, and then the next ones, where text is missing: 'the {name} sat'")
    else:
        ids = tokenizer.encode_special(prompt) if settings.special_tokens else tokenizer.encode(prompt)
    if isinstance(model, Decoder):
        begun = roles.text_prefix
        # A template writes itself what a text begins with, and so may whoever types special tokens.
        is_begun = settings.chat or (settings.special_tokens and begun and tuple(ids[: len(begun)]) == begun)
        read = ids if ids and is_begun else roles.prompt(ids)
        if not read:
            raise UsageError("The prompt is empty, and no token of this run begins a text", "give it a text")
        return read
    if not ids:
        raise UsageError(f"The prompt {prompt!r} is empty, and this run translates", "give it a sentence")
    return ids


def prefix_ids(model: Transformer, tokenizer: Tokenizer, settings: GenerateSection) -> list[int]:
    """What every translation begins with; nothing for a decoder. A `UsageError` where it alone takes as many tokens as
    a text may get or the context holds, or it holds a stop text."""
    ids = tokenizer.encode(settings.prefix) if isinstance(model, EncoderDecoder) else []
    before, context, most = len(tokenizer.roles.target_prefix), model.section.max_seq_len, settings.max_new_tokens
    problem = f"The prefix has {len(ids)} tokens, and {{}} leaves no room for more"
    if len(ids) >= most:
        raise UsageError(problem.format(f"max_new_tokens = {most}"), "shorten it, or raise the limit")
    if settings.beyond_context == "stop" and before + len(ids) > context:
        where = f"the model's context of {context}"
        raise UsageError(problem.format(where), f"shorten it to {context - before} tokens at most")
    found = [stop for stop in settings.stop if stop in settings.prefix]
    if ids and found:
        raise UsageError(f"The stop text {found[0]!r} is in the prefix itself", "choose another one")
    return ids


def require_prompt(run: LoadedRun, prompt: str, settings: GenerateSection) -> None:
    """Refuse a prompt that does not fit, as making something of it would, without making anything of it."""
    model, tokenizer = run.model, run.tokenizer
    if run.recipe.train.task is not None:
        read_for_task(run, prompt, settings.question)
    elif isinstance(model, Encoder):
        masked(model, tokenizer, prompt)
    else:
        assert isinstance(model, Decoder | EncoderDecoder)
        ids = prompt_ids(model, tokenizer, prompt, settings, run.recipe.objective)
        decoding.read_of(model, [ids], tokenizer.roles, settings)


def settled(model: Transformer, tokenizer: Tokenizer, settings: GenerateSection, draws: bool | None) -> GenerateSection:
    """The settings once it is clear whether one `draws` (None: a decoder does, an encoder-decoder not): where not, the
    temperature is 0. A `UsageError` where they contradict each other or the vocabulary says what would fit."""
    if settings.top_k > tokenizer.vocab_size:
        problem = f"top_k = {settings.top_k} is above the vocabulary's {tokenizer.vocab_size} tokens"
        raise UsageError(problem, f"choose {tokenizer.vocab_size} at most, or 0 for all")
    if settings.chat and tokenizer.chat is None:
        problem = "The run has no chat template, as imported chat models bring along"
        raise UsageError(problem, "leave --chat out, or import it again")
    if settings.system and not settings.chat:
        raise UsageError("--system is a part of a chat, and there is none", "add --chat")
    if settings.beam > 1 and draws and settings.temperature > 0:
        problem = f"A beam of {settings.beam} draws no samples, as temperature = {settings.temperature:g} asks"
        raise UsageError(problem, "give one of the two")
    if 1 < settings.beam < settings.num_samples:
        problem = f"A beam of {settings.beam} cannot give {settings.num_samples} texts"
        raise UsageError(problem, "raise the beam to their number")
    prefix_ids(model, tokenizer, settings)
    samples = isinstance(model, Decoder) if draws is None else draws
    return settings if samples else replace(settings, temperature=0.0)


class PromptBatch:
    """Prompts for a decoder or an encoder-decoder, by `settled` settings. Raises what `prompt_ids` raises."""

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        prompts: Sequence[str],
        settings: GenerateSection,
        objective: str | None = None,
    ) -> None:
        assert isinstance(model, Decoder | EncoderDecoder)
        self.prompts = prompts
        self.ids = [prompt_ids(model, tokenizer, prompt, settings, objective) for prompt in prompts]
        self._tokenizer, self._settings = tokenizer, settings
        self._named = find_sentinels(tokenizer.token_id) if objective == "span-corruption" else ()
        self._continued = decoding.continued(model, self.ids, tokenizer.roles)
        ends = stop_finder(tokenizer, settings.stop, self._continued)
        self.how = decoding.Forced(prefix=prefix_ids(model, tokenizer, settings), ends=ends)
        self.model, self.asked = model, (model, self.ids, tokenizer.roles, settings)

    def text(self, number: int) -> "GrowingText":
        """A text of a prompt, to grow."""
        return GrowingText(self._tokenizer, self.prompts[number], self._continued[number], self._settings, self._named)

    def record(self, number: int, found: decoding.Continuation) -> Generated:
        """A text that has been found as a whole."""
        return self.text(number).whole(found.token_ids, found.log_probabilities)


class GrowingText:
    """One text behind a prompt, streamed: what `push` and `finish` return is together the text of the record.
    `before` are the ids of what is continued; empty for a translation. Special tokens but the `named` are no text."""

    def __init__(
        self, tokenizer: Tokenizer, prompt: str, before: Ids, settings: GenerateSection, named: Ids = ()
    ) -> None:
        self._named = frozenset(named)
        self._tokenizer, self._prompt, self._settings = tokenizer, prompt, settings
        self._stream, self._stops = tokenizer.stream(before), StopTexts(settings.stop)
        self._ids: list[int] = []
        self._log_probabilities: list[float] = []
        self._text = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop text has appeared: the text is whole, and later tokens do not belong to it."""
        return self._stops.stopped

    def push(self, token_id: int, log_probability: float) -> str:
        """The text that a token brings: never half a character, nor what may become or follows a stop text."""
        if self.stopped:
            return ""
        self._ids.append(token_id)
        self._log_probabilities.append(log_probability)
        if token_id in self._tokenizer.roles.ends:
            return ""  # nothing of the text, even where it has letters
        is_named = token_id in self._named
        new = self._stream.finish() + self._tokenizer.labels([token_id])[0] if is_named else self._stream.push(token_id)
        return self._kept(self._stops.push(new))

    def finish(self) -> str:
        """What has been held back."""
        return self._kept(self._stops.push(self._stream.finish()) + self._stops.finish())

    def whole(self, token_ids: Iterable[int], log_probabilities: Iterable[float]) -> Generated:
        """The record of all that these tokens bring."""
        for token_id, log_probability in zip(token_ids, log_probabilities, strict=True):
            self.push(token_id, log_probability)
        self.finish()
        return self.record()

    def record(self) -> Generated:
        """The text so far; as a whole once it is finished."""
        ids, each = tuple(self._ids), tuple(self._log_probabilities)
        finish = decoding.finish_of(ids, self._tokenizer.roles, self._settings.max_new_tokens, stopped=self.stopped)
        return Generated(self._prompt, self._text, ids, score=sum(each), log_probabilities=each, finish=finish)

    def _kept(self, piece: str) -> str:
        self._text += piece
        return piece


Made = list[Generated] | Filled | Told


def generate(run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None) -> Made:
    """What the run makes of a prompt: `num_samples` texts, of beams the best first, the filled masks of an encoder, or
    what a task head tells of it; a `UsageError` where the prompt or a setting does not fit the model. `sample`: whether
    to, at `settings.temperature`; None: a decoder does, an encoder-decoder not."""
    return next(generate_all(run, [prompt], settings, sample=sample))


def generate_all(
    run: LoadedRun, prompts: Iterable[str], settings: GenerateSection, *, sample: bool | None = None
) -> Iterator[Made]:
    """As `generate`, each as it would be alone; `settings.batch_size` are read side by side and no more are taken."""
    settings = settled(run.model, run.tokenizer, settings, sample)
    waiting = iter(prompts)
    while batch := list(islice(waiting, settings.batch_size)):
        if run.recipe.train.task is not None:
            yield from told_of(run, batch, settings.question)
        elif isinstance(run.model, Encoder):
            yield from fill_all(run.model, run.tokenizer, batch, settings.top_k or CANDIDATES, joint=settings.joint)
        else:
            texts = PromptBatch(run.model, run.tokenizer, batch, settings, run.recipe.objective)
            found = continuations(*texts.asked, **texts.how)
            yield from ([texts.record(number, one) for one in of_it] for number, of_it in enumerate(found))


def stream(
    run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None
) -> Iterator[str | Generated]:
    """One text piece by piece, none of which ends in half a character or in what may become a stop text, and then the
    whole as a record. The prompt is read before this returns. `num_samples` and `beam` are for `generate`."""
    assert not isinstance(run.model, Encoder), "an encoder fills masks: there is nothing to stream"
    batch = _one_text(run, prompt, settings, sample)
    return _pieces(batch.text(0), decoding.prompt_tokens(*batch.asked, **batch.how))


def _one_text(run: LoadedRun, prompt: str, settings: GenerateSection, sample: bool | None) -> PromptBatch:
    settings = replace(settled(run.model, run.tokenizer, settings, sample), num_samples=1, beam=1)
    return PromptBatch(run.model, run.tokenizer, [prompt], settings, run.recipe.objective)


def _pieces(text: GrowingText, tokens: Iterable[decoding.NewToken]) -> Iterator[str | Generated]:
    for token in tokens:
        if piece := text.push(token.token_id, token.log_probability):
            yield piece
        if text.stopped:
            break
    if piece := text.finish():
        yield piece
    yield text.record()


def translate(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    roles: TokenRoles,
    settings: GenerateSection,
    batch_size: int = 64,
    **forced: Unpack[decoding.Forced],
) -> list[list[int]]:
    """The best text of a beam search for every source, or of greedy decoding where the beam is 1: token ids without
    bos and eos, as the sources are. A `UsageError` where a source is longer than the context. Nothing is sampled,
    whatever the `settings` say; `batch_size` counts the hypotheses that are read side by side."""
    settings = replace(settings, temperature=0.0, num_samples=1)
    found: list[list[int]] = [[] for _ in sources]
    longest_first = iter(sorted(range(len(sources)), key=lambda number: len(sources[number]), reverse=True))
    while numbers := list(islice(longest_first, max(1, batch_size // settings.beam))):
        texts = continuations(model, [sources[number] for number in numbers], roles, settings, **forced)
        for number, [text] in zip(numbers, texts, strict=True):
            found[number] = [token for token in text.token_ids if token not in roles.ends]
    return found


OPTIONS = 8  # candidates of every step; the more of them, the wider the terminal that shows them all
Labels = Callable[[Ids], list[str]]  # a tokenizer's labels of token ids


def trace(run: LoadedRun, prompt: str, settings: GenerateSection, *, sample: bool | None = None) -> Trace:
    """The first text that `generate` makes without beams, with what else could have come at each of its steps."""
    batch = _one_text(run, prompt, settings, sample)
    roles, labels = run.tokenizer.roles, run.tokenizer.labels
    steps = list[TraceStep]()
    tokens = decoding.prompt_tokens(*batch.asked, lambda one: steps.append(trace_step(one, roles, labels)), **batch.how)
    *_, generated = _pieces(batch.text(0), tokens)
    assert isinstance(generated, Generated)
    return Trace(generated, tuple(steps))


def trace_step(stages: decoding.DecodingStages, roles: TokenRoles, labels: Labels, options: int = OPTIONS) -> TraceStep:
    """A step of one text: its likeliest tokens under the model, the chosen one last if it is none; each has a label."""
    logits, probabilities, chosen = stages.logits[0], stages.logits.softmax(-1)[0], int(stages.token_ids[0])
    nameless = roles.without_token(len(logits))
    best = (logits + ruled_out(nameless, logits)).topk(min(options, len(logits) - len({*nameless}))).indices.tolist()
    if chosen not in best:
        best[-1] = chosen
    found = zip(best, labels(best), probabilities[best].tolist(), stages.probabilities[0, best].tolist(), strict=True)
    shown = {token_id: Option(token_id, *of_it) for token_id, *of_it in found}
    taken = shown[chosen]
    return TraceStep(chosen, taken.token, taken.probability, taken.chance, tuple(shown.values()))


def beams(run: LoadedRun, prompt: str, settings: GenerateSection) -> BeamTree:
    """The beam search that `generate` makes its texts with."""
    settings = settled(run.model, run.tokenizer, settings, draws=False)
    batch = PromptBatch(run.model, run.tokenizer, [prompt], settings, run.recipe.objective)
    nodes: list[BeamNode] = []
    [found] = prompt_beams(*batch.asked, **batch.how, observe=lambda _, node: nodes.append(node))
    texts = [batch.record(0, continuation) for continuation in found]
    return beam_tree(prompt, nodes, texts, run.tokenizer.labels, settings)


def beam_tree(
    prompt: str, nodes: Sequence[BeamNode], texts: Sequence[Generated], labels: Labels, settings: GenerateSection
) -> BeamTree:
    """The whole tree with labels and the way to the best text, the first; `nodes` as `beam_search` told `observe`."""
    numbered, chosen = {(node.parent, node.token_id): n for n, node in enumerate(nodes)}, list[int]()
    for token_id in texts[0].token_ids:
        chosen.append(numbered[chosen[-1] if chosen else None, token_id])
    named = zip(nodes, labels([node.token_id for node in nodes]), strict=True)
    drawn = tuple(replace(node, token=label, chosen=n in chosen) for n, (node, label) in enumerate(named))
    return BeamTree(prompt, settings.beam, settings.length_penalty, drawn, tuple(texts))
