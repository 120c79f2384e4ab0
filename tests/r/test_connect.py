"""R connects to sites in processes of their own, with certificates, and gets what Python gets."""

import json

import pytest

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from tests.custodian.institution import Institution
from tests.custodian.people import PUBLIC, SCHEMA, people

CODE = """
library(hdpstats)
told <- jsonlite::read_json("told.json", simplifyVector = TRUE)
sites <- lapply(told$urls, dp_connect, token = told$token, ca = told$ca, cert = told$cert)
print(sites$Oslo)
cat("facts:", sites$Oslo$records, sites$Oslo$analyst, is.null(sites$Oslo$permissions$columns), "\\n")
rows <- dp_dummy(sites$Oslo, 200, seed = 3)
rehearsal <- dp_study(rows, read.csv("public.csv"), sites$Oslo$schema, budget = dp_budget(1))
cat("rehearsed:", nobs(dp_logit(y ~ x + g, rehearsal, 1)), "\\n")
study <- dp_study(sites, read.csv("public.csv"), deadline = 600)
fit <- dp_logit(y ~ x + g, study, 1, describe = FALSE)
dp_write_result(fit, "several.json")
alone <- dp_logit(y ~ x, dp_study(sites$Oslo, read.csv("public.csv")), 0.5, describe = FALSE)
cat("sites:", dp_sites(fit)$site, "|", dp_sites(fit)$status, "| alone:", nobs(alone), "\\n")
account <- dp_ledger(sites$Oslo)
cat("received:", account$spent[["epsilon"]], nrow(as.data.frame(account)), account$dataset, "\\n")
print(account)
accounts <- dp_ledger(study)
cat("received together:", accounts$Oslo$spent[["epsilon"]], accounts$Bergen$spent[["epsilon"]],
    as.data.frame(accounts)$site, dp_ledger(dp_at(study, "Bergen"))$dataset, "\\n")
refused <- function(expression) {
  error <- tryCatch(expression, error = identity)
  cat("refused:", class(error)[[1]], "|", conditionMessage(error), "|", deparse(conditionCall(error)), "\\n")
}
refused(dp_connect(told$urls$Oslo, "SECRET-TOKEN", told$ca, told$cert))
refused(dp_connect("http://127.0.0.1", "SECRET-TOKEN"))
refused(dp_connect(told$urls$Oslo, function() "SECRET-TOKEN", told$ca, told$cert))
refused(dp_connect(told$urls$Oslo, c("SECRET-TOKEN", "SECRET-TOKEN")))
refused(dp_connect(told$urls$Oslo, told$token, told$ca, told$cert[[1]]))
refused(dp_connect(told$urls$Oslo, told$token, told$ca))
refused(dp_dummy(1))
refused(dp_logit(y ~ x, dp_study(sites, read.csv("public.csv")), 2000, allow_large_epsilon = TRUE))
"""


@pytest.fixture
def hospitals(tmp_path):
    """Two sites by name, and their institution."""
    institution = Institution(tmp_path)
    try:
        running = {
            name: institution.launch(institution.write(name, people(300 + 100 * place, seed=20 + place), SCHEMA))
            for place, name in enumerate(("Oslo", "Bergen"))
        }
        for each in running.values():
            institution.wait(each)
        yield institution, running
    finally:
        institution.close()


def test_a_study_of_remote_sites_in_r_is_the_one_of_python(hospitals, plain_r, tmp_path):
    institution, running = hospitals
    told = {
        "urls": {name: each.url for name, each in running.items()},
        "token": institution.token(),
        "ca": str(institution.authority.path),
        "cert": list(map(str, institution.ann_files)),
    }
    (tmp_path / "told.json").write_text(json.dumps(told))
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    done = plain_r.run(CODE, folder=tmp_path)
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, printed
    lines = printed.splitlines()
    assert f"<remote site: {running['Oslo'].url}, data set 'trial', 7 declared columns;" in printed
    assert "facts: 300 ann TRUE " in lines
    assert "rehearsed: 200 " in lines
    assert "sites: Oslo Bergen | answered answered | alone: 300 " in lines
    assert "received: 1.5 2 trial " in lines
    assert "2 releases; spent epsilon = 1.5" in printed
    assert "received together: 1.5 1 Oslo Oslo Bergen trial " in lines
    refusals = [line for line in lines if line.startswith("refused:")]
    kinds = ["dp_site_error"] + ["dp_argument_error"] * 4 + ["dp_site_error", "dp_argument_error"]
    assert [line.split()[1] for line in refusals] == [*kinds, "dp_insufficient_budget"], refusals
    assert "does not accept the token" in refusals[0]
    assert "must begin with 'https://'" in refusals[1]
    assert "token must be a text" in refusals[2]
    assert "must name two files" in refusals[4]
    assert "SECRET" not in printed
    assert told["token"] not in printed

    of_r = hdp.Result.from_json(tmp_path / "several.json")
    sites = {name: institution.connect(each) for name, each in running.items()}
    of_python = hdpf.logit("y ~ x + g", data=hdp.Study(private=sites, public=PUBLIC)).fit(epsilon=1.0, describe=False)
    for site in sites.values():
        site.close()
    assert of_python.release == of_r.release
    assert [float(running[name].account().spent.epsilon) for name in running] == [1.5, 1.0]
