"""What a service writes is in a folder of its own; what was beside the settings before is moved there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import yaml

import hdpstats.api as hdp
from hdpstats.cli import main
from hdpstats.custodian import Overruns, SiteSettings, log, open_site, serving
from tests.custodian.people import PRIVATE, RECORDS, SCHEMA

HASHES, COUNTS = "site.cells.json", "site.overruns.db"


@pytest.fixture
def path(institution, tmp_path_factory):
    return institution.write(tmp_path_factory.mktemp("state").name, PRIVATE, SCHEMA)


def changed(path, **changes):
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))
    return SiteSettings.from_yaml(path)


def folder_of(path, name="state"):
    folder = path.with_name(name)
    folder.mkdir(mode=0o700)
    return folder


def names(folder):
    return {each.name for each in folder.iterdir()}


def test_what_a_service_writes_is_in_the_folder_of_its_state(path):
    state, before = folder_of(path), names(path.parent)
    settings = changed(path, state="state")
    open_site(settings)
    Overruns(settings.overruns)
    assert names(state) == {HASHES, COUNTS}
    assert {each for each in names(path.parent) - before if "ledger.db" not in each} == set()


def test_systemd_says_where_the_state_is_unless_the_settings_do(path, monkeypatch):
    given, own = folder_of(path, "given"), folder_of(path)
    assert SiteSettings.from_yaml(path).cells == path.with_name(HASHES)
    monkeypatch.setenv("STATE_DIRECTORY", f"{given}:/somewhere/else")
    assert SiteSettings.from_yaml(path).cells == given / HASHES
    assert changed(path, state="state").overruns == own / COUNTS


def test_what_was_kept_beside_the_settings_is_moved_and_goes_on(path, monkeypatch):
    settings, said = SiteSettings.from_yaml(path), []
    open_site(settings)
    for _ in range(2):
        Overruns(settings.overruns).add("ann")
    state = folder_of(path)
    moved = changed(path, state="state")
    monkeypatch.setattr(log, "write", lambda **facts: said.append(facts))
    open_site(moved)
    assert not {HASHES, COUNTS} & names(path.parent)
    assert names(state) == {HASHES, COUNTS}
    assert {Path(each["moved_from"]).name for each in said if "moved_from" in each} == {HASHES, COUNTS}
    assert Overruns(moved.overruns).of("ann") == 2
    path.with_name(COUNTS).write_bytes(b"")  # what comes there later is not looked at
    open_site(moved)
    assert Overruns(moved.overruns).of("ann") == 2


def test_state_that_cannot_be_removed_beside_the_settings_is_copied_once(path, monkeypatch):
    settings = SiteSettings.from_yaml(path)
    Overruns(settings.overruns).add("ann")
    folder_of(path)
    moved = changed(path, state="state")

    def refuse(self, **_):
        raise PermissionError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    serving.take_over_state(moved)
    monkeypatch.undo()
    Overruns(moved.overruns).add("ann")
    serving.take_over_state(moved)
    assert (Overruns(moved.overruns).of("ann"), Overruns(settings.overruns).of("ann")) == (2, 1)


def test_state_that_cannot_be_copied_is_not_begun_anew(path):
    settings = SiteSettings.from_yaml(path)
    Overruns(settings.overruns).add("ann")
    settings.overruns.write_bytes(b"no database")
    folder_of(path)
    moved = changed(path, state="state")
    with pytest.raises(hdp.ArgumentError, match="cannot be copied"):
        open_site(moved)
    assert not moved.overruns.exists()


def test_a_folder_of_the_state_is_the_custodians(path):
    folder_of(path).chmod(0o777)
    with pytest.raises(hdp.ArgumentError, match="others than the owner may write in"):
        open_site(changed(path, state="state"))
    with pytest.raises(hdp.ArgumentError, match="there is no folder"):
        open_site(changed(path, state="none"))


def test_a_folder_of_the_state_that_cannot_be_written_is_named(path):
    with pytest.raises(hdp.ArgumentError, match=r"state: .*state: FOLDER"):
        Overruns(path.with_name("none") / COUNTS)


def test_an_analyst_is_not_said_to_go_on_where_nothing_was_counted(path, capsys):
    state = folder_of(path)
    settings = changed(path, state="state")
    words = ["site", "resume", str(path), "--analyst", "ann"]
    assert main(words) == 2
    assert "STATE_DIRECTORY" in capsys.readouterr().err
    assert names(state) == set()
    Overruns(settings.overruns).add("ann")
    assert main(words) == 0
    assert str(settings.overruns) in capsys.readouterr().out
    with closing(sqlite3.connect(settings.overruns)) as connection:
        assert connection.execute("SELECT * FROM overruns").fetchall() == []
    assert main([*words[:-1], "eve"]) == 2


def in_folder(path, *frames):
    folder = folder_of(path, "rows")
    for number, frame in enumerate(frames):
        frame.to_parquet(folder / f"{number}.parquet")
        (folder / f"{number}.parquet").chmod(0o600)
    return folder


def test_a_folder_of_parquet_files_is_served_as_one_file_of_the_same_rows(path):
    key, half = bytes(32), RECORDS // 2
    parts = PRIVATE.iloc[:half], PRIVATE.iloc[half:].assign(y=lambda rows: rows["y"].astype("int64"))
    whole = open_site(SiteSettings.from_yaml(path)).fingerprint(key)
    in_folder(path, *parts)
    settings = changed(path, data="rows")
    assert open_site(settings).fingerprint(key) == whole
    (path.with_name("rows") / "1.parquet").chmod(0o644)
    with pytest.raises(hdp.ArgumentError, match=r"data: .*1\.parquet"):
        open_site(settings)


def test_rows_of_a_csv_file_with_more_cells_than_names_are_refused(path):
    """Pandas takes the first cell for a name of the row then, also in rows that have as many as they should."""
    for odd in ("1,2,3,4,5", "1,2,3,4,5,6"):
        file = path.with_name("rows.csv")
        lines = PRIVATE.to_csv(index=False).splitlines()
        extra = f"{lines[1]},{odd}"
        for rows in ([lines[0], extra, *lines[2:]], [*lines, extra]):
            file.write_text("\n".join(rows))
            file.chmod(0o600)
            with pytest.raises(hdp.ArgumentError, match="as many cells in each row"):
                serving.read_rows(file)
    file.write_text("\n".join(lines))
    assert serving.read_rows(file).shape == PRIVATE.shape


def rows_of(folder, text):
    file = folder / "rows.csv"
    file.write_bytes(text.encode())
    return serving.read_rows(file)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("cell", ["", " "])
@pytest.mark.parametrize("names", ["a", "a,b", "a,b,c"])
def test_an_empty_line_of_a_csv_file_is_a_row(tmp_path, names, cell, end):
    """Where the number of rows is public, it must not say whether all of somebody's cells are empty.

    A program that writes rows may leave out the empty cells at their end.
    """
    full = ",".join("1" * len(names.split(",")))
    for place in range(3):
        lines = [full] * 3
        lines[place] = cell
        rows = rows_of(tmp_path, end.join([names, *lines, ""]))
        assert rows.shape == (3, len(names.split(",")))
        for each in rows:
            missing = hdp.Continuous(0, 9).admit(rows[each]).missing.tolist()
            assert missing == [number == place for number in range(3)]


@pytest.mark.parametrize("row", ["", ",", "1", "1,", ",2", "1,2", '""', '"",""'])
def test_another_row_of_a_csv_file_changes_one_row(tmp_path, row):
    """Neighbours are files of which one line is another one, or more."""
    whole, other = (rows_of(tmp_path, f"a,b\n3,4\n{each}\n5,6\n") for each in ("7,8", row))
    more = rows_of(tmp_path, f"a,b\n3,4\n5,6\n{row}\n")
    assert len(whole) == len(other) == len(more) == 3
    assert other.iloc[[0, 2]].equals(whole.iloc[[0, 2]])
    assert more.iloc[2].equals(other.iloc[1].rename(2))
    assert more.iloc[:2].reset_index(drop=True).equals(whole.iloc[[0, 2]].reset_index(drop=True))


@pytest.mark.parametrize("text", ["\na,b\n1,2\n", " \r\na\n1\n", "\ufeff\na\n1\n", ""])
def test_a_csv_file_whose_first_line_names_no_column_is_refused(tmp_path, text):
    with pytest.raises(hdp.ArgumentError, match=r"first line of .*rows\.csv is empty"):
        rows_of(tmp_path, text)


def test_the_mark_at_the_start_of_a_csv_file_is_no_part_of_a_name(tmp_path):
    assert list(rows_of(tmp_path, "\ufeffa,b\n1,2\n")) == ["a", "b"]


def test_folders_that_are_refused(path):
    folder = in_folder(path, PRIVATE, PRIVATE.drop(columns="k"))
    with pytest.raises(hdp.ArgumentError, match="different columns"):
        open_site(changed(path, data="rows"))
    folder.chmod(0o1777)  # a file more would be rows more
    with pytest.raises(hdp.ArgumentError, match="put files beside"):
        open_site(SiteSettings.from_yaml(path))
    for each in folder.iterdir():
        each.unlink()
    with pytest.raises(hdp.ArgumentError, match="Parquet files"):
        SiteSettings.from_yaml(path)


def test_a_file_that_is_no_table_is_refused(path):
    folder = in_folder(path, PRIVATE)
    (folder / "1.parquet").write_bytes(b"no table")
    (folder / "1.parquet").chmod(0o600)
    with pytest.raises(hdp.ArgumentError, match="cannot be read as Parquet"):
        open_site(changed(path, data="rows"))
    assert len(pd.read_parquet(folder / "0.parquet")) == RECORDS


def test_no_overrun_is_forgotten_unseen_where_one_is_counted_while_others_are_cleared(tmp_path, monkeypatch):
    kept, right, added = Overruns(tmp_path / "overruns.db"), Overruns.of, [1]
    kept.add("ann")

    def beside(overruns, analyst):
        number = right(overruns, analyst)
        overruns.add(analyst)
        added.append(1)
        return number

    monkeypatch.setattr(Overruns, "of", beside)
    cleared = kept.clear("ann")
    assert cleared + right(kept, "ann") == len(added)
