"""The attack on running times: yes/no questions about single cells, one timed response over HTTPS each.

Every private person has a code of his own, and a secret that a coin decided. A query holds the column

    I(exp(3 * (secret - 5) - 20 * (code - j)**2))

which is large for person ``j`` only, and for him only if his secret is above 5. What the query asks for is noise at
its epsilon; the attacker looks at the time. He learns from people whose secrets he knows how long either answer takes,
and has one response for each person whose secret he does not know. If times are independent of secrets, the number of
his right guesses is binomial(200, 1/2), whatever he makes of them: coins of different people are independent.
"""

import dataclasses
import threading
import time
from dataclasses import dataclass
from fractions import Fraction

import httpx
import numpy as np
import pandas as pd

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.mechanisms.hybrid_weights import CurveQuery
from tests.custodian.institution import PATIENT, Institution

RECORDS = 500
QUESTIONS = 200
MOST_RIGHT = 145
CALIBRATION = 20
"""People of either secret whom the attacker knows, for every family of queries."""
FAMILIES = {"curve": 100, "objective": 50, "hazard gradient": 50}
ANSWERS = (2.0, 8.0)
FIRST = 500 - QUESTIONS
SCHEMA = hdp.Schema(
    y=hdp.Binary(complete=True),
    x=hdp.Continuous(-3, 3, complete=True),
    code=hdp.Continuous(0, RECORDS, complete=True),
    secret=hdp.Continuous(0, 10, complete=True),
    time=hdp.Duration(horizon=24, unit="months", complete=True),
    event=hdp.Binary(complete=True),
)


def people(seed):
    """Return people with codes of their own, and secrets that coins decide."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.integers(0, 2, RECORDS).astype(float),
            "x": rng.normal(size=RECORDS).clip(-3, 3),
            "code": np.arange(RECORDS, dtype=float),
            "secret": rng.choice(ANSWERS, RECORDS),
            "time": np.ceil(rng.exponential(12, RECORDS)).clip(1, 24),
            "event": rng.integers(0, 2, RECORDS).astype(float),
        }
    )


def column(person):
    """Return the column that is large for one person with a high secret only."""
    return f"I(exp(3 * (secret - 5) - 20 * (code - {person})**2))"


def templates(public, *, radius, ridge):
    """Return for every family a function that returns the query about a person."""
    budget = hdp.Budget(epsilon=1000, delta=1e-3)
    with_public = hdp.Study(private=people(1), public=public, schema=SCHEMA, budget=budget)
    alone = hdp.Study(private=people(1), schema=SCHEMA, budget=budget)
    objective = hdpf.logit(f"y ~ x + {column(0)}", data=alone, row_norm=1000.0).fit(epsilon=0.01, se_share=0).query
    rounds = hdpf.hazard(f"Surv(time, event) ~ x + {column(0)}", data=with_public, intervals=24)
    gradient = rounds.fit(epsilon=0.01, mechanism=hdp.mechanisms.ClippedNewton(rounds=1)).query.rounds[0]

    def about(query, person):
        formula = query.model.formula.replace("code - 0", f"code - {person}")
        return dataclasses.replace(query, model=dataclasses.replace(query.model, formula=formula))

    def curve(person):
        return CurveQuery(
            formula=f"y ~ x + {column(person)}",
            candidates=((0.0, 0.0, 0.0),),
            scale=(1.0, 1.0, 1.0),
            radius=Fraction(radius),
            ridge=Fraction(ridge),
            epsilon=Fraction(1, 100),
            schema_sha256=SCHEMA.sha256,
            public_sha256=None,
        )

    return {
        "curve": curve,
        "objective": lambda person: about(objective, person),
        "hazard gradient": lambda person: about(gradient, person),
    }


@dataclass(frozen=True)
class Response:
    """What an attacker sees of one answer: seconds from question to answer, its slot, and how probes were answered."""

    seconds: float
    slot: float
    probes: tuple[tuple[float, float], ...]

    @property
    def beyond(self):
        """Seconds beyond the last slot before the answer."""
        return self.seconds % self.slot

    @property
    def slow_until(self):
        """When probes of a client without a token became quick, in seconds from the question."""
        if not self.probes:
            return 0.0
        usual = np.quantile([taken for _, taken in self.probes], 0.25)
        return max([at for at, taken in self.probes if taken > 1.5 * usual], default=0.0)

    @property
    def waited(self):
        """The mean time that probes took."""
        return float(np.mean([taken for _, taken in self.probes] or [0.0]))


def ask(site, query, probe=None):
    """Ask one question and return what its time shows; meanwhile ``probe`` is called again and again."""
    slot = site.quote(query).seconds
    probes, stop = [], threading.Event()

    def look(begun):
        while not stop.is_set():
            at = time.perf_counter()
            probe()
            probes.append((at - begun, time.perf_counter() - at))

    begun = time.perf_counter()
    looking = threading.Thread(target=look, args=(begun,))
    if probe is not None:
        looking.start()
    site.answer(query)
    seconds = time.perf_counter() - begun
    stop.set()
    if probe is not None:
        looking.join()
    return Response(seconds, slot, tuple(probes))


def threshold(values, answers):
    """Return the threshold and the direction that guess best where answers are known."""
    values, answers = np.asarray(values), np.asarray(answers)
    ordered = np.unique(values)
    places = (ordered[1:] + ordered[:-1]) / 2 if len(ordered) > 1 else ordered
    scores = [(np.mean((values > place) == answers), place) for place in places]
    best, worst = max(scores), min(scores)
    return (best[1], True) if best[0] >= 1 - worst[0] else (worst[1], False)


FEATURES = {
    "seconds": lambda response: response.seconds,
    "seconds beyond the slot": lambda response: response.beyond,
    "probes slow until": lambda response: response.slow_until,
    "mean of probes": lambda response: response.waited,
}


def right_guesses(learned, asked):
    """Return for every feature the number of right guesses, from responses by family with the true answers."""
    found = {}
    for name, feature in FEATURES.items():
        right = 0
        for family, responses in asked.items():
            known = learned[family]
            place, above = threshold([feature(each) for each, _ in known], [answer for _, answer in known])
            right += sum(((feature(each) > place) == above) == answer for each, answer in responses)
        found[name] = right
    return found


def attack(folder, *, probing, radius="64", ridge="1/10", seed=0):
    """Start a site, ask, and return the right guesses by feature, and all responses of either answer."""
    frame, public = people(seed), people(seed + 1).head(200)
    institution = Institution(folder)
    timing = {"requests": PATIENT["requests"], "overruns": PATIENT["overruns"]}
    try:
        running = institution.start(institution.write("timed", frame, SCHEMA, timing=timing))
        with institution.connect(running) as site, httpx.Client(verify=_trust(institution)) as stranger:
            study = hdp.Study(private=site, public=public, schema=SCHEMA)
            site.put_public(study.public)
            made = templates(public, radius=radius, ridge=ridge)

            def probe():
                stranger.get(f"{running.url}/v1/facts", headers={"authorization": "Bearer nobody"})

            def responses(family, numbers):
                found = []
                for person in numbers:
                    response = ask(site, made[family](person), probe if probing else None)
                    found.append((response, frame["secret"][person] > 5))
                return found

            known = range(2 * CALIBRATION)
            learned = {family: responses(family, known) for family in FAMILIES}
            targets, asked = iter(range(FIRST, RECORDS)), {}
            for family, number in FAMILIES.items():
                asked[family] = responses(family, [next(targets) for _ in range(number)])
        log = running.log.read_text()
    finally:
        institution.close()
    return right_guesses(learned, asked), asked, log.count('"overrun"')


def _trust(institution):
    import ssl

    context = ssl.create_default_context(cafile=institution.authority.path)
    context.load_cert_chain(*institution.ann_files)
    return context
