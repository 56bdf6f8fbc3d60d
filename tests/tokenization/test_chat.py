"""Chat templates: what they make of a conversation, beside `transformers`, and what they cannot do."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.support.checkpoints import edit_json, save_checkpoint
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.generation.generate import prompt_ids
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.recipe.recipe import GenerateSection
from tfcli.runs.load import load_run
from tfcli.tokenization.chat import ChatTemplates

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<s>system\nBe brief.</s>\n' }}{% endif %}"
    "{{'<s>' + message['role'] + '\n' + message['content'] + '</s>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
INST = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
    {% set loop_messages = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}
    {% set loop_messages = messages %}
{% endif %}
{%- for message in loop_messages %}
  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('no turns') }}{% endif %}
  {% if loop.index0 == 0 and system is defined %}
      {%- set content = '<<SYS>>\\n' ~ system.strip() ~ '\\n<</SYS>>\\n\\n' + message['content'] %}
  {% else %}
      {%- set content = message['content'] %}
  {% endif %}
[INST] {{ content | trim }} [/INST]
{%- endfor %}"""
RICH = """
{%- macro one(m) -%}{{ m.role | upper }}: {{ m.content }}{{ eos_token }}{%- endmacro -%}
{%- set ns = namespace(seen=0) -%}
{%- for m in messages -%}
  {%- set ns.seen = ns.seen + 1 -%}
  {%- if ns.seen > 2 %}{% break %}{% endif -%}
  {{ one(m) }}{% generation %}{{ {'n': ns.seen, 'é': m.content} | tojson(indent=1) }}{% endgeneration %}
{%- endfor -%}
{{ strftime_now('%Y') }}{% if tools is none and not documents %}{{ sep_token }}none{% endif %}
"""
TEMPLATES = {"chatml": CHATML, "inst": INST, "rich": RICH}
HOSTILE = {
    "": "{{ messages[0].content",
    "roles": "{{ raise_exception('only users speak') }}",
    "attributes": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "types": "{{ 1 + 'a' }}",
    "change": "{% set _ = messages.append(1) %}",
    "missing": "{{ nothing.at.all }}",
    "filter": "{{ 1 | frobnicate }}",
    "include": "{% include 'other' %}",
    "range": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "long": "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "deep": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}
ENDLESS = 3 * "{% for i in range(99999) %}" + 3 * "{% endfor %}"
HUGE = "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"


def usual(template: str) -> ChatTemplates:
    return ChatTemplates({"default": template}, {})


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("form", ["file", "text", "list"])
@pytest.mark.parametrize("system", ["", " Be kind. "], ids=["", "system"])
def test_a_prompt_is_what_transformers_makes_of_it_before_and_after(
    template: str, form: str, system: str, tmp_path: Path
):
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder, text = save_checkpoint(tmp_path / "checkpoint", "llama"), TEMPLATES[template]
    if form == "file":
        (folder / "chat_template.jinja").write_text(text)
    else:
        named = [{"name": "default", "template": text}, {"name": "tool_use", "template": "other"}]
        edit_json(folder / "tokenizer_config.json", chat_template=text if form == "text" else named)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    export_run(run, tmp_path / "out")
    prompt = "Why is the sky blue, é?\n"
    ours = prompt_ids(run.model, run.tokenizer, prompt, GenerateSection(chat=True, system=system))
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    for where in (folder, tmp_path / "out"):
        theirs = transformers.AutoTokenizer.from_pretrained(where)
        assert ours == theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    if form == "list":
        assert (tmp_path / "out/additional_chat_templates/tool_use.jinja").read_text() == "other"


def test_what_a_user_spells_stays_text_unless_asked_for(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    (folder / "chat_template.jinja").write_text(CHATML)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    settings = GenerateSection(chat=True)
    ids = prompt_ids(run.model, run.tokenizer, "the </s><unk> end", settings)
    assert (ids.count(1), ids.count(2), ids.count(0)) == (3, 2, 0), "the template's own"
    assert run.tokenizer.decode(ids).count("</s>") == 1
    asked = prompt_ids(run.model, run.tokenizer, "the </s><unk> end", GenerateSection(chat=True, special_tokens=True))
    assert (asked.count(1), asked.count(2), asked.count(0)) == (3, 3, 1)
    plain = prompt_ids(run.model, run.tokenizer, "the </s> end", GenerateSection(special_tokens=True))
    assert (plain[0], plain.count(2)) == (1, 1)
    assert 2 not in prompt_ids(run.model, run.tokenizer, "the </s> end", GenerateSection())


@pytest.mark.parametrize(
    ("expression", "prompt"),
    [
        ("content", "</s>the end"),
        ("content | trim", " </s> the end "),
        ("content | upper | lower", "the </S> end"),
        ("content | lower", "the </S> end</s>"),
        ("content | capitalize", "the </S> end"),
        ("content | replace(' ', '')", "the < / s > end"),
        ("content | replace('</s>', '<s>')", "the </s> end"),
        ("content | tojson", 'the "</s>" end'),
        ("content[:8]", "the end of it"),
        ("content ~ '/s>'", "the end<"),
        ("content.split('the')[1]", "x the </s> end"),
        ("content if content.startswith('the') else content | upper", "the </s> end"),
    ],
)
def test_a_template_that_rewrites_the_prompt_makes_no_special_token_of_it(
    expression: str, prompt: str, tmp_path: Path
) -> None:
    """The template has one <s> of its own and one </s>, and no mark of ours is read by the model."""
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    template = "<s>{% set content = messages[-1].content %}{{ " + expression + " }}</s>"
    (folder / "chat_template.jinja").write_text(template)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    ids = prompt_ids(run.model, run.tokenizer, prompt, GenerateSection(chat=True))
    assert (ids[0], ids[-1]) == (1, 2)
    assert not {0, 1, 2} & {*ids[1:-1]}
    assert run.tokenizer.chat is not None
    said = run.tokenizer.chat.text([{"role": "user", "content": prompt}]).removeprefix("<s>").removesuffix("</s>")
    assert "".join(run.tokenizer.decode(ids).split()) == "".join(said.split())


def test_marks_of_ours_in_a_prompt_are_text(tmp_path: Path) -> None:
    """A prompt that has the noncharacters itself is marked by others."""
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    (folder / "chat_template.jinja").write_text("<s>{{ messages[-1].content }}</s>")
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    ids = prompt_ids(run.model, run.tokenizer, "a \ufdd0</s>\ufdd1", GenerateSection(chat=True))
    assert (ids.count(1), ids.count(2), ids[-1]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("expression", "prompt"),
    [
        ("content | lower if content in ['</S>', 'hello'] else 'no'", "</S>"),
        ("content | reverse", "the >s/< end"),
        ("content[:8]", "the </s> end"),
    ],
)
def test_a_template_that_hides_what_is_the_prompt_is_refused(expression: str, prompt: str, tmp_path: Path) -> None:
    """It looks at the whole prompt, or turns the marks around, or cuts them off, so that they say nothing."""
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    template = "{% set content = messages[-1].content %}{{ " + expression + " }}"
    (folder / "chat_template.jinja").write_text(template)
    import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    with pytest.raises(UsageError, match="cannot be told from those that this spells"):
        prompt_ids(run.model, run.tokenizer, prompt, GenerateSection(chat=True))


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_wrong_with_a_template_is_one_sentence(what: str):
    with pytest.raises(TfcliError) as raised:
        usual(HOSTILE[what]).text([{"role": "user", "content": "hello"}])
    assert isinstance(raised.value, UsageError) == (what == "roles")
    assert str(raised.value).isprintable() and len(str(raised.value)) < 250
    assert usual("{{ messages[0].content }}").text([{"role": "user", "content": "a\nb"}]) == "a\nb"


@pytest.mark.parametrize("template", [ENDLESS, HUGE], ids=["endless", "huge"])
def test_a_template_without_end_is_given_up(template: str):
    with pytest.raises(BrokenInputError, match="The chat template fails: it takes more than 2 seconds or 1 GB"):
        usual(template).text([{"role": "user", "content": "hello"}])
    assert usual("{{ messages[0].content }}").text([{"role": "user", "content": "hello"}]) == "hello"


def test_without_a_template_a_chat_is_refused(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    assert tfcli("import", folder, "--out", tmp_path / "run").exit_code == 0
    for options, problem in (
        (["--chat"], "has no chat template"),
        (["--system", "Be kind."], "--system is a part of a chat, and there is none; add --chat"),
    ):
        result = tfcli("generate", tmp_path / "run", "hello", *options)
        assert (result.exit_code, result.stdout) == (2, "") and problem in result.stderr
    edit_json(folder / "tokenizer_config.json", chat_template=[{"name": "rag", "template": "x"}])
    assert tfcli("import", folder, "--out", tmp_path / "named").exit_code == 0
    result = tfcli("generate", tmp_path / "named", "hello", "--chat")
    assert result.exit_code == 2 and "Of the chat templates (rag) none is the usual one" in result.stderr
    edit_json(folder / "tokenizer_config.json", chat_template=[{"name": "../rag", "template": "x"}])
    result = tfcli("import", folder, "--out", tmp_path / "bad")
    assert result.exit_code == 1 and "has a chat template called '../rag'" in result.stderr
    for template, problem in (
        ([{"name": "default", "template": ["x"]}], "has a chat_template that is no text"),
        ({"default": "x"}, "has a chat_template that is no text"),
        ("\ud800", "holds half a surrogate pair"),
    ):
        edit_json(folder / "tokenizer_config.json", chat_template=template)
        result = tfcli("import", folder, "--out", tmp_path / "bad")
        assert result.exit_code == 1 and f"tokenizer_config.json {problem}" in result.stderr


def test_a_chat_is_answered_from_the_command_line(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "checkpoint", "llama")
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[-1].content }}")
    assert tfcli("import", folder, "--out", tmp_path / "run").exit_code == 0
    given = ("the", "--temperature", "0", "--max-new-tokens", "3", "--json")
    chat, plain = (tfcli("generate", tmp_path / "run", *given, *more) for more in (["--chat"], []))
    assert chat.exit_code == 0, chat.stderr
    assert json.loads(chat.stdout) == json.loads(plain.stdout), "the template adds what a plain prompt begins with"
