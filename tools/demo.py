"""The first private fit, end to end: breast-cancer relapse in 2,982 private and 686 public patients.

Run by ``make demo``. The private records are the Rotterdam tumour bank, the public ones the German trial GBSG-2.
"""

import tempfile
from pathlib import Path

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf

FORMULA = "event3 ~ age + size + grade3 + log1p(nodes) + hormon"

SCHEMA = hdp.Schema(
    age=hdp.Continuous(20, 90, complete=True),
    nodes=hdp.Continuous(0, 40, complete=True),
    size=hdp.Categorical(["<=20", "20-50", ">50"], complete=True),
    grade3=hdp.Binary(complete=True),
    hormon=hdp.Binary(complete=True),
    event3=hdp.Binary(),
)


def main() -> None:
    """Plan, fit, read, and try to overspend."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = hdp.Ledger(Path(folder) / "rotterdam.db", dataset="rotterdam", epsilon=1.5)
        study = hdp.Study(
            private=hdp.datasets.load_rotterdam(), public=hdp.datasets.load_gbsg(), schema=SCHEMA, ledger=ledger
        )
        model = hdpf.logit(FORMULA, data=study)
        _heading("1. Plan before spending")
        print(model.plan(epsilon=[0.1, 0.5, 1, 3]))
        _heading("2. Fit: the call that spends")
        result = model.fit(epsilon=1.0)
        print(result.summary())
        _heading("3. What may be said about it")
        print(result.guarantee.statement())
        _heading("4. The ledger")
        model.fit(epsilon=1.0)
        print("The same fit again was free: the stored release is returned.")
        print(ledger)
        try:
            model.fit(epsilon=0.6)
        except hdp.InsufficientBudget as refusal:
            print(f"\nA fit that would overspend is refused:\n  {refusal}")
        else:
            raise SystemExit("the ledger let an overspend through")


def _heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    main()
