"""``tfcli verify``: proofs on a run of what is otherwise taken on trust."""

from typing import TYPE_CHECKING

from tfcli.console.options import Checkpoint, Device, Json, Run, Threads, command, open_run, use_threads
from tfcli.console.terminal import Terminal

if TYPE_CHECKING:
    from tfcli.verification import Check


_SMALL = 1 << 20  # parameters up to which one thread is faster than several, which then wait for each other


@command
def verify(
    terminal: Terminal,
    run: Run,
    checkpoint: Checkpoint = "best",
    device: Device = "cpu",
    threads: Threads = 0,
    json: Json = False,
) -> None:
    """Prove on a run what is otherwise taken on trust.

    Decoding, masks, padding, tokenizer, files, resuming, export and
    evaluation are checked on the run's own weights and text; text that is not
    here is made up. Nothing in the run changes. Exits with 1 if a check fails.

    Examples:

      tfcli verify runs/decoder-1
      tfcli verify runs/decoder-1 --checkpoint last --json
    """
    import time

    from tfcli.draw.tables import to_json
    from tfcli.errors import TfcliError
    from tfcli.pipeline.datasets import dataset_of_run
    from tfcli.verification.check import VerifiedRun

    with terminal.progress() as say:
        say("loading")
        loaded = open_run(run, checkpoint, device)
        try:
            say("looking for its text")
            subject = VerifiedRun(loaded, dataset_of_run(loaded.directory, loaded.recipe, lambda event: None))
        except TfcliError as error:
            subject = VerifiedRun(loaded, made_up_because=error.problem)
    use_threads(threads or (1 if loaded.model.num_parameters() <= _SMALL else 0))

    from tfcli.verification.verify import PROOFS, OwnPath, verification
    from tfcli.verification.view import CheckRow, VerificationHeader, VerificationSummary

    began, own = time.perf_counter(), OwnPath(subject)
    checks: list[Check] = []
    show = (lambda part: None) if json else terminal.show
    show(VerificationHeader(str(loaded.directory.path), loaded.architecture, subject.origin))
    for number, proof in enumerate(PROOFS, start=1):
        with terminal.progress() as say:
            say(f"{number}/{len(PROOFS)}  {proof.name}")
            checks.append(own.look(proof, proof.check(subject)))
        show(CheckRow(checks[-1]))
    result = verification(subject, checks, own)
    show(VerificationSummary(result, time.perf_counter() - began))
    if json:
        terminal.json(to_json(result))
    failed = [check.name for check in result.checks if check.status == "failed"]
    if failed:
        what = f"{len(failed)} checks of {result.run} failed" if len(failed) > 1 else f"A check of {result.run} failed"
        raise TfcliError(f"{what}: {', '.join(failed)}", "trust no figure of this run before the cause is found")
