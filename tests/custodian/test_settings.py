"""The settings of a site, and the command line."""

import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import jwt
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import SiteSettings, open_site, serving
from hdpstats.custodian.kept_head import account_for_serving
from hdpstats.ledger import SigningKey
from tests.custodian.institution import open_account
from tests.custodian.people import PRIVATE, SCHEMA

CHANGES = {
    "an unknown entry": ({"colour": "red"}, "colour"),
    "another format": ({"format": "other"}, "format"),
    "data that are not there": ({"data": "none.parquet"}, "data"),
    "a dictionary that is not there": ({"schema": "none.yaml"}, "schema"),
    "no dataset": ({"ledger": {"place": "ledger.db"}}, "dataset"),
    "a head without its number": ({"heads": {"head": "0" * 64}}, "entries"),
    "a head that is none": ({"heads": {"head": "0", "entries": 1}}, "SHA-256"),
    "heads nowhere": ({"heads": {"entries": 1}}, "heads"),
    "heads in a file of another kind": ({"heads": {"database": "heads.db"}}, "URL"),
    "a password that is not there": (
        {"ledger": {"place": "postgresql://s@h/l", "dataset": "t", "password_variable": "NO_SUCH_VARIABLE"}},
        "NO_SUCH_VARIABLE",
    ),
    "no amount": ({"ledger": {"place": "l.db", "dataset": "t", "epsilon": "much"}}, "epsilon"),
    "an unknown word for the ledger": ({"ledger": {"place": "l.db", "dataset": "t", "eps": 1}}, "eps"),
    "a port beyond all ports": ({"listen": {"host": "127.0.0.1", "port": 70000}}, "port"),
    "tokens of nobody": ({"tokens": {"audience": "trial"}}, "tokens"),
    "issuer in the open": ({"tokens": {"audience": "t", "issuer": "http://i"}}, "issuer"),
    "keys in the open": ({"tokens": {"audience": "t", "issuer": "https://i", "jwks": "http://i"}}, "jwks"),
    "bound to a word": ({"tokens": {"audience": "t", "key": "site.yaml", "bound": "yes"}}, "bound"),
    "an unknown mechanism": ({"analysts": {"ann": {"mechanisms": ["objective"]}}}, "objective"),
    "an unknown model": ({"analysts": {"ann": {"models": ["logit"]}}}, "logit"),
    "an unknown column": ({"analysts": {"ann": {"models": "all", "columns": ["z"]}}}, "'z'"),
    "no list": ({"analysts": {"ann": {"columns": "x"}}}, "list"),
    "an unknown entry of an analyst": ({"analysts": {"ann": {"rows": 1}}}, "rows"),
    "a cap for some": ({"analysts": {"ann": {"models": "all", "epsilon": 1}, "bob": {"models": "all"}}}, "bob"),
    "a delta without an epsilon": ({"analysts": {"ann": {"models": "all", "delta": 0.1}}}, "epsilon"),
    "an unknown limit": ({"limits": {"speed": 1}}, "speed"),
    "no time at all": ({"limits": {"seconds": 0}}, "seconds"),
    "an unknown entry of the timing": ({"timing": {"slot": 1}}, "slot"),
    "slots of no length": ({"timing": {"grid": 0}}, "grid"),
    "slots shorter than predicted": ({"timing": {"factor": 0.5}}, "factor"),
    "no request a minute": ({"timing": {"requests": 0}}, "requests"),
    "stopped before the first overrun": ({"timing": {"overruns": 0}}, "overruns"),
}


@pytest.fixture
def path(institution):
    return institution.write("settings", PRIVATE, SCHEMA)


def changed(path, changes):
    other = path.with_name("other.yaml")
    fields = yaml.safe_load(path.read_text()) | changes
    other.write_text(yaml.safe_dump(fields))
    other.chmod(0o600)
    return other


def opened(path, changes):
    """Write changed settings, and open the account that they name."""
    open_account(yaml.safe_load(path.read_text()) | changes, path.parent)
    path.with_name("other.cells.json").unlink(missing_ok=True)  # it is another site every time
    return SiteSettings.from_yaml(changed(path, changes))


@pytest.mark.parametrize("change", CHANGES)
def test_settings_that_are_refused(path, change):
    changes, word = CHANGES[change]
    with pytest.raises(hdp.ArgumentError, match=word):
        SiteSettings.from_yaml(changed(path, changes))


def test_settings_that_lack_something(path):
    fields = yaml.safe_load(path.read_text())
    for name in set(fields) - {"limits", "timing"}:
        other = path.with_name("other.yaml")
        other.write_text(yaml.safe_dump({key: value for key, value in fields.items() if key != name}))
        with pytest.raises(hdp.ArgumentError, match=name):
            SiteSettings.from_yaml(other)


@pytest.mark.parametrize("text", ["[", "format: a\nformat: b\n", "- 1\n", ""])
def test_a_file_of_settings_that_cannot_be_read(tmp_path, text):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(hdp.ArgumentError, match="settings"):
        SiteSettings.from_yaml(path)


def test_amounts_are_exact_also_where_yaml_reads_a_text(path):
    terms = {"place": "exact.db", "dataset": "t", "epsilon": "1e-1", "delta": "1e-6"}
    assert account_for_serving(opened(path, {"ledger": terms})).budget == hdp.Budget(epsilon=0.1, delta=1e-6)


def test_caps_are_granted_when_a_site_opens_and_an_account_may_exist_already(path):
    hdp.Ledger(path.with_name("own.db"), dataset="t", epsilon=2)
    changes = {"ledger": {"place": "own.db", "dataset": "t"}, "analysts": {"ann": {"models": "all", "epsilon": 1}}}
    ledger = account_for_serving(SiteSettings.from_yaml(changed(path, changes)))
    assert ledger.budget == hdp.Budget(epsilon=2)
    assert ledger.caps["ann"].total == hdp.Budget(epsilon=1)
    with pytest.raises(hdp.LedgerError):
        account_for_serving(SiteSettings.from_yaml(changed(path, {"ledger": {"place": "none.db", "dataset": "t"}})))


def test_a_site_of_csv_rows_and_one_of_parquet_rows_are_the_same(path):
    PRIVATE.to_csv(path.with_name("rows.csv"), index=False)
    path.with_name("rows.csv").chmod(0o600)
    ledger = {"place": "csv.db", "dataset": "t", "epsilon": 10}
    site = open_site(opened(path, {"data": "rows.csv", "ledger": ledger}))
    columns = list(SCHEMA)
    own = open_site(SiteSettings.from_yaml(path))._table.admit(columns)
    read = site._table.admit(columns)
    assert {name: values.tolist() for name, values in read.numeric.items()} == {
        name: values.tolist() for name, values in own.numeric.items()
    }
    assert read.codes["g"].tolist() == own.codes["g"].tolist()


def test_persons_with_several_rows(path):
    frame = PRIVATE.assign(pid=[row // 2 for row in range(len(PRIVATE))])
    frame.to_parquet(path.with_name("long.parquet"))
    path.with_name("long.parquet").chmod(0o600)
    persons = {"unit": "pid", "max_rows_per_unit": 2, "n_max": 199}
    ledger = {"place": "long.db", "dataset": "t", "epsilon": 1}
    changes = {"data": "long.parquet", "persons": persons, "ledger": ledger}
    site = open_site(opened(path, changes))
    assert (site.unit, site.most_rows, site.records) == ("pid", 2, 199)


def test_check_says_what_would_be_served(path, capsys):
    assert main(["site", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "ann may ask for everything" in shown
    assert "Ledger of dataset 'trial'" in shown
    assert "request files are not answered: no analyst has a key" in shown
    assert repr(PRIVATE["secret"].iloc[0]) not in shown


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"unsigned": "admitted"}, "request files are answered of ann without a signature"),
        ({"keys": {"ann": "signer.pub"}, "approval": "required"}, "answered signed by ann, each after an approval"),
    ],
)
def test_check_says_whose_request_files_are_answered(path, requests, words):
    if not path.with_name("signer.pub").exists():
        SigningKey.generate().write(path.with_name("signer"))
    settings = opened(path, {"requests": requests})
    assert words in serving.request_files(settings)


def test_check_refuses_certificates_that_do_not_belong_together(path, institution, capsys):
    tls = yaml.safe_load(path.read_text())["tls"] | {"key": str(institution.ann_files[1])}
    assert main(["site", "check", str(changed(path, {"tls": tls}))]) == 2
    assert "belong together" in capsys.readouterr().err


def test_keys_and_tokens_from_the_command_line(institution, running, tmp_path, capsys):
    assert main(["site", "key", str(tmp_path / "mine")]) == 0
    assert stat.S_IMODE((tmp_path / "mine.key").stat().st_mode) == 0o600
    assert main(["site", "key", str(tmp_path / "mine")]) == 2
    capsys.readouterr()
    words = ["site", "token", "--key", str(institution.secret), "--analyst", "ann", "--audience", "trial"]
    assert main([*words, "--hours", "1", "--certificate", str(institution.ann_files[0])]) == 0
    with institution.connect(running, token=capsys.readouterr().out.strip()) as site:
        assert site.analyst == "ann"
    assert main([*words, "--certificate", str(institution.secret)]) == 2
    assert main([*words[:3], str(tmp_path / "mine.pub"), *words[4:]]) == 2


def test_a_token_is_for_a_certificate_unless_the_word_is_said(institution, capsys):
    words = ["site", "token", "--key", str(institution.secret), "--analyst", "ann", "--audience", "trial"]
    assert main(words) == 2
    assert "--certificate" in capsys.readouterr().err
    assert main([*words, "--unbound", "--certificate", str(institution.ann_files[0])]) == 2
    capsys.readouterr()
    assert main([*words, "--unbound"]) == 0
    claims = jwt.decode(capsys.readouterr().out.strip(), options={"verify_signature": False})
    assert "cnf" not in claims


@pytest.mark.parametrize("mode", [0o660, 0o604, 0o622, 0o666])
def test_a_key_that_others_may_read_signs_no_token(tmp_path, institution, capsys, mode):
    assert main(["site", "key", str(tmp_path / "open")]) == 0
    (tmp_path / "open.key").chmod(mode)
    words = ["site", "token", "--key", str(tmp_path / "open.key"), "--analyst", "ann", "--audience", "trial"]
    assert main([*words, "--certificate", str(institution.ann_files[0])]) == 2
    assert "chmod 600" in capsys.readouterr().err


def test_the_extra_of_the_service_has_what_reads_rows():
    extras = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", each).group().lower() for each in extras["optional-dependencies"]["sites"]}
    assert needed >= {"cryptography", "fastapi", "h11", "httpx", "psycopg", "pyarrow", "pyjwt"}


@pytest.mark.wide
def test_a_missing_extra_is_named():
    script = (
        "import sys; sys.modules['fastapi'] = sys.modules['httpx'] = None\n"
        "from hdpstats.cli import main; code = main(['site', 'check', 'none.yaml'])\n"
        "import hdpstats.api as hdp\n"
        "try:\n    hdp.connect('https://127.0.0.1:1', token='t')\n"
        "except hdp.ArgumentError as error:\n    print(code, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 ")
    assert "pip install httpx" in done.stdout
    assert "pip install '.[sites]'" in done.stderr
