"""Exchanges of request files in processes of which each is killed somewhere, is one of two at once, or both.

``python -m tests.custodian.killing FOLDER NUMBER SEED`` answers so many requests, each in forked processes until one of
them ends by itself, and prints what it found (JSON). The parent has everything imported, holds no ledger open and no
thread; so a child is as a process that was started anew, and a hundred times as fast.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

import hdpstats.api as hdp
from hdpstats._base.errors import InsufficientBudget
from hdpstats.custodian import answering
from hdpstats.ledger import Ledger
from hdpstats.sites import LocalSite
from tests.custodian.asked_by_files import PRICES, STUDY, Place

STEPS = ("charge", "charged", "computed", "record", "recorded", "write", "written", "ended")
BUDGET, EACH = 3.0, 0.01
REFUSED = 3


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(step, draws):
    """Have this process killed at a step, and note each draw of noise before it is made."""
    charge, persist = Ledger.charge, Ledger.persist
    compute, write = LocalSite._compute, answering.write_durably

    def charging(self, *arguments, **options):
        if step == "charge":
            _die()
        found = charge(self, *arguments, **options)
        if step == "charged":
            _die()
        return found

    def computing(self, pace, prepared):
        with draws.open("a") as file:
            file.write("draw\n")
        release = compute(self, pace, prepared)
        if step == "computed":
            _die()
        return release

    def recording(self, *arguments, **options):
        if step == "record":
            _die()
        found = persist(self, *arguments, **options)
        if step == "recorded":
            _die()
        return found

    def writing(path, content):
        if step == "write":
            _die()
        write(path, content)
        if step == "written":
            _die()

    Ledger.charge, Ledger.persist, LocalSite._compute = charging, recording, computing
    answering.write_durably = writing


def _started(place, out, step, draws, *, after):
    """Fork a process that answers the request and is killed at a step, or by the system after so many seconds."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  (until the process ends)
        _arm(step, draws)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends a process at once, whatever it does
        signal.setitimer(signal.ITIMER_REAL, after)
        answering.answer(place.settings, place.request, out, prices=PRICES)
        code = 0
    except InsufficientBudget:
        code = REFUSED
    finally:
        os._exit(code)


def _wait(children):
    """Wait for processes, and return how they ended."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def exchanged(place, number, rng, folder):
    """Exchange one request, and return what is to be compared with the ledger."""
    out, draws = folder / f"release-{number}.json", folder / f"draws-{number}"
    place.request.unlink(missing_ok=True)
    asked = hdp.request("describe", ["x", "g"], STUDY, epsilon=EACH, replicate=number + 1, path=place.request)
    killed, again, before = 0, 0, len(place.ledger.history())
    while True:
        how = (number + again) % 3 if again < 4 else 3
        step = STEPS[(number // 3 + again) % len(STEPS)] if how == 0 else None
        times = [rng.random() * 0.4 if how in (1, 2) else 0.0, *([0.0] if how == 2 else [])]
        children = [_started(place, out, step, draws, after=after) for after in times]
        ended = _wait(children)
        killed += sum(code < 0 for code in ended)
        again += 1
        if (0 in ended and how in (0, 3)) or REFUSED in ended:
            break
        if 1 in ended:
            raise RuntimeError(f"request {number} failed")
    made = out.read_bytes() if out.exists() else b""
    drawn = len(draws.read_text().splitlines()) if draws.exists() else 0
    return {
        "request": asked.sha256,
        "made": made.decode(),
        "drawn": drawn,
        "charged": len(place.ledger.history()) - before,
        "killed": killed,
        "refused": REFUSED in ended,
    }


def main(folder, number, seed):
    """Exchange so many requests, compare all with the ledger, and print what was found."""
    rng = random.Random(seed)
    place = Place(folder, ledger={"place": "ledger.db", "dataset": "trial", "epsilon": BUDGET})
    found = []
    for each in range(number):
        found.append(exchanged(place, each, rng, folder))
        if each % 50 == 49:
            sys.stderr.write(f"{each + 1} exchanges\n")
    history = place.ledger.history()
    per_request = history.groupby("request").agg(charges=("released", "size"), releases=("released", "sum"))
    stored = {json.loads(each["made"])["answers"][0]["entry"]["head"] for each in found if each["made"]}
    print(
        json.dumps(
            {
                "exchanges": number,
                "killed": sum(each["killed"] for each in found),
                "refused": sum(each["refused"] for each in found),
                "charges": len(history),
                "draws": sum(each["drawn"] for each in found),
                "draws_without_charge": sum(max(each["drawn"] - each["charged"], 0) for each in found),
                "releases": int(per_request["releases"].sum()),
                "most_releases": int(per_request["releases"].max()),
                "files": sum(bool(each["made"]) for each in found),
                "different_files": len(stored),
                "spent": float(place.ledger.spent.epsilon),
                "sum_of_charges": float(history["epsilon"].sum()),
                "total": BUDGET,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
