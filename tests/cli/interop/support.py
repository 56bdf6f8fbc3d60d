"""Commands of ``tfcli import`` and ``tfcli export``, and what `transformers` makes of their folders."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.cli.commands import tfcli
from tests.support.checkpoints import edit_json
from tfcli.runs.load import load_run

STORIES = Path(__file__).parents[4] / "shared/weights/stories260K"


AUTO = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
}


SHORT = ["--set", "train.steps=2", "--set", "train.batch_size=2", "--threads", "1"]


TEXT = "the cat sat on the mat"


Checkpoints = Callable[[str], Path]


def done(*arguments: str | Path) -> str:
    """The stdout of a command that succeeds."""
    result = tfcli(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(exit_code: int, *arguments: str | Path) -> str:
    """The one sentence with which a command is refused."""
    result = tfcli(*arguments)
    assert result.exit_code == exit_code, (result.exit_code, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("tfcli: ") and result.stderr.endswith(".\n")
    sentence = result.stderr[:-1]
    assert sentence.isprintable() and "tfcli has a fault" not in sentence, sentence
    return sentence


def source_of(run: Path, corpus: Path) -> Path:
    return corpus / ("pairs.tsv" if load_run(run).architecture == "encoder-decoder" else "text.txt")


def their_ids(folder: Path, ids: list[int], new: int, **settings: Any) -> list[int]:
    """What `transformers` makes of some ids, greedily."""
    import transformers

    architecture = (
        "encoder-decoder" if json.loads((folder / "config.json").read_text()).get("is_encoder_decoder") else "decoder"
    )
    model = getattr(transformers, AUTO[architecture]).from_pretrained(folder).eval()
    out = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=new, **settings)[0].tolist()
    return out[len(ids) :] if architecture == "decoder" else out


def their_loss(folder: Path, texts: list[list[int]]) -> float:
    """What `transformers` makes of texts, a document at a time, the first token of each unscored."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        nats = [model(torch.tensor([ids]), labels=torch.tensor([ids])).loss * (len(ids) - 1) for ids in texts]
    return float(sum(nats)) / sum(len(ids) - 1 for ids in texts)


def their_best(folder: Path, ids: list[int], place: int, hidden: list[int]) -> list[float]:
    """The five best probabilities at a place, special tokens left out."""
    import transformers

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    with torch.no_grad():
        probabilities = model(torch.tensor([ids])).logits[0, place].softmax(-1)
    probabilities[hidden] = 0
    return probabilities.topk(5).values.tolist()


def ours(run: Path, text: str, new: int) -> list[int]:
    answer = done("generate", run, text, "--temperature", "0", "--max-new-tokens", str(new), "--json")
    return json.loads(answer)["token_ids"]


def changed(
    folder: Path, to: Path, config: Mapping[str, Any] | None = None, tensors: Mapping[str, Tensor | None] | None = None
) -> Path:
    """A copy of a checkpoint with other settings and tensors; None removes one."""
    shutil.copytree(folder, to)
    edit_json(to / "config.json", **(config or {}))
    if tensors:
        kept = {
            name: tensor
            for name, tensor in (load_file(to / "model.safetensors") | tensors).items()
            if tensor is not None
        }
        save_file(kept, to / "model.safetensors")
    return to
