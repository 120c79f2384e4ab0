"""Files of a site that others may read, write or replace are refused, and nothing else is."""

import grp
import os
import pwd
import shutil
import stat
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import Overruns, SiteSettings, files, note, open_site, serving
from hdpstats.custodian.files import check_file, check_folders, mode_of, write_durably
from hdpstats.custodian.serving import check_files
from tests.custodian.people import PRIVATE, SCHEMA
from tests.custodian.test_refusals import histogram


@pytest.fixture
def path(institution, tmp_path):
    """The settings of a site."""
    settings = institution.write("files", PRIVATE, SCHEMA)
    yield settings
    shutil.rmtree(settings.parent)


def changed(path, **changes):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))
    return SiteSettings.from_yaml(path)


@pytest.fixture
def file(tmp_path):
    """A file in a folder of a folder."""
    place = tmp_path / "above" / "apart" / "rows"
    place.parent.mkdir(parents=True)
    place.touch(mode=0o600)
    return place


def refused(file, words, **options):
    with pytest.raises(hdp.ArgumentError, match=f"^data: .*{words}"):
        check_file(file, name="data", **options)


@pytest.mark.parametrize(
    ("mode", "believed", "private"),
    [(0o600, True, True), (0o400, True, True), (0o644, True, False), (0o640, True, False), (0o444, True, False),
     (0o602, False, False), (0o660, False, False), (0o666, False, False)],
)  # fmt: skip
def test_modes(file, mode, believed, private, monkeypatch):
    monkeypatch.setattr(files, "ROOT", 4711)
    file.chmod(mode)
    for accepted, options in ((believed, {}), (private, {"private": True})):
        if accepted:
            check_file(file, name="data", **options)
        else:
            refused(file, r"chmod (go-w|600)", **options)


@pytest.mark.parametrize(("mode", "accepted"), [(0o640, True), (0o440, True), (0o660, False), (0o644, False)])
def test_a_group_may_read_what_root_gave_it(file, mode, accepted, monkeypatch):
    """systemd's `LoadCredential=` with `User=` shows its list of users as a group that may read."""
    monkeypatch.setattr(files, "ROOT", file.stat().st_uid)
    file.chmod(mode)
    if accepted:
        check_file(file, name="data", private=True)
    else:
        refused(file, "chmod 600 .*chmod 640", private=True)


@pytest.mark.parametrize(
    ("place", "mode", "accepted"),
    [("apart", 0o777, False), ("apart", 0o775, False), ("apart", 0o1777, False),
     ("above", 0o777, False), ("above", 0o775, False), ("above", 0o1777, True)],
)  # fmt: skip
@pytest.mark.parametrize("by_link", [False, True])
def test_folders(file, tmp_path, place, mode, accepted, by_link):
    """A journal beside a database is read as part of it; in /tmp nobody replaces what is another's."""
    named = tmp_path / "link" if by_link else file
    if by_link:
        named.symlink_to(file)
    {"apart": file.parent, "above": file.parent.parent}[place].chmod(mode)
    if accepted:
        check_file(named, name="data")
    else:
        refused(named, f"{place} \\(mode {mode:04o}\\), and so replace .* or put files beside it")


def test_the_folder_of_a_link_is_looked_at_too(file, tmp_path):
    link = tmp_path / "links" / "rows"
    link.parent.mkdir()
    link.symlink_to(file)
    check_file(link, name="data")
    link.parent.chmod(0o777)
    refused(link, "links .*go-w")
    refused(link.parent / ".." / "links" / "rows", "links .*go-w")


@pytest.mark.parametrize("of_folder", [False, True])
def test_links_in_the_middle_of_the_way_are_looked_at(file, tmp_path, of_folder, monkeypatch):
    """Who replaces a link that another link leads through decides which file is read."""
    middle, named = tmp_path / "shared" / "current", tmp_path / "own" / "rows"
    for link, target in ((middle, file.parent if of_folder else file), (named, middle)):
        link.parent.mkdir()
        link.symlink_to(target)
    path = named / file.name if of_folder else named
    check_file(path, name="data", private=True)
    middle.parent.chmod(0o777)
    refused(path, "shared .*go-w", private=True)
    middle.parent.chmod(0o755)
    right = Path.lstat

    def lstat(self):
        found = list(right(self))
        return os.stat_result([*found[:4], found[4] + (self == middle), *found[5:]])

    monkeypatch.setattr(Path, "lstat", lstat)
    refused(path, "current belongs to another user", private=True)


@pytest.mark.parametrize("mounted", ["apart", "above"])
def test_below_what_is_mounted_read_only_modes_of_folders_count(file, mounted, monkeypatch):
    """With `ProtectSystem=strict` a service sees read-only what others on the machine write."""
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([0] * 8 + [os.ST_RDONLY, 255, 0]))
    place = {"apart": file.parent, "above": file.parent.parent}[mounted]
    mounts = file.with_name("mounts")
    mounts.write_text(f"36 35 8:1 /srv {place} ro - ext4 t rw\n")
    monkeypatch.setattr(files, "MOUNTS", mounts)
    file.parent.chmod(0o777)
    if mounted == "apart":
        check_file(file, name="data")
    else:
        refused(file, "apart .*go-w")


def test_a_journal_that_another_user_left_beside_a_ledger_is_refused(path, monkeypatch):
    """SQLite would read it as part of the ledger."""
    left, right = path.with_name("ledger.db-journal"), Path.lstat
    left.touch(mode=0o600)

    def lstat(self):
        found = list(right(self))
        return os.stat_result([*found[:4], found[4] + (self.name == left.name), *found[5:]])

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(hdp.ArgumentError, match=r"ledger: .*journal belongs to another user"):
        check_files(SiteSettings.from_yaml(path))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    check_folders(tmp_path / "ledger.db", name="ledger")
    with pytest.raises(hdp.ArgumentError, match=r"ledger: there is no folder .*none on the way .*make it"):
        check_folders(tmp_path / "none" / "ledger.db", name="ledger")


@pytest.mark.parametrize("owned", ["link", "rows", "apart", "above"])
def test_what_belongs_to_another_user_is_refused_and_what_belongs_to_root_is_not(file, tmp_path, owned, monkeypatch):
    link, right, owner = tmp_path / "link", Path.lstat, {}
    link.symlink_to(file)

    def lstat(self):
        found = list(right(self))
        return os.stat_result([*found[:4], owner.get(self.name, found[4]), *found[5:]])

    monkeypatch.setattr(Path, "lstat", lstat)
    for accepted in (os.geteuid(), 0):
        owner[owned] = accepted
        check_file(link, name="data")
    owner[owned] = os.geteuid() + 1
    refused(link, f"{owned} belongs to another user .*chown")


def test_a_file_out_of_reach_is_named(file, monkeypatch):
    def out_of_reach(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "lstat", out_of_reach)
    refused(file, "Permission denied")


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """A volume as Kubernetes makes it with `fsGroup`: of a group of this process, which has no other member."""
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o2775)
    monkeypatch.setattr(grp, "getgrgid", lambda number: {}[number])
    monkeypatch.setattr(pwd, "getpwall", list)
    return folder


EVE = pwd.struct_passwd(("eve", "x", 4713, os.getegid(), "", "/", "/bin/sh"))


@pytest.mark.parametrize("odd", ["mode", "group", "no setgid", "member", "first group", "file"])
def test_a_group_that_this_process_has_alone_is_not_others(volume, odd, monkeypatch):
    file = volume / "kept.head"
    file.touch()
    for mode in (0o660, 0o440):
        file.chmod(mode)
        check_file(file, name="data", private=True)
    file.chmod(0o660)
    if odd == "mode":
        volume.chmod(0o2777)
    elif odd == "group":
        monkeypatch.setattr(os, "getgroups", list)
        monkeypatch.setattr(os, "getegid", lambda: 4713)
    elif odd == "no setgid":
        volume.chmod(0o775)
    elif odd == "member":
        monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("rows", "x", number, ["eve"])))
    elif odd == "first group":
        monkeypatch.setattr(pwd, "getpwall", lambda: [EVE])
    else:
        monkeypatch.setattr(files, "_status", partial(of_another_group, files._status, file))
    refused(file, "others than the owner may (read or )?write", private=True)


def of_another_group(status, file, path, **options):
    found = status(path, **options)
    return os.stat_result([*found[:5], 4713, *found[6:]]) if path == file else found


def test_ledger_and_state_may_be_in_a_volume_of_the_services_own_group(path, volume):
    """`fsGroup` gives its group the permission to read and write every file when the volume is mounted again."""
    ledger = yaml.safe_load(path.read_text())["ledger"] | {"place": str(volume / "ledger.db")}
    path.with_name("ledger.db").rename(volume / "ledger.db")
    settings = changed(path, ledger=ledger, state=str(volume), heads={"file": str(volume / "kept.head")})
    note(settings)
    open_site(settings).answer(histogram(epsilon=str(Fraction(1, 10))))
    for each in volume.iterdir():
        each.chmod(0o660)
    (volume / "site.cells.json").chmod(0o640)
    open_site(SiteSettings.from_yaml(path))
    assert mode_of(volume / "ledger.db") == 0o660
    for mode in (0o664, 0o662):
        (volume / "site.cells.json").chmod(mode)
        with pytest.raises(hdp.ArgumentError, match="others than the owner may read or write"):
            open_site(SiteSettings.from_yaml(path))


@pytest.mark.parametrize("mode", [0o444, 0o644, 0o646])
@pytest.mark.parametrize(
    ("kind", "flags", "shared"),
    [("tmpfs", os.ST_RDONLY, ""), ("tmpfs", 0, ""), ("ext4", os.ST_RDONLY, ""), ("tmpfs", os.ST_RDONLY, "/run")],
)
def test_everybody_may_read_a_secret_in_memory_that_is_mounted_read_only(file, mode, kind, flags, shared, monkeypatch):
    """Kubernetes mounts secrets so, in a folder of mode 1777; a service may also see ``/run`` of a machine so."""
    monkeypatch.setattr(files, "ROOT", 4711)
    device = file.stat().st_dev
    mounts = file.with_name("mounts")
    mounts.write_text(
        "1 2 999:999 / / rw - ext4 a rw\n"
        f"36 35 {os.major(device)}:{os.minor(device)} / {file.parent} ro - {kind} t rw,size=64k\n"
    )
    if shared:
        mounts.write_text(
            f"{mounts.read_text()}37 35 {os.major(device)}:{os.minor(device)} / {shared} ro - tmpfs t rw\n"
        )
    monkeypatch.setattr(files, "MOUNTS", mounts)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([0] * 8 + [flags, 255, 0]))
    file.chmod(mode)
    if flags:
        file.parent.chmod(0o1777)
    if flags and kind == "tmpfs" and not shared and mode != 0o646:
        check_file(file, name="data", private=True)
    else:
        refused(file, "others than the owner may read or write", private=True)


@pytest.mark.parametrize("name", ["rows.parquet", "own.key"])
def test_secrets_that_others_may_read_are_not_served(institution, path, name):
    shutil.copy(institution.site_files[1], path.with_name("own.key"))
    path.with_name("own.key").chmod(0o600)
    tls = yaml.safe_load(path.read_text())["tls"] | {"key": "own.key"}
    settings = changed(path, tls=tls)
    open_site(settings)
    path.with_name(name).chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match="chmod 600"):
        open_site(settings)
    assert main(["site", "check", str(path)]) == 2


@pytest.mark.parametrize("name", ["authority.pem", "tokens.pub"])
def test_what_a_site_believes_must_not_be_written_by_others(institution, path, name):
    trusted = institution.folder / name
    trusted.chmod(0o666)
    try:
        with pytest.raises(hdp.ArgumentError, match="go-w"):
            open_site(SiteSettings.from_yaml(path))
    finally:
        trusted.chmod(0o644)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("issuer-ca.pem", "tokens: ca"),
        ("dictionary.yaml", "schema"),
        ("site.overruns.db", "timing"),
        ("elsewhere.head", "heads: file"),
    ],
)
def test_whatever_decides_for_a_site_must_not_be_written_by_others(institution, path, name, found):
    shutil.copy(institution.authority.path, path.with_name("issuer-ca.pem"))
    tokens = {"audience": "trial", "issuer": "https://id.example", "ca": "issuer-ca.pem"}
    settings = changed(path, tokens=tokens, heads={"file": "elsewhere.head"})
    note(settings)
    Overruns(settings.overruns)
    open_site(SiteSettings.from_yaml(path))
    path.with_name(name).chmod(0o622)
    with pytest.raises(hdp.ArgumentError, match=f"{found}: .*go-w"):
        open_site(SiteSettings.from_yaml(path))


@pytest.mark.parametrize("name", ["schema", "data", "ledger"])
def test_what_a_site_believes_must_not_be_replaced_by_others(path, name):
    fields, folder = yaml.safe_load(path.read_text()), path.with_name("apart")
    folder.mkdir()
    entry = fields["ledger"]["place"] if name == "ledger" else fields[name]
    path.with_name(entry).rename(folder / entry)
    place = f"apart/{entry}"
    changed(path, **{name: {**fields["ledger"], "place": place} if name == "ledger" else place})
    open_site(SiteSettings.from_yaml(path))
    folder.chmod(0o1777)
    with pytest.raises(hdp.ArgumentError, match=f"{name}: .*apart"):
        open_site(SiteSettings.from_yaml(path))


def test_a_file_that_was_there_is_not_written_on_the_way_to_a_new_one(path):
    own, left = path.with_name("own"), path.with_name("kept.new")
    own.write_text("as it was")
    left.symlink_to(own)
    write_durably(path.with_name("kept"), "new")
    assert (own.read_text(), path.with_name("kept").read_text()) == ("as it was", "new")
    assert mode_of(path.with_name("kept")) == 0o600
    path.with_name("folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durably(path.with_name("folder"), "new")
    assert {each.name for each in path.parent.glob("*.new")} == {"kept.new"}


def test_a_folder_where_others_may_put_code_is_refused(path, monkeypatch):
    folder = path.with_name("numba") / "models_1"
    folder.mkdir(parents=True)
    monkeypatch.setattr(serving, "kept_code", lambda: [folder])
    settings = SiteSettings.from_yaml(path)
    check_files(settings)
    folder.chmod(0o1777)
    with pytest.raises(hdp.ArgumentError, match=r"compiled code \(NUMBA_CACHE_DIR\): .*put files beside it"):
        check_files(settings)


def test_settings_that_others_may_write_are_refused(path):
    path.chmod(0o644)
    SiteSettings.from_yaml(path)
    path.chmod(0o666)
    with pytest.raises(hdp.ArgumentError, match="go-w"):
        SiteSettings.from_yaml(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"ledger": {"place": "postgresql://site:secret@db/ledgers", "dataset": "t"}},
        {"heads": {"database": "postgresql://db/heads?user=site&password=secret"}},
    ],
)
def test_settings_with_a_password_must_be_their_owners_alone(path, entry):
    changed(path, **entry)
    path.chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match="chmod 600") as caught:
        SiteSettings.from_yaml(path)
    assert "secret" not in str(caught.value)


def test_a_ledger_is_its_owners_alone(path):
    place = path.with_name("ledger.db")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.chmod(0o666)
    site = open_site(SiteSettings.from_yaml(path))
    site.answer(histogram(epsilon=str(Fraction(1, 10))))
    for each in path.parent.glob("ledger.db*"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
