"""Beam search against greedy decoding, against all texts there are, and against a plain search without tricks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import FIRST, ROLES, ScriptedReader, small_model
from tfcli.generation.beam_search import beam_search, length_penalty, prompt_beams
from tfcli.generation.decoding import Continuation, collect, prompt_tokens
from tfcli.models.transformer import EncoderDecoder, Transformer
from tfcli.recipe.recipe import GenerateSection

ARCHITECTURES = ["decoder", "encoder-decoder"]
Text = tuple[int, ...]


def prompt_of(model: Transformer, body: Sequence[int]) -> list[int]:
    return [*body] if isinstance(model, EncoderDecoder) else [ROLES.bos, *body]


@torch.inference_mode()
def next_logits(model: Transformer, prompt: Sequence[int], text: Text) -> torch.Tensor:
    """By a pass over the whole text without a cache."""
    if isinstance(model, EncoderDecoder):
        return model(torch.tensor([[*prompt, ROLES.eos]]), torch.tensor([[ROLES.bos, *text]]))[0, -1]
    return model(torch.tensor([[*prompt, *text]]))[0, -1]


def log_probability(model: Transformer, prompt: Sequence[int], text: Text) -> float:
    logits = (next_logits(model, prompt, text[:n]) for n in range(len(text)))
    return sum(one.log_softmax(-1)[token].item() for one, token in zip(logits, text, strict=True))


def ranking(score: float, length: int, alpha: float) -> float:
    return score / ((5 + length) / 6) ** alpha


def plain_search(model: Transformer, prompt: Sequence[int], section: GenerateSection, prefix: Text = ()) -> list[Text]:
    """Every extension of every beginning is scored and sorted, and nothing is given up before the last step."""
    start = log_probability(model, prompt, prefix)
    live, ended = [(start, prefix)], list[tuple[float, Text]]()
    for _ in range(section.max_new_tokens - len(prefix)):
        extensions = []
        for value, text in live:
            counted = next_logits(model, prompt, text).log_softmax(-1).tolist()
            tokens = ROLES.eos, *range(FIRST, len(counted))
            extensions += [(value + counted[token], (*text, token)) for token in tokens]
        best, live = sorted(extensions, reverse=True)[: section.beam], []
        for one in best:
            is_over = one[1][-1] == ROLES.eos or len(one[1]) == section.max_new_tokens
            (ended if is_over else live).append(one)
    ended.sort(key=lambda one: -ranking(one[0], len(one[1]), section.length_penalty))
    return [text for _, text in ended[: section.num_samples]]


def ids(found: list[Continuation]) -> list[Text]:
    return [text.token_ids for text in found]


def test_the_length_penalty_by_hand():
    """(5 + 1) / 6 = 1 and (5 + 7) / 6 = 2, to the power 0.6."""
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 0.6) == pytest.approx(1.5157, abs=1e-4)
    assert length_penalty(7, 0.0) == 1


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ARCHITECTURES), st.integers(0, 999), st.integers(0, 2))
def test_a_beam_of_one_is_greedy(architecture: str, seed: int, ngram: int):
    """Without a penalty, which acts on logits there and on log-probabilities here."""
    model = small_model(seed, architecture=architecture)
    section = GenerateSection(temperature=0, max_new_tokens=9, no_repeat_ngram=ngram and ngram + 1)
    prompts = [prompt_of(model, body) for body in ([6], [5, 6, 5, 9])]
    greedy = collect(prompt_tokens(model, prompts, ROLES, section), 2)
    found = [text for (text,) in prompt_beams(model, prompts, ROLES, section)]
    assert ids(found) == ids(greedy)
    assert [text.log_probabilities for text in found] == [pytest.approx(text.log_probabilities) for text in greedy]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([("decoder", ()), ("encoder-decoder", ()), ("encoder-decoder", (7,)), ("encoder-decoder", (7, 5))]),
    st.integers(0, 999),
    st.sampled_from([2, 3, 5]),
    st.sampled_from([0.0, 0.6, 2.0]),
    st.integers(1, 2),
)
def test_it_finds_what_a_plain_search_finds(begun: tuple[str, Text], seed: int, beam: int, alpha: float, count: int):
    architecture, prefix = begun
    model = small_model(seed, architecture=architecture)
    section = GenerateSection(beam=beam, length_penalty=alpha, num_samples=count, max_new_tokens=6)
    prompts = [prompt_of(model, body) for body in ([6], [5, 6, 5])]
    found = prompt_beams(model, prompts, ROLES, section, prefix=prefix)
    assert [ids(texts) for texts in found] == [plain_search(model, prompt, section, prefix) for prompt in prompts]
    for prompt, texts in zip(prompts, found, strict=True):
        expected = [log_probability(model, prompt, text.token_ids) for text in texts]
        assert [text.score for text in texts] == pytest.approx(expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_that_holds_everything_finds_the_best_texts_there_are(architecture: str, alpha: float):
    """Of two ordinary tokens and the end, four at most: 16 texts reach the limit, and 1 + 2 + 4 + 8 end before it."""
    model = small_model(3, architecture=architecture, vocab_size=7)
    texts = list(product((5, 6), repeat=4))
    texts += [(*text, ROLES.eos) for length in range(4) for text in product((5, 6), repeat=length)]
    assert len(texts) == 31
    prompt = prompt_of(model, [5, 6])
    best = sorted(texts, key=lambda text: -ranking(log_probability(model, prompt, text), len(text), alpha))[:5]
    section = GenerateSection(beam=32, num_samples=5, max_new_tokens=4, length_penalty=alpha)
    [found] = prompt_beams(model, [prompt], ROLES, section)
    assert ids(found) == best


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(ARCHITECTURES),
    st.integers(0, 999),
    st.lists(st.lists(st.integers(FIRST, 11), min_size=1, max_size=6), min_size=1, max_size=6),
    st.sampled_from([1.0, 1.5]),
    st.sampled_from([0, 2]),
)
def test_side_by_side_they_are_what_each_is_alone(
    architecture: str, seed: int, bodies: list[list[int]], penalty: float, ngram: int
):
    model = small_model(seed, architecture=architecture)
    section = GenerateSection(
        beam=3, num_samples=2, max_new_tokens=8, repetition_penalty=penalty, no_repeat_ngram=ngram
    )
    prompts = [prompt_of(model, body) for body in bodies]
    together = prompt_beams(model, prompts, ROLES, section)
    alone = [prompt_beams(model, [prompt], ROLES, section)[0] for prompt in prompts]
    assert [ids(texts) for texts in together] == [ids(texts) for texts in alone]


def test_no_ngram_comes_twice_in_any_text_of_the_beam():
    model = small_model(1, architecture="encoder-decoder", vocab_size=8)
    section = GenerateSection(beam=4, num_samples=4, max_new_tokens=12, length_penalty=5)
    [free] = prompt_beams(model, [[5, 6]], ROLES, section)
    [bound] = prompt_beams(model, [[5, 6]], ROLES, replace(section, no_repeat_ngram=2))

    def repeats(text: Text) -> bool:
        pairs = list(pairwise(text))
        return len(pairs) > len(set(pairs))

    assert any(repeats(text.token_ids) for text in free)
    assert not any(repeats(text.token_ids) for text in bound)


@pytest.mark.parametrize(("penalty", "ngram"), [(1.0, 1), (1.0, 2), (1.0, 3), (1.6, 0), (1.6, 2), (0.7, 2)])
def test_the_search_of_transformers_finds_the_same_texts(penalty: float, ngram: int):
    """Without ends, whose definitions differ: every text has all its tokens."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    sizes = {"vocab_size": 14, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, bos_token_id=1, eos_token_id=None)
    torch.manual_seed(7)
    theirs = transformers.LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(20 if parameter.ndim > 1 else 1)

    class Theirs(ScriptedReader):
        """Predicts what they predict."""

        def __init__(self, prompt: list[int]) -> None:
            self.texts, self.limits, self.model = [prompt], [5], None
            self.read_all()

        def read_all(self) -> None:
            with torch.no_grad():
                self.logits = theirs(torch.tensor(self.texts)).logits[:, -1]

        def read(self, ids: torch.Tensor) -> None:
            self.texts = [[*text, token] for text, token in zip(self.texts, ids.tolist(), strict=True)]
            self.read_all()

        def select(self, rows: list[int]) -> None:
            self.texts = [self.texts[row] for row in rows]

    prompt = [ROLES.bos, 6, 9, 6, 7]
    section = GenerateSection(
        beam=4, num_samples=4, length_penalty=0, repetition_penalty=penalty, no_repeat_ngram=ngram
    )
    endless = replace(ROLES, eos=99)
    [ours] = beam_search(Theirs(prompt), endless, section, texts=[prompt])  # type: ignore[arg-type]
    found = theirs.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, 5, dtype=torch.long),
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=5,
        do_sample=False,
        length_penalty=0.0,
        repetition_penalty=penalty,
        no_repeat_ngram_size=ngram,
        suppress_tokens=[0, 1, 3, 4],
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    assert ids(ours) == [tuple(text[5:].tolist()) for text in found.sequences]
    if penalty == 1:
        assert [text.score for text in ours] == pytest.approx(found.sequences_scores.tolist(), rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.sampled_from([(1.0, 1), (1.0, 2), (1.5, 0), (1.5, 2)]))
def test_what_is_ruled_out_rewards_no_text(seed: int, against: tuple[float, int]):
    """Of all texts of three ordinary tokens and the end, by the sum of what each token counts: its log-probability in
    the model, times the penalty where the text holds it already."""
    penalty, ngram = against
    model = small_model(seed, vocab_size=8)
    prompt = [ROLES.bos, 5, 6, 5]

    def counted(text: Text) -> float:
        value = 0.0
        for n, token in enumerate(text):
            held = [*prompt[1:], *text[:n]]
            grams = list(zip(*(held[start:] for start in range(ngram)), strict=False)) if ngram else []
            if ngram and (*held[len(held) - ngram + 1 :], token) in grams:
                return -torch.inf
            own = next_logits(model, prompt, text[:n]).log_softmax(-1)[token].item()
            value += own * penalty if token in held else own
        return value

    texts = list(product((5, 6, 7), repeat=3))
    texts += [(*text, ROLES.eos) for length in range(3) for text in product((5, 6, 7), repeat=length)]
    best = sorted((text for text in texts if counted(text) > -torch.inf), key=counted, reverse=True)[:5]
    section = GenerateSection(
        beam=40, num_samples=5, max_new_tokens=3, length_penalty=0, repetition_penalty=penalty, no_repeat_ngram=ngram
    )
    [found] = prompt_beams(model, [prompt], ROLES, section)
    assert ids(found) == best
    expected = [log_probability(model, prompt, text) for text in best]
    assert [text.score for text in found] == pytest.approx(expected), "the model's own, whatever was counted"


def scripted(table: torch.Tensor, start: int, limit: int) -> ScriptedReader:
    return ScriptedReader(table, torch.tensor([start]), limit=limit)


def search(reader: ScriptedReader, **section: object) -> Continuation:
    [[found]] = beam_search(reader, ROLES, GenerateSection(**section), texts=[()])  # type: ignore[arg-type]
    return found


def test_a_wider_beam_finds_what_greedy_overlooks():
    """5 comes first with 0.6, yet what follows it has 0.5 at best; 6 has 0.4 and then ends for certain.

    5 and end: 0.6 · 0.5 = 0.3. 6 and end: 0.4 · 1 = 0.4.
    """
    table = torch.full((8, 8), -torch.inf)
    table[7, 5], table[7, 6] = torch.tensor(0.6).log(), torch.tensor(0.4).log()
    table[5, 2], table[5, 7] = torch.tensor(0.5).log(), torch.tensor(0.5).log()
    table[6, 2] = 0.0
    assert search(scripted(table, 7, 6), beam=1).token_ids[0] == 5
    wide = search(scripted(table, 7, 6), beam=2)
    assert wide.token_ids == (6, 2)
    assert wide.score == pytest.approx(torch.tensor(0.4).log().item())
    # Where 5 is followed by the end with 0.7, 0.6 · 0.7 = 0.42 is the best of all, though 6 ends the more surely.
    table[5, 2], table[5, 7] = torch.tensor(0.7).log(), torch.tensor(0.3).log()
    wide = search(scripted(table, 7, 6), beam=2)
    assert wide.token_ids == (5, 2)
    assert wide.score == pytest.approx(torch.tensor(0.42).log().item())


def test_a_long_text_can_overtake_one_that_ended_at_once():
    """The end has 0.6 at once: ln 0.6 = −0.51. 5 has 0.4, and then follows itself for certain to the limit.

    Twelve tokens have the penalty (17 / 6)^0.6 = 1.87, and ln 0.4 / 1.87 = −0.49 ranks above −0.51; ten have
    (15 / 6)^0.6 = 1.73 and −0.53. A search that judged the live text by its length so far would give up.
    Without a penalty −0.51 stays the best.
    """
    table = torch.full((7, 7), -torch.inf)
    table[6, 2], table[6, 5], table[5, 5] = torch.tensor(0.6).log(), torch.tensor(0.4).log(), 0.0
    assert search(scripted(table, 6, 12), beam=2).token_ids == (5,) * 12
    assert search(scripted(table, 6, 10), beam=2).token_ids == (2,)
    assert search(scripted(table, 6, 12), beam=2, length_penalty=0).token_ids == (2,)


def test_the_search_stops_when_nothing_can_overtake():
    """The end has 0.99 at once; what is left has 0.01 and cannot catch up within a limit of 50."""
    table = torch.full((7, 7), -torch.inf)
    table[:, 2], table[:, 5] = torch.tensor(0.99).log(), torch.tensor(0.01).log()
    reader = scripted(table, 6, 50)
    assert search(reader, beam=2).token_ids == (2,)
    assert reader.rows_read == []


def test_a_prompt_that_is_settled_leaves_the_others():
    """From 6 the end comes at once. From 7 there are 5 and 6 with ½ each, both in the beam of 2, then the end."""
    table = torch.full((8, 8), -torch.inf)
    table[5, 2], table[6, 2] = 0.0, 0.0
    table[7, 5] = table[7, 6] = torch.tensor(0.5).log()
    reader = ScriptedReader(table, torch.tensor([6, 7]), limit=9)
    section = GenerateSection(beam=2)
    found = beam_search(reader, ROLES, section, texts=[(), ()])
    assert [len(texts[0].token_ids) for texts in found] == [1, 2]
    assert reader.rows_read == [2], "the two beginnings of the second prompt alone"


def test_stop_texts_end_a_text_of_the_beam():
    model = small_model(2, architecture="decoder")
    section = GenerateSection(beam=3, max_new_tokens=9, num_samples=3)
    [free] = prompt_beams(model, [[1, 6]], ROLES, section)
    stop = free[0].token_ids[1]
    [ended] = prompt_beams(model, [[1, 6]], ROLES, section, ends=lambda text: text[-1] == stop)
    assert free[0].token_ids[:2] in ids(ended)
    assert all(stop not in text.token_ids[:-1] for text in ended)


def test_where_nothing_may_follow_a_text_ends_as_it_is():
    """5 has all of the probability, and after it everything has none, which is not a number."""
    table = torch.full((7, 7), -torch.inf)
    table[6, 5] = 0.0
    assert search(scripted(table, 6, 4), beam=2).token_ids == (5,)
    assert search(scripted(torch.full((7, 7), torch.nan), 6, 4), beam=2).token_ids == ()
