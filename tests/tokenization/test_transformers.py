"""The saved file in the library most people will load it with."""

import json
from pathlib import Path

from tfcli.tokenization.tokenizer import Tokenizer

TEXT = "The cat can't sit (on the mat),\n\n    and é ran!"


def test_transformers_gives_the_same_ids(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    for algorithm, tokenizer in trained.items():
        folder = tmp_path / algorithm
        folder.mkdir()
        tokenizer.save(folder / "tokenizer.json")
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
        ids = tokenizer.encode(TEXT)
        for other in (
            PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")),
            AutoTokenizer.from_pretrained(str(folder)),
        ):
            assert other(TEXT)["input_ids"] == ids, algorithm
            assert other.decode(ids) == tokenizer.decode(ids), algorithm
