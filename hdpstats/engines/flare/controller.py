"""The controller that FLARE runs at its server for a job: it collects release files, and writes what comes of them.

It knows no row and no account: sites release to whoever signed the job, and the server sees what is released. In the
folder of the job, which the analyst downloads, it leaves

``hdpstats/releases/SITE.json``  the latest release file of each site that sent one
``hdpstats/sites.json``          the sites that were asked, and of those that were left out why
``hdpstats/result.json``         the result, where a quorum answered

`hdpstats flare result` makes the result again from the releases, and checks signatures: nobody has to believe it.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from hdpstats._base.errors import HdpError
from hdpstats.engines.collecting import Reply, collect, why_not, written
from hdpstats.engines.flare import CONTENT, KNOWN, NAME, REQUEST
from hdpstats.exchange import ReleaseFile, RequestFile


@final
class RequestController(Controller):
    """Collects the releases of one request.

    Parameters
    ----------
    sites : list of str
        The names of the sites.
    seconds : float
        How long an exchange may take.
    patience : float
        How long an exchange waits for the others once more than half of the sites have replied.
    """

    def __init__(self, sites: Sequence[str], seconds: float = 3600.0, patience: float = 300.0) -> None:
        if not all(isinstance(name, str) and NAME.fullmatch(name) for name in sites):  # each is the name of a file
            raise ValueError("sites must be names of FLARE's sites")
        super().__init__(task_check_period=0.2)
        self._sites, self._seconds, self._patience = list(sites), seconds, patience

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the job says all."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: nothing is open."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Ignore a reply that came too late: its site was left out, and the ledger has what it released."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Ask the sites, exchange by exchange, and write what comes of it."""
        workspace, job = fl_ctx.get_engine().get_workspace(), fl_ctx.get_job_id()
        out = Path(workspace.get_run_dir(job)) / "hdpstats"
        (out / "releases").mkdir(parents=True, exist_ok=True)
        config = Path(workspace.get_app_config_dir(job))
        request = RequestFile.read(config / REQUEST)
        known = {
            name: ReleaseFile.from_bytes(each.encode())
            for name, each in json.loads((config / KNOWN).read_text()).items()
            if name in self._sites
        }
        seen = {name: written(each) for name, each in known.items()}
        left: dict[str, str] = {}

        def send(task: str, content: Mapping[str, Any], sites: Sequence[str]) -> Mapping[str, Reply]:
            replies = self._sent(task, content, sites, abort_signal, fl_ctx)
            left.update({name: reason for name in sites if (reason := why_not(replies.get(name)))})
            seen.update({name: each.release for name, each in replies.items() if each.release is not None})
            return replies

        summary: dict[str, Any] = {"request": request.sha256, "asked": self._sites}
        try:
            several, result = collect(request, self._sites, send, known=known)
            (out / "result.json").write_text(result.to_json(), encoding="utf-8")
            seen, left = {name: written(each) for name, each in several.releases.items()}, dict(several.left)
            self.log_info(fl_ctx, f"{len(several.present)} of {len(several.asked)} sites answered")
        except HdpError as error:
            summary["failed"] = str(error)
            self.log_error(fl_ctx, f"the request has no result: {error}")
        for name, release in seen.items():
            (out / "releases" / f"{name}.json").write_bytes(release)
        (out / "sites.json").write_text(json.dumps({**summary, "left": left}, indent=1) + "\n", encoding="utf-8")
        if "failed" in summary:
            self.system_panic(summary["failed"], fl_ctx)

    def _sent(
        self, name: str, content: Mapping[str, Any], sites: Sequence[str], abort: Signal, fl_ctx: FLContext
    ) -> dict[str, Reply]:
        """Broadcast a task, and return the replies that came in time."""
        replies: dict[str, Reply] = {}
        arriving = threading.Lock()

        def received(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001  (FLARE's signature)
            fields = client_task.result.get(CONTENT)
            client_task.result = None
            with arriving:
                replies[client_task.client.name] = _reply(fields)

        data = Shareable()
        data[CONTENT] = dict(content)
        task = Task(name=name, data=data, timeout=max(int(self._seconds), 1), result_received_cb=received)
        self.broadcast_and_wait(
            task=task,
            fl_ctx=fl_ctx,
            targets=list(sites),
            min_responses=min(len(self._sites) // 2 + 1, len(sites)),
            wait_time_after_min_received=max(int(self._patience), 1),
            abort_signal=abort,
        )
        with arriving:
            return dict(replies)


def _reply(fields: object) -> Reply:
    """Read what a site sent back: anything else than a reply is one without an answer."""
    if not isinstance(fields, dict):
        return Reply()
    release, refusal = fields.get("release"), fields.get("refusal")
    return Reply(
        release=release if isinstance(release, bytes) else None, refusal=refusal if isinstance(refusal, str) else None
    )
