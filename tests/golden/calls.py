"""The calls whose ledger and files are kept as a version wrote them: `tools/golden.py` writes them, tests read them.

A folder is never written anew once its version is released. A later version that writes otherwise adds a folder of its
own, and goes on reading the older ones.
"""

import json

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"]),
    hormon=hdp.Binary(complete=True),
    time=hdp.Duration(2557, unit="days"),
    event=hdp.Binary(),
    event3=hdp.Binary(),
)
TERMS = {"rotterdam": {}, "rotterdam, number protected": {"relation": "add_or_remove_one"}}
TOTAL = {"epsilon": 30, "delta": 1e-5, "gaussian": hdp.Budget(epsilon=5, delta=5e-6)}


def ledger(path, dataset, **options):
    """Return an account of a file, on its terms."""
    return hdp.Ledger(path, dataset=dataset, **TOTAL, **TERMS[dataset], **options)


def site(path, dataset, **options):
    """Return the site of an account: every second patient of Rotterdam."""
    declared = {"n_max": 2000} if TERMS[dataset] else {}
    rows, account = hdp.datasets.load_rotterdam().iloc[::2], ledger(path, dataset, create=False)
    return hdp.LocalSite(rows, schema=SCHEMA, ledger=account, **declared, **options)


def study(private):
    """Return the study of a site, with the patients of a trial as public rows."""
    return hdp.Study(private=private, public=hdp.datasets.load_gbsg())


def effect(data):
    """Return a treatment effect, with the propensity model that it rests on."""
    return hdp.treatment_effect("event3 ~ hormon", data, weights(data), epsilon=0.5)


CALLS = {
    "logit": lambda data: hdpf.logit("event3 ~ age + hormon", data).fit(epsilon=0.5),
    "rounds": lambda data: hdpf.logit("event3 ~ age", data).fit(epsilon=1, delta=1e-6, mechanism="clipped_newton"),
    "multinomial": lambda data: hdpf.multinomial("size ~ age", data).fit(epsilon=0.5, se_share=0, describe=False),
    "hazard": lambda data: hdpf.hazard("Surv(time, event) ~ hormon", data, intervals=6).fit(epsilon=0.5),
    "describe": lambda data: hdp.describe(data, ["age", "size"], by="hormon", epsilon=0.5),
    "survfit": lambda data: hdpf.survfit("Surv(time, event) ~ hormon", data, times=6).fit(epsilon=0.5),
    "effect": effect,
}
"""What is asked of each account, in this order."""
KEPT = ("logit", "rounds", "describe", "survfit", "effect")
"""The results of the first account that are kept as files."""


def visits(path, **options):
    """Return the study of people with two or three rows each, on an account of its own."""
    private, public = (
        rows.assign(patient=[f"p{2 * number // 5}" for number in range(len(rows))])
        for rows in (hdp.datasets.load_rotterdam().iloc[::2], hdp.datasets.load_gbsg())
    )
    account = hdp.Ledger(path, dataset="visits", unit="patient", **TOTAL, **options)
    terms = {"unit": "patient", "max_rows_per_unit": 3, "n_max": private["patient"].nunique()}
    held = hdp.LocalSite(private, schema=SCHEMA, ledger=account, **terms)
    return hdp.Study(private=held, public=public)


CALLS_OF_VISITS = {
    "visits": lambda data: hdpf.logit("event3 ~ age + hormon", data).fit(epsilon=1),
    "visits_rounds": lambda data: hdpf.logit("event3 ~ age", data, correlation=0.5).fit(
        epsilon=1, delta=1e-6, mechanism="clipped_newton"
    ),
    "visits_output": lambda data: hdpf.linear("nodes ~ age", data, correlation="independence").fit(
        epsilon=0.5, mechanism="output", se_share=0, describe=False
    ),
    "visits_levels": lambda data: hdpf.multinomial("size ~ age", data).fit(epsilon=0.5, se_share=0, describe=False),
    "visits_describe": lambda data: hdp.describe(data, ["age", "size"], epsilon=0.5),
}
"""What is asked about people with several rows; all results are kept as files."""


def weighted(path, **options):
    """Return a study of people who are asked about with weights by propensity, on an account of its own."""
    account = hdp.Ledger(path, dataset="weighted", **TOTAL, **options)
    return study(hdp.LocalSite(hdp.datasets.load_rotterdam().iloc[::2], schema=SCHEMA, ledger=account))


def weights(data):
    """Return the weights that calls about weighted people rest on."""
    return hdp.propensity("hormon ~ age", data, epsilon=2).weights("overlap")


CALLS_OF_WEIGHTED = {
    "weighted_logit": lambda data: hdpf.logit("event3 ~ hormon", data, weighting=weights(data)).fit(epsilon=0.5),
    "weighted_linear": lambda data: hdpf.linear("nodes ~ hormon", data, weighting=weights(data)).fit(
        epsilon=0.5, mechanism="output"
    ),
    "weighted_hazard": lambda data: hdpf.hazard(
        "Surv(time, event) ~ hormon", data, intervals=6, link="cloglog", weighting=weights(data)
    ).fit(epsilon=0.5),
    "weighted_balance": lambda data: hdp.describe(data, ["age"], weighting=weights(data), epsilon=0.5),
    "weighted_survfit": lambda data: hdpf.survfit(
        "Surv(time, event) ~ hormon", data, times=6, weighting=weights(data)
    ).fit(epsilon=0.5),
}
"""What is asked about weighted people, and in `CALLS_OF_WEIGHTED_VISITS` about those with several rows."""
CALLS_OF_WEIGHTED_VISITS = {
    "weighted_visits_effect": effect,
    **{name.replace("_", "_visits_"): call for name, call in CALLS_OF_WEIGHTED.items() if "hazard" not in name},
}
SETS_OF_CALLS = {
    "visits": (visits, CALLS_OF_VISITS),
    "weighted": (weighted, CALLS_OF_WEIGHTED),
    "weighted_visits": (visits, CALLS_OF_WEIGHTED_VISITS),
}
"""By the name of a ledger: the study that is asked, and the calls, of which all results are kept."""


def releases(result):
    """Return the releases that a result consists of, as its JSON has them, without their places in the ledger."""
    found = []

    def look(part):
        if isinstance(part, dict) and "events" in part and "kind" in part:
            found.append({name: value for name, value in part.items() if name != "entry"})
        elif isinstance(part, dict | list):
            for each in part.values() if isinstance(part, dict) else part:
                look(each)

    look(json.loads(result.to_json()))
    return found
