"""Ablation on runs: each figure against a pass with hooks, over a text and over documents; what is refused."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cli.commands import tfcli
from tests.support.consoles import printed
from tests.support.runs import ARCHITECTURES
from tfcli.errors import UsageError
from tfcli.inspection import interventions
from tfcli.inspection.ablation import AblatedPart, Ablation, compute
from tfcli.inspection.ablation.compute import ablate
from tfcli.inspection.ablation.view import AblationView
from tfcli.inspection.heads.find import Material
from tfcli.inspection.interventions import rerun, stack_of
from tfcli.inspection.passes import Inputs, framed, read_text, record_model
from tfcli.runs.load import LoadedRun, load_run

TEXTS = {"decoder": ("Tom swam", None), "encoder": ("Tom swam", None), "encoder-decoder": ("o livro", "the book")}
OTHERS = ["The cat sat on the mat", "Tom ran", "One day a girl saw a boat"]


def material(run: LoadedRun, texts: list[str]) -> Material:
    target = run.tokenizer.encode("the book") if run.architecture == "encoder-decoder" else ()
    return Material("others", tuple(framed(run, run.tokenizer.encode(text), target) for text in texts), False, {})


def without(run: LoadedRun, inputs: Inputs, part: AblatedPart, value: Tensor | float = 0.0) -> Tensor:
    """Logits, (T, Vocab), of a whole pass in which hooks put a value, (T, ·) or a number, into a part's place."""
    layer = stack_of(run.model, part.side).layers[part.layer]
    if part.part == "MLP":
        handle = layer.feed_forward.register_forward_hook(lambda _, args, out: torch.zeros_like(out) + value)
    elif part.part == "layer":
        handle = layer.register_forward_hook(lambda _, args, out: args[0] + value)
    else:
        attention = layer.cross_attention if part.kind == "cross" else layer.attention
        size, head = attention.head_dim, part.head

        def change(_: object, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            changed = args[0].clone()
            changed[..., head * size : (head + 1) * size] = value
            return (changed,)

        handle = attention.output.register_forward_pre_hook(change)
    with handle, torch.inference_mode():
        return run.model(*inputs.tensors(run.device))[0].double()


def parts_of(found: Ablation, **which: object) -> list[AblatedPart]:
    return [part for part in found.parts if all(getattr(part, name) == value for name, value in which.items())]


@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_without_a_part_a_text_says_what_a_pass_with_hooks_says(trained: Callable[[str], Path], architecture: str):
    run = load_run(trained(architecture))
    text, target = TEXTS[architecture]
    found, inputs = ablate(run, text, target, position=1), read_text(run, text, target)
    own = run.model(*inputs.tensors(run.device))[0].double().detach()
    asked = found.text
    assert asked is not None
    token, against = (
        run.tokenizer.labels(range(run.tokenizer.vocab_size)).index(one) for one in (asked.token, asked.against)
    )
    assert [token, against] == own[1].topk(2).indices.tolist()
    answers = [*inputs.sides[-1][1:], *([run.config.roles.eos] if target else [])]

    def figures(logits: Tensor) -> tuple[float, float, float]:
        logs = logits.log_softmax(-1)
        nats = -sum(float(logs[place, answer]) for place, answer in enumerate(answers))
        return nats / len(answers), float(logits[1, token] - logits[1, against]), float(logs[1, answers[1]])

    base = figures(own)
    assert (found.loss, asked.difference, asked.log_probability) == pytest.approx(base, abs=1e-4)
    sides = 1 if target is None else 2
    per_layer = run.config.model.num_heads + 2
    assert len(found.parts) == run.config.model.num_layers * (
        per_layer * sides + run.config.model.num_heads * (sides - 1)
    )
    for part in found.parts:
        expected = np.subtract(figures(without(run, inputs, part)), base)
        assert (part.loss, part.difference, part.log_probability) == pytest.approx(tuple(expected), abs=2e-4), part


def test_an_encoder_has_each_token_masked_alone(trained: Callable[[str], Path]):
    run = load_run(trained("encoder"))
    found = ablate(run, "Tom swam", position=3)
    ids = read_text(run, "Tom swam").encoder or ()
    [head] = parts_of(found, part="head", layer=1, head=1)
    losses: list[tuple[float, float]] = []
    for place in range(1, len(ids) - 1):
        hidden = Inputs(encoder=(*ids[:place], run.config.roles.mask, *ids[place + 1 :]))  # type: ignore[arg-type]
        with torch.inference_mode():
            own = run.model(*hidden.tensors(run.device))[0, place].double().log_softmax(-1)[ids[place]]
        losses.append((-float(own), -float(without(run, hidden, head)[place].log_softmax(-1)[ids[place]])))
    before, after = np.mean(losses, axis=0)
    assert found.loss == pytest.approx(before, abs=1e-4) and head.loss == pytest.approx(after - before, abs=1e-4)
    assert found.text is not None and found.text.log_probability == pytest.approx(-losses[2][0], abs=1e-4)
    masked = ablate(run, "Tom s<mask>am")
    assert masked.text is not None and (masked.text.position, masked.text.true, masked.loss) == (6, None, None)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_means_and_other_texts(trained: Callable[[str], Path], architecture: str):
    """A part becomes its mean over all tokens of the material, or its values on the next text, from the beginning
    again where that is shorter."""
    run = load_run(trained(architecture))
    given = material(run, OTHERS)
    means, others = (ablate(run, replaced=how, material=given) for how in ("mean", "resample"))
    passes = [record_model(run.model, one.tensors(run.device)) for one in given.texts]
    stacks = [one.encoder or one.decoder for one in passes]
    written = torch.cat([one.layers[1].feed_forward for one in stacks])  # type: ignore[union-attr]
    side = "decoder" if architecture == "decoder" else "encoder"
    sums, tokens = np.zeros(3), 0
    for number, inputs in enumerate(given.texts):
        ids = inputs.sides[-1]
        if architecture == "encoder":
            continue  # its documents are masked at random places
        theirs = stacks[(number + 1) % 3].layers[1].feed_forward  # type: ignore[union-attr]
        length = len(inputs.sides[0])
        [part] = parts_of(means, part="MLP", side=side, layer=1)
        values = (written.mean(0), theirs.repeat(length // len(theirs) + 1, 1)[:length])
        with torch.inference_mode():
            all_logits = [
                run.model(*inputs.tensors(run.device))[0].double(),
                *(without(run, inputs, part, one) for one in values),
            ]
        sums += [-float(one.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None]).sum()) for one in all_logits]
        tokens += len(ids) - 1
    for found, loss in zip((means, others), (sums[1:] - sums[0]) / max(tokens, 1), strict=True):
        [part] = parts_of(found, part="MLP", side=side, layer=1)
        assert (found.documents, found.source, part.interval) == (3, "others", None)
        if architecture != "encoder":
            assert part.loss == pytest.approx(loss, abs=2e-4)
            assert found.loss == pytest.approx(sums[0] / tokens, abs=1e-4)
    assert [part.loss for part in means.parts] != [part.loss for part in others.parts]


def test_an_interval_says_what_chance_would_do(trained: Callable[[str], Path]):
    """Over twelve documents: it holds the mean, and of a head that writes nothing it is 0 … 0 and left empty."""
    run = load_run(trained("decoder"))
    output = stack_of(run.model, "decoder").layers[1].attention.output
    with torch.no_grad():
        output.weight[:, : run.config.model.size_per_head] = 0.0
    found = ablate(
        run, replaced="zero", material=material(run, [f"{one}{end}" for one in OTHERS for end in ("", ".", "!", "?")])
    )
    for part in found.parts:
        assert part.interval is not None and part.loss is not None
        assert part.interval[0] - 1e-9 <= part.loss <= part.interval[1] + 1e-9
    [silent] = parts_of(found, part="head", layer=1, head=0)
    assert (silent.loss, silent.interval) == (0.0, (0.0, 0.0))
    picture = " ".join(printed(AblationView(found), 100).split())
    assert "1 of 8 parts, whose interval (t, over 12 documents) contains 0; by chance 1 in 20 would not" in picture
    assert "head 1.0" not in picture


def test_an_interval_weighs_documents_by_their_tokens():
    """Half a nat a token in each: any documents together have half a nat, however many tokens they are."""
    known = np.arange(1.0, 13.0)
    [[low, high]] = compute._intervals(known[:, None] / 2, known)
    assert (low, high) == pytest.approx((0.5, 0.5))
    [[low, high]] = compute._intervals(np.ones((12, 1)), known)
    assert 12 / 12 > high > 12 / 78 > low > 0


def test_what_rounding_does_alone_reads_0(trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    """Passes that are never twice the same: a head that writes nothing has no effect, others have."""
    run, noise = load_run(trained("decoder")), torch.Generator().manual_seed(0)
    output = stack_of(run.model, "decoder").layers[1].attention.output
    with torch.no_grad():
        output.weight[:, : run.config.model.size_per_head] = 0.0

    def shaken(*given: object) -> Tensor:
        hidden = rerun(*given)  # type: ignore[arg-type]
        return hidden + 1e-3 * torch.randn(hidden.shape, generator=noise)

    for module in (compute, interventions):
        monkeypatch.setattr(module, "rerun", shaken)
    found = ablate(run, "Tom swam", position=1)
    assert found.rounding > 1e-3
    [silent] = parts_of(found, part="head", layer=1, head=0)
    assert (silent.loss, silent.difference, silent.log_probability) == (0.0, 0.0, 0.0)
    assert sum(part.difference != 0.0 for part in found.parts) >= 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--token", "a"), "--token belongs to a TEXT"),
        (("Tom", "--on", "builtin:stories"), "--with zero takes nothing from --on"),
        (("Tom", "--position", "9"), "There is no position 9"),
        (("Tom", "--token", "a", "--against", "a"), "Both answers are 'a'"),
        (("Tom", "--token", "Tom"), "'Tom' is 3 tokens"),
    ],
)
def test_what_cannot_be_ablated_is_one_sentence(
    trained: Callable[[str], Path], arguments: tuple[str, ...], message: str
):
    result = tfcli("inspect", "ablate", trained("decoder"), *arguments)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""


def test_another_text_is_needed_to_resample(trained: Callable[[str], Path]):
    run = load_run(trained("decoder"))
    with pytest.raises(UsageError, match="another text needs another text; name more text with --on SOURCE"):
        ablate(run, replaced="resample", material=material(run, OTHERS[:1]))
    with pytest.raises(UsageError, match="Position 0 has no known word, which could be masked"):
        ablate(load_run(trained("encoder")), "Tom", position=0)


def test_documents_without_a_known_word_are_left_out(trained: Callable[[str], Path]):
    """An encoder can mask none of their tokens."""
    run = load_run(trained("encoder"))
    unknown = [chr(0x4E00 + n) * 3 for n in range(2)]
    found = ablate(run, material=material(run, [unknown[0], *OTHERS, unknown[1]]))
    assert found.documents == 3 and found.parts == ablate(run, material=material(run, OTHERS)).parts
    with pytest.raises(UsageError, match="others have no word that is known"):
        ablate(run, material=material(run, unknown))


def test_the_command_prints_pictures_and_numbers(trained: Callable[[str], Path], tmp_path: Path):
    run = trained("decoder")
    picture = tfcli("inspect", "ablate", run, "Tom swam", "--svg", tmp_path / "a.svg")
    assert "layer 0" in picture.stdout and "log p(true)" in picture.stdout
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    many = json.loads(tfcli("inspect", "ablate", run, "--with", "mean", "--json").stdout)
    assert many["documents"] > 9 and many["text"] is None and len(many["parts"][0]["interval"]) == 2
    rows = list(csv.DictReader(tfcli("inspect", "ablate", run, "Tom swam", "--csv").stdout.splitlines()))
    assert len(rows) == len(many["parts"]) and rows[0]["loss_low"] == "" and float(rows[0]["difference"]) != 0.0


@pytest.mark.parametrize(
    ("architecture", "target", "said"),
    [
        ("decoder", None, "on the text, without the token that ends it"),
        ("encoder-decoder", None, ", its own translation, "),
        ("encoder-decoder", "the book", ", the true token, "),
    ],
)
def test_what_a_loss_counts_and_whose_token_is_true_is_said(
    trained: Callable[[str], Path], architecture: str, target: str | None, said: str
):
    run = load_run(trained(architecture))
    found = ablate(run, TEXTS[architecture][0], target)
    if architecture == "encoder-decoder" and target:
        found = ablate(run, TEXTS[architecture][0], target, position=0)
    shown = " ".join(printed(AblationView(found), 140).split())
    assert said in shown and ("log p(own)" in shown) == (architecture == "encoder-decoder" and target is None)
