"""Ledgers in other processes: scripts that charge, and processes that run them at the same moment.

Each script finds the ledger's place, its own number, ``request_for`` and an open ledger.
"""

import subprocess
import sys

from tests import forked

PRELUDE = """
import os, signal, sys
from fractions import Fraction
from hdpstats._base.errors import InsufficientBudget
from hdpstats.ledger import Ledger, Request
from hdpstats.privacy.budget import Spend

path, worker = sys.argv[1], sys.argv[2]
def request_for(number, **query):
    return Request(dataset="trial", version=1, schema_sha256="ab" * 32, public_sha256=None,
                   query_json='{"kind":"objective","model":{"formula":"y ~ age"}}',
                   terms="replace_one, one row per person", replicate=number)
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(path, dataset="trial", epsilon=1, create=True)
"""

SPEND_ALL = """
made = 0
try:
    for number in range(1, 10**6):
        charge = ledger.charge(request_for(number + 10**6 * int(worker)), Spend(Fraction(1, 40)))
        made += 1
        ledger.persist(charge, "{}")
except InsufficientBudget:
    print(made)
"""

GAUSSIANS_AND_OTHERS = """
from hdpstats.privacy.budget import Budget
ledger = Ledger(path, dataset="mixed", epsilon=2, delta=Fraction(1, 10**6), create=True)
step = Fraction(1, 400)
for number in range(30):
    gaussian = (number + int(worker)) % 2
    cost = Spend(0, 0, step, Budget(Fraction(1, 2), Fraction(1, 10**6))) if gaussian else Spend(Fraction(1, 20))
    request = Request(dataset="mixed", version=1, schema_sha256="ab" * 32, public_sha256=None,
                      query_json='{}',
                   terms="replace_one, one row per person", replicate=1 + number + 1000 * int(worker))
    try:
        ledger.charge(request, cost)
    except InsufficientBudget:
        pass
"""

SPEND_AS_TWO_ANALYSTS = """
from hdpstats.ledger import Lease
from hdpstats.ledger.leases import given_up
analyst = ("ana", "ben")[int(worker) % 2]
for number in range(1, 18):
    request = request_for(number)
    try:
        while isinstance(charge := ledger.charge(request, Spend(Fraction(1, 20)), analyst=analyst), Lease):
            given_up(charge, lambda: ledger.lease(request.id))
    except InsufficientBudget:
        continue
    ledger.persist(charge, "{}")
"""

SPEND_AND_SAY = """
from hdpstats._base.errors import LedgerError
try:
    for number in range(1, 10**6):
        charge = ledger.charge(request_for(number + 10**6 * int(worker)), Spend(Fraction(1, 10**6)))
        print("charged", charge.request_id, flush=True)
        print("released", ledger.persist(charge, str(number)).place.head, flush=True)
except LedgerError as error:
    print(error, flush=True)
"""

SAME_REQUEST = """
from hdpstats.ledger import Lease
from hdpstats.ledger.leases import given_up
found = ledger.charge(request_for(7), Spend(Fraction(1, 2)))
if isinstance(found, Lease):
    given_up(found, lambda: ledger.lease(request_for(7).id))
elif ledger.stored(request_for(7).id) is None:
    ledger.persist(found, '{"worker":%s}' % worker)
print(ledger.stored(request_for(7).id).release_json)
"""

HOLD_UNTIL_TOLD = """
charge = ledger.charge(request_for(1), Spend(Fraction(1, 4)))
print(charge.attempt, flush=True)
sys.stdin.readline()
print(ledger.persist(charge, '{"params":[1]}').release_json, flush=True)
"""

DIE_BEFORE_PERSIST = """
ledger.charge(request_for(1), Spend(Fraction(1, 2)))
os.kill(os.getpid(), signal.SIGKILL)
"""

DIE_WITHIN_THE_TRANSACTION = """
from hdpstats.ledger.bookkeeping import Transaction
append = Transaction.append
def append_and_die(*arguments, **fields):
    append(*arguments, **fields)
    os.kill(os.getpid(), signal.SIGKILL)
Transaction.append = append_and_die
ledger.charge(request_for(1), Spend(Fraction(1, 2)))
"""


def start(script, path, worker):
    command = [sys.executable, "-c", PRELUDE + script, str(path), str(worker)]
    pipe = subprocess.PIPE
    return forked.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run_together(script, path, workers):
    """Start processes, let them go at the same moment, and return their exit codes and outputs."""
    processes = [start(script, path, worker) for worker in range(workers)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=120) for process in processes]
    assert [error for _, error in results] == [""] * workers
    return [process.returncode for process in processes], [output.strip() for output, _ in results]
