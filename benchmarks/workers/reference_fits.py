"""A discrete hazard of R on a million person-period rows, or their dense `glm`: ``python -m … HOW INTERVALS LINK``."""

import json
import resource
import sys
import time
import warnings
from typing import Any

import hdpstats.api as hdp
import r_bridge
from r_bridge import reference

COVARIATES = "age + sex + kappa + lambda_ + flc_grp"
PACKAGES = ("Matrix", "survival")
DENSE = """function(rows, link) {
  formula <- death ~ factor(interval) - 1 + age + sex + kappa + lambda_ + flc_grp
  fit <- glm(formula, binomial(link), rows, control = list(epsilon = 1e-14, maxit = 100))
  data.frame(term = names(coef(fit)), estimate = coef(fit), std_error = sqrt(diag(vcov(fit))), row.names = NULL)
}"""


def peak() -> float:
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(how: str, intervals: int, link: str) -> None:
    """Print time, memory and coefficients as JSON."""
    warnings.simplefilter("ignore", UserWarning)  # intervals without events
    frame = hdp.datasets.load_flchain()
    frame = frame[frame["futime"] > 0]
    horizon = float(frame["futime"].max())
    cuts = [horizon * s / intervals for s in range(1, intervals)] + [horizon]
    r_bridge.start()
    for name in PACKAGES:
        r_bridge.call("requireNamespace", name, quietly=True)
    before, began = peak(), time.perf_counter()
    if how == "sparse":
        table = reference.hazard_glm(f"Surv(futime, death) ~ {COVARIATES}", frame, cuts, link, baseline="dummies")
        rows = table.attrs["person_periods"]
    else:
        expanded = hdp.person_period(frame, time="futime", event="death", intervals=cuts)
        columns = ["interval", "death", *COVARIATES.split(" + ")]
        table, rows = r_bridge.call(DENSE, expanded[columns], link), len(expanded)
    seconds = time.perf_counter() - began
    record: dict[str, Any] = {
        "rows": int(rows),
        "seconds": seconds,
        "before_mb": before,
        "peak_mb": peak(),
        "estimates": table["estimate"].tolist(),
        "std_errors": table["std_error"].tolist(),
        "versions": {
            "hdpstats": hdp.__version__,
            "R": r_bridge.call("function() paste(R.version$major, R.version$minor, sep = '.')"),
            **{
                name: r_bridge.call(f"function() as.character(packageVersion('{name}'))")
                for name in ("survival", "Matrix")
            },
        },
    }
    print(json.dumps(record))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
