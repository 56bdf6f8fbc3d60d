"""``config.json``: what a model needs to be built again."""

from dataclasses import asdict, dataclass
from pathlib import Path

from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import read_json, write_json
from tfcli.recipe.loading import build_recipe
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles

FORMAT_VERSION = 2


@dataclass(frozen=True)
class RunConfig:
    """The model's section, the ids of the token roles, and what ties weights and tokenizer to this run."""

    model: ModelSection
    roles: TokenRoles
    tokenizer_fingerprint: str
    run_id: str


def write_config(path: Path, config: RunConfig) -> None:
    """Write `config.json`."""
    write_json(path, {"format_version": FORMAT_VERSION, **asdict(config)})


def read_config(path: Path) -> RunConfig:
    """Read `config.json`.

    Raises:
        BrokenInputError: it is damaged, or of a format version this tfcli does not read.
    """
    values = read_json(path)
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        raise BrokenInputError(
            f"{path} has format version {version!r}, and this tfcli reads {FORMAT_VERSION}",
            "use the tfcli that wrote it",
        )
    from pydantic import TypeAdapter, ValidationError

    try:
        model = build_recipe({"model": {k: v for k, v in values["model"].items() if v is not None}}).model
        roles = TypeAdapter(TokenRoles).validate_python(asdict(TokenRoles(**values["roles"])))
        return RunConfig(model, roles, values["tokenizer_fingerprint"], values["run_id"])
    except UsageError as error:
        problem = error.problem
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"{error} is missing or of the wrong kind"
    except ValidationError as error:
        problem = f"roles.{error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}"
    raise BrokenInputError(f"{path} is damaged ({problem})", "restore the file from a copy of the run")
