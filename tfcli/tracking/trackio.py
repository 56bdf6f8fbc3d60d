"""trackio: a local database that ``trackio show --project tfcli`` draws (or a Space, see its TRACKIO_SPACE_ID)."""

import io
from collections.abc import Mapping
from contextlib import redirect_stdout

from tfcli.tracking.tracker import PROJECT, TrackedRun


class TrackioTracker:
    """A resumed run goes on with the last one of its name. What trackio says to stdout is kept from it."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self._trackio = trackio
        with redirect_stdout(io.StringIO()):
            trackio.init(
                project=PROJECT,
                name=run.name,
                config=dict(run.recipe),
                resume="allow" if run.step else "never",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Hand the figures over; trackio stores them in a thread of its own."""
        self._trackio.log(dict(figures), step=step)

    def close(self) -> None:
        """Wait until all is stored. Not `Run.finish`, after which trackio would end the run again, aloud, at exit."""
        with redirect_stdout(io.StringIO()):
            self._trackio.finish()
