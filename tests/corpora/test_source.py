"""What every corpus shares, and that opening one costs nothing heavy."""

import subprocess
import sys

from tfcli.corpora import Pair, is_blank, texts


def test_texts_are_the_document_or_both_sides():
    assert list(texts("a")) == ["a"]
    assert list(texts(Pair("a", "b"))) == ["a", "b"]


def test_blank_is_empty_or_white_space():
    assert [is_blank(text) for text in ("", " \n\u2028", "a", " a ")] == [True, True, False, False]


def test_text_files_are_read_without_heavy_libraries(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    program = (
        "import sys\n"
        "from tfcli.corpora.split import open_split\n"
        "from tfcli.recipe.data import DataSection\n"
        f"print(list(open_split(DataSection(source={str(tmp_path / 'a.txt')!r}), 'text').parts()))\n"
        "heavy = {'datasets', 'pyarrow', 'numpy', 'pandas', 'torch', 'rich', 'typer'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["[('train', 'tex'), ('validation', 't')]", "[]"]
