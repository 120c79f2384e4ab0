"""The executor that FLARE runs at a site for a job; see `hdpstats.engines.participant` for what it does.

The request, and whom it is for, are read from the job's own folder, whose signature FLARE has checked and which is
checked here again: so who asks is who signed the job with the certificate of his startup kit, and whom he asks is what
he signed, whatever the server says. It is the common name of that certificate that the site's settings list as an
analyst. FLARE signs the bytes of each file, not their names nor that they belong together: both files say what they
are, and the second says of which request it is.

Each task brings what the other sites have released, and is answered with a release file's bytes or the name of a
refusal. FLARE may deliver a task twice: the second answer is the first one's, from the ledger.
"""

from pathlib import Path
from typing import final

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.workspace import Workspace
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE
from nvflare.lighter.utils import verify_folder_signature_and_get_signers

from hdpstats.engines.collecting import TASKS
from hdpstats.engines.flare import CONTENT, PARTICIPATION, REQUEST, SITES
from hdpstats.engines.participant import Participant, keep_apart


@final
class RequestExecutor(Executor):
    """Answers the request of its job at one site. It takes no argument: nothing about a site is for a job to say."""

    def __init__(self) -> None:
        super().__init__()
        self._participant: Participant | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002  (FLARE's signature)
        """Answer a task of `hdpstats.engines.collecting`."""
        if task_name not in TASKS:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            participant = self._participant or self._made(fl_ctx)
            content = shareable.get(CONTENT)
            reply = participant.reply(task_name, content if isinstance(content, dict) else {})
            made = Shareable()
            made[CONTENT] = {"release": reply.release, "refusal": reply.refusal}
        except Exception:  # its text could quote what it met, and FLARE's log leaves the site
            made = Shareable()
            made[CONTENT] = {"release": None, "refusal": "unavailable"}
        return made

    def _made(self, fl_ctx: FLContext) -> Participant:
        workspace: Workspace = fl_ctx.get_engine().get_workspace()
        site, job = fl_ctx.get_identity_name(), fl_ctx.get_job_id()
        config = Path(workspace.get_app_config_dir(job))
        participation = Path(workspace.get_file_path_in_site_config(PARTICIPATION))
        keep_apart(participation, site=site)
        self._participant = Participant(
            name=site,
            participation=participation,
            request=config / REQUEST,
            sites=config / SITES,
            signers=_signers(workspace, job),
        )
        return self._participant


def _signers(workspace: Workspace, job: str) -> frozenset[str]:
    """Return the names of those who signed a job; nobody where it has no signature."""
    folder = Path(workspace.get_app_dir(job))
    if not (folder / NVFLARE_SIG_FILE).exists():
        return frozenset()
    whole, signers = verify_folder_signature_and_get_signers(
        str(folder), workspace.get_file_path_in_startup("rootCA.pem")
    )
    if not whole or not signers:
        raise PermissionError("the signature of the job does not hold")
    return frozenset(name for name, *_ in signers)
