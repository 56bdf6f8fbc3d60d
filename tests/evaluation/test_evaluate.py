"""A run scored on the whole of its validation part."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch
from torch.nn import functional as F

from tests.pipeline.corpora import write_pairs, write_text
from tests.support.checkpoints import save_checkpoint
from tests.support.fakes import FakeDivision, as_any, pairs
from tests.support.runs import ARCHITECTURES, Events, tiny_recipe, train_tiny
from tfcli.data.dataset import PreparedDataset
from tfcli.data.loader import build_batches
from tfcli.data.prepare import prepare
from tfcli.errors import UsageError
from tfcli.evaluation import translation as module
from tfcli.evaluation.evaluate import buckets, evaluate
from tfcli.evaluation.measure import measure, total_loss
from tfcli.interop.importing import import_run
from tfcli.pipeline.datasets import dataset_for_evaluation, dataset_of_run, obtain_data, original_targets
from tfcli.records.runs import Evaluated
from tfcli.runs.load import LoadedRun, load_run

CPU = torch.device("cpu")


def nothing(event: object) -> None:
    """Receives what nobody looks at."""


def of_run(run: LoadedRun) -> PreparedDataset:
    return dataset_of_run(run.directory, run.recipe, nothing)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scores_are_those_of_training_and_cover_everything(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    data = of_run(run)
    scores = evaluate(run, data)
    record = data.record()
    batches = build_batches(run.recipe, data, "validation", run.config.roles)
    totals = total_loss(run.model, batches.whole(), CPU)
    assert scores.loss == pytest.approx(totals.loss, rel=1e-5), "larger batches change nothing"
    assert scores.tokens == totals.tokens
    assert scores.accuracy == pytest.approx(totals.accuracy)
    assert scores.perplexity == pytest.approx(math.exp(scores.loss))
    assert (scores.documents, scores.sources) == (record.validation.documents, record.sources)
    assert (scores.run, scores.objective) == (str(trained(architecture)), run.config.model.objective)
    assert scores.left_out == 0
    assert sum(bucket.documents for bucket in scores.buckets) == record.validation.documents
    low, high = scores.intervals.loss or (math.nan, math.nan)
    assert low < scores.loss < high
    if architecture == "encoder":
        assert scores.bits_per_byte is None, "a masked model's nats cover no text"
    else:
        bits = scores.loss * scores.tokens / math.log(2)
        assert scores.bits_per_byte == pytest.approx(bits / record.validation.bytes, rel=1e-6)
    translated = [scores.bleu, scores.chrf, scores.exact_match, scores.signature]
    assert all((value is None) == (architecture != "encoder-decoder") for value in translated)


def test_what_training_said_is_what_evaluation_says(trained: Callable[[str], Path]):
    """The best line of metrics.jsonl is the score of model.safetensors."""
    from tfcli.runs.metrics import read_metrics

    for architecture in ARCHITECTURES:
        run = load_run(trained(architecture))
        lines = [line for line in read_metrics(run.directory.metrics) if line["event"] == "evaluated"]
        best = min(lines, key=lambda line: line["loss"])
        scores = evaluate(run, of_run(run))
        assert (scores.loss, scores.accuracy) == pytest.approx((best["loss"], best["accuracy"]), rel=1e-4)


def test_a_character_model_by_hand(tmp_path: Path, trained: Callable[[str], Path]):
    """One document in one window: every letter and </s> are scored, each by its own prediction. ASCII
    letters are bytes, so bits per byte are bits over the letters of the text."""
    run = load_run(trained("decoder"))
    (tmp_path / "text.txt").write_text("the cat sat here")
    scores = evaluate(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), nothing))
    roles = run.config.roles
    ids = [roles.bos, *run.tokenizer.encode("the cat sat here"), roles.eos]
    with torch.no_grad():
        log_p = F.log_softmax(run.model(torch.tensor([ids[:-1]]))[0], dim=-1)
    nats = -sum(log_p[place, token].item() for place, token in enumerate(ids[1:]))
    hits = sum(int(log_p[place].argmax()) == token for place, token in enumerate(ids[1:]))
    assert (scores.tokens, scores.documents) == (17, 1)
    assert scores.loss == pytest.approx(nats / 17, rel=1e-5)
    assert scores.accuracy == pytest.approx(hits / 17)
    assert scores.bits_per_byte == pytest.approx(nats / math.log(2) / 16, rel=1e-5)


def test_bytes_are_bytes_and_not_letters(tmp_path: Path, trained: Callable[[str], Path]):
    """é is two bytes: the text has 16 letters and 18 bytes."""
    run = load_run(trained("decoder"))
    (tmp_path / "text.txt").write_text("thé cat sat hére", encoding="utf-8")
    scores = evaluate(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), nothing))
    bits = scores.loss * scores.tokens / math.log(2)
    assert (scores.bytes, scores.characters) == (18, 16)
    assert scores.bits_per_byte == pytest.approx(bits / 18, rel=1e-6)
    assert scores.bits_per_character == pytest.approx(bits / 16, rel=1e-6)


def test_letters_that_the_tokenizer_does_not_know_are_counted(tmp_path: Path, trained: Callable[[str], Path]):
    """A word of a strange alphabet in a text of 16 letters: three unknown tokens, and the text's bytes all the same."""
    run = load_run(trained("decoder"))
    (tmp_path / "text.txt").write_text("the cat sat ДЖЯ")
    scores = evaluate(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), nothing))
    assert (scores.unknown, scores.tokens, scores.characters, scores.bytes) == (3, 16, 15, 18)


def test_the_share_on_ids_without_a_token_is_told(tmp_path: Path):
    """Weights of zeros make all 269 ids of the model equally likely, and three of them have no token."""
    import_run(str(save_checkpoint(tmp_path / "checkpoint", "llama")), tmp_path / "run")
    run = load_run(tmp_path / "run")
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.zero_()
    (tmp_path / "text.txt").write_text("the cat sat here")
    scores = evaluate(run, dataset_for_evaluation(run, (str(tmp_path / "text.txt"),), nothing))
    assert (scores.ids_without_token, scores.share_without_token) == (3, pytest.approx(3 / 269))
    assert scores.perplexity == pytest.approx(269), "they are in the denominator as the model has them"


def test_each_pair_has_its_own_sums(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    """Three pairs, each read alone by the model, and by the evaluation in many batches."""
    run = load_run(trained("encoder-decoder"))
    monkeypatch.setattr("tfcli.evaluation.measure._tokens_at_a_time", lambda run: 64)
    data = of_run(run)
    pairs, measured = data.pairs("validation"), measure(run, data)
    for number in (0, 1, len(pairs) - 1):
        source, target = (torch.tensor(side.sequence(number))[None] for side in (pairs.source, pairs.target))
        with torch.no_grad():
            log_p = run.model(source, target[:, :-1])[0].log_softmax(-1)
        nats = -log_p.gather(1, target[0, 1:, None]).sum().item()
        assert measured.sums.nats[number] == pytest.approx(nats, rel=1e-4)
        assert measured.sums.tokens[number] == target.shape[1] - 1


def test_buckets_are_scored_as_their_pairs_are(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    data = of_run(run)
    measured = measure(run, data)
    lengths = data.pairs("validation").source.lengths - 1
    found = tuple(buckets(measured))
    assert len(found) > 1
    assert measured.translated is not None
    for bucket in found:
        here = np.flatnonzero((bucket.shortest <= lengths) & (lengths <= bucket.longest))
        nats, tokens = measured.sums.nats[here].sum(), measured.sums.tokens[here].sum()
        ours, theirs = (
            [texts[n] for n in here] for texts in (measured.translated.outputs, measured.translated.references)
        )
        assert bucket.documents == len(here)
        assert bucket.loss == pytest.approx(nats / tokens)
        assert bucket.chrf == pytest.approx(sacrebleu.corpus_chrf(ours, [theirs]).score)
    assert len({bucket.chrf for bucket in found}) > 1


def test_buckets_of_few_documents_put_their_stretches_together(tmp_path: Path, trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    texts = ["the cat " * number for number in range(1, 20)]
    (tmp_path / "text.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    measured = measure(run, dataset_for_evaluation(run, (str(tmp_path / "text.jsonl"),), nothing))
    assert measured.cells.kind == "stretches"
    assert [bucket.documents for bucket in buckets(measured)][:3] == [1, 1, 1], "8, 16 and 24 letters"
    for bucket in buckets(measured):
        inside = (bucket.shortest <= measured.lengths) & (measured.lengths <= bucket.longest)
        cells = inside[measured.cells.document]
        assert bucket.documents == inside.sum()
        assert bucket.loss == pytest.approx(measured.sums.nats[cells].sum() / measured.sums.tokens[cells].sum())


def test_masked_accuracy_by_construction(tmp_path: Path):
    """A text of one letter: whoever always says "e" is right at every mask; whoever says "f" never is."""
    (tmp_path / "text.txt").write_text("e" * 2000)
    settings = {"data": {"source": str(tmp_path / "text.txt")}, "train": {"steps": 1}}
    train_tiny(
        tiny_recipe("encoder", settings, {"model": {"tie_embeddings": False, "norm": "layernorm"}}),
        tmp_path / "run",
    )
    run = load_run(tmp_path / "run")
    letter = run.tokenizer.encode("e")[0]
    for said, accuracy in ((letter, 1.0), (run.config.roles.pad, 0.0)):
        with torch.no_grad():
            # The last norm gives its bias alone, and the head answers it with one token.
            *_, last = (m for m in run.model.modules() if type(m).__name__ == "LayerNorm")
            last.weight.zero_()
            last.bias.fill_(1.0)
            run.model.head.weight.zero_()
            run.model.head.weight[said] = 1.0
        scores = evaluate(run, of_run(run))
        assert scores.accuracy == accuracy
        assert scores.tokens == pytest.approx(0.15 * 200, rel=0.5)


def test_the_same_masks_for_every_run(trained: Callable[[str], Path]):
    """Scored twice, the same; with another seed and other batches, the same masks."""
    run = load_run(trained("encoder"))
    other = replace(run, recipe=replace(run.recipe, train=replace(run.recipe.train, seed=9, batch_size=100)))
    first, second = evaluate(run, of_run(run)), evaluate(other, of_run(run))
    assert first.loss == pytest.approx(second.loss, rel=1e-5)
    assert first.tokens == second.tokens


def test_translations_are_compared_in_the_order_of_the_part(
    tmp_path: Path, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """A model that translates word by word as it should, but for the last pair: all exact but one."""
    run = load_run(trained("encoder-decoder"))
    data = of_run(run)
    targets = data.pairs("validation").target
    special = (run.config.roles.bos, run.config.roles.eos)
    right = [[token for token in targets.sequence(n).tolist() if token not in special] for n in range(len(targets))]
    handed: list[list[int]] = []

    def perfect(model: object, sources: list[list[int]], *_: object, **how: object) -> list[list[int]]:
        handed.extend(sources)
        return [*right[:-1], right[0]]

    monkeypatch.setattr(module, "translate", perfect)
    scores = evaluate(run, data)
    assert scores.exact_match == pytest.approx((len(right) - 1) / len(right))
    assert 0 < scores.bleu < 100
    assert all(run.config.roles.eos not in ids for ids in handed), "sources are handed over without their frame"
    assert len(handed) == data.record().validation.documents


def test_sources_and_references_lose_the_frame_that_the_roles_gave_them(
    tmp_path: Path, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """As BART's: "<s> ids </s>" and "</s> <s> ids </s>". A source fills the context with its frame, and no more."""
    run = load_run(trained("encoder-decoder"))
    roles = run.config.roles
    roles = replace(roles, source_start=(roles.bos,), target_start=(roles.eos, roles.bos))
    run = replace(run, tokenizer=run.tokenizer.with_roles(roles), config=replace(run.config, roles=roles))
    division = FakeDivision(pairs(("o", "the")), pairs(("o gato", "the cat"), ("o " * 50, "the")))
    prepare(as_any(division), run.tokenizer, tmp_path / "data")
    handed: list[list[int]] = []

    def perfect(model: object, sources: list[list[int]], *_: object, **how: object) -> list[list[int]]:
        handed.extend(sources)
        return [run.tokenizer.encode("the cat"), run.tokenizer.encode("the")]

    monkeypatch.setattr(module, "translate", perfect)
    scores = evaluate(run, PreparedDataset.open(tmp_path / "data"))
    assert scores.exact_match == 1
    assert handed == [
        run.tokenizer.encode("o gato"),
        run.tokenizer.encode("o " * 50)[: run.config.model.max_seq_len - 2],
    ]


def test_a_pair_that_is_too_long_is_translated_all_the_same(tmp_path: Path):
    """Two of the validation pairs have 40 words and the context holds 16: they have no part in the loss,
    and then no bits per byte are claimed, for their bytes would be counted and their nats not."""
    write_pairs(tmp_path)
    (tmp_path / "v.tsv").write_text("the cat\tcat the\n" + f"{'a ' * 40}\t{'a ' * 40}\n" * 2 + "a dog\tdog a\n")
    settings = {
        "data": {
            "source": f"{tmp_path / 'a.txt'},{tmp_path / 'b.txt'}",
            "validation": str(tmp_path / "v.tsv"),
        },
        "model": {"max_seq_len": 16},
        "train": {"steps": 1},
    }
    train_tiny(tiny_recipe("encoder-decoder", settings), tmp_path / "run")
    run = load_run(tmp_path / "run")
    scores = evaluate(run, of_run(run))
    assert (scores.documents, scores.left_out) == (4, 2)
    assert scores.tokens == 3 + 3
    assert scores.bits_per_byte is None
    assert scores.bleu is not None
    assert math.isfinite(scores.loss)


def test_a_dataset_of_another_tokenizer_is_refused(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    other = tiny_recipe("decoder", {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}})
    _, data = obtain_data(other.resolved(), nothing)
    with pytest.raises(UsageError, match="was prepared with another tokenizer"):
        evaluate(run, data)


def test_pairs_for_a_decoder_are_refused(tmp_path: Path, trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    settings = {"tokenizer": {"path": str(trained("decoder") / "tokenizer.json")}}
    _, data = obtain_data(tiny_recipe("encoder-decoder", settings).resolved(), nothing)
    with pytest.raises(UsageError, match="holds pairs, not text"):
        evaluate(run, data)


def test_training_s_own_scores_are_of_the_same_part(tmp_path: Path):
    """A change of the validation file alone changes the score, and nothing else."""
    train = write_text(tmp_path / "train.txt")
    losses = []
    for seed in (1, 2):
        validation = write_text(tmp_path / f"v{seed}.txt", lines=20, seed=seed)
        settings = {"data": {"source": str(train), "validation": str(validation)}, "train": {"steps": 3}}
        _, events = train_tiny(tiny_recipe("decoder", settings), tmp_path / f"run{seed}")
        assert isinstance(events, Events)
        losses.append(events.of(Evaluated)[-1].loss)
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_references_are_the_text_itself_and_not_what_the_tokenizer_keeps(
    tmp_path: Path, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """The word tokenizer does not know "zebra" and shows � for it: who writes that has not translated it. Where the
    source is gone, that is all there is, and it is said."""
    run = load_run(trained("encoder-decoder"))
    source = (str(tmp_path / "pairs.tsv"),)
    Path(source[0]).write_text("".join(f"o gato {n}\tthe zebra\n" for n in range(3)))
    data = dataset_for_evaluation(run, source, nothing)
    unknown = run.tokenizer.encode("the zebra")
    monkeypatch.setattr(module, "translate", lambda model, sources, *_, **how: [unknown for _ in sources])
    scores = evaluate(run, data, targets=lambda: original_targets(run, source))
    assert (scores.exact_match, scores.references_exact, scores.unknown) == (0.0, True, 3)
    measured = measure(run, data, targets=lambda: original_targets(run, source))
    assert measured.translated is not None
    assert measured.translated.references == ["the zebra"] * 3
    Path(source[0]).unlink()
    scores = evaluate(run, data, targets=lambda: original_targets(run, source))
    assert (scores.exact_match, scores.references_exact) == (1.0, False)


def test_the_own_part_s_targets_are_those_of_its_pairs(trained: Callable[[str], Path]):
    run = load_run(trained("encoder-decoder"))
    data = of_run(run)
    targets, roles = original_targets(run, ()), run.config.roles
    view = data.pairs("validation").target
    ids = [[one for one in view.sequence(n).tolist() if one not in (roles.bos, roles.eos)] for n in range(len(view))]
    assert targets is not None
    assert [run.tokenizer.encode(text) for text in targets] == ids
