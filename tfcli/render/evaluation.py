"""A model's scores as a table that says what each number is."""

from tfcli.records.evaluation import Scores
from tfcli.render.facts import Fact, Facts
from tfcli.render.numbers import exact, percent, plural
from tfcli.render.safe import printable

_ACCURACY = {
    "clm": "of the next tokens were the most likely one",
    "mlm": "of the masked tokens were the most likely one",
    "seq2seq": "of the target tokens were the most likely one",
}


def scores_view(scores: Scores) -> Facts:
    """What a model reached on a whole set."""
    facts = [
        Fact("loss", f"{scores.loss:.4f}", "nats a token, mean"),
        Fact("perplexity", f"{scores.perplexity:.3f}", "exp(loss): as unsure as among so many equal choices"),
    ]
    if scores.bits_per_byte is not None:
        facts.append(Fact("bits per byte", f"{scores.bits_per_byte:.4f}", "comparable between tokenizers"))
    facts.append(
        Fact("accuracy", percent(scores.accuracy), _ACCURACY.get(scores.objective, "of the tokens were right"))
    )
    if scores.bleu is not None:
        facts.append(Fact("BLEU", f"{scores.bleu:.2f}", printable(f"0 to 100, {scores.signature or 'sacrebleu'}")))
    if scores.chrf is not None:
        facts.append(Fact("chrF", f"{scores.chrf:.2f}", "0 to 100, character n-grams"))
    if scores.exact_match is not None:
        facts.append(Fact("exact match", percent(scores.exact_match), "of the pairs, word for word"))
    facts.append(Fact("tokens", exact(scores.tokens), f"scored, in {plural(scores.documents, 'document')}"))
    if scores.left_out:
        facts.append(Fact("left out", exact(scores.left_out), "pairs too long for the context: not in the loss"))
    sources = ", ".join(map(printable, scores.sources))
    return Facts(f"{printable(scores.run)} · {scores.objective} · {sources}", facts)
