"""Files that commands write replace nothing that somebody else put there, and are whole."""

import errno
import os

import pytest

import hdpstats.api as hdp
from hdpstats._base import new_files
from hdpstats._base.new_files import check_new, new_file, write_new


def test_a_new_file_is_written_as_a_whole(tmp_path):
    before = os.umask(0o027)
    try:
        with new_file(tmp_path / "out.json") as place:
            place.write_text("whole")
            assert not (tmp_path / "out.json").exists()
    finally:
        os.umask(before)
    assert (tmp_path / "out.json").read_text() == "whole"
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]


def exchanged(out):
    """Write a file, to whose place another one comes meanwhile."""
    with new_file(out) as place:
        place.write_text("mine")
        out.write_text("theirs")


def broken(out):
    with new_file(out) as place:
        place.write_text("half")
        raise ZeroDivisionError


def test_nothing_is_left_of_a_file_that_was_not_completed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        broken(tmp_path / "out.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link", "pipe"])
def test_what_is_there_is_not_replaced(tmp_path, kind):
    out, other = tmp_path / "out.json", tmp_path / "other"
    other.write_text("theirs")
    makes = {
        "file": lambda: out.write_text("theirs"),
        "folder": out.mkdir,
        "link": lambda: out.symlink_to(other),
        "dangling link": lambda: out.symlink_to(tmp_path / "gone"),
        "pipe": lambda: os.mkfifo(out),
    }
    makes[kind]()
    before = out.lstat()
    for write in (lambda: write_new(out, "mine"), lambda: check_new(out)):
        with pytest.raises(hdp.ArgumentError, match="name a new file, or move that one away"):
            write()
    assert out.lstat() == before
    assert other.read_text() == "theirs"


def test_what_comes_meanwhile_is_not_replaced_either(tmp_path):
    out = tmp_path / "out.json"
    with pytest.raises(hdp.ArgumentError, match="is not replaced"):
        exchanged(out)
    assert out.read_text() == "theirs"


@pytest.mark.parametrize("event", ["another comes", "it is moved away", "looking is interrupted"])
def test_what_comes_as_an_earlier_one_is_replaced_is_put_back(tmp_path, monkeypatch, event):
    out, exchange, looked = tmp_path / "out.json", new_files._exchanged, []
    out.write_text("mine: half")

    def coming(new, place):
        if not looked:
            out.write_text("theirs")
        looked.append(new)
        done = exchange(new, place)
        if len(looked) == 1 and event == "it is moved away":
            out.rename(tmp_path / "away.json")
        return done

    def same(place):
        if looked and event == "looking is interrupted":
            raise KeyboardInterrupt
        return place.read_text().startswith("mine")

    monkeypatch.setattr(new_files, "_exchanged", coming)
    with pytest.raises(KeyboardInterrupt if "looking" in event else hdp.ArgumentError):
        write_new(out, "mine: whole", same=same)
    assert out.read_text() == "theirs"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["away.json", "out.json"]["moved" not in event :]


def test_an_earlier_one_of_the_same_is_replaced(tmp_path):
    out = tmp_path / "out.json"
    out.write_text("mine: half")
    write_new(out, "mine: whole", same=lambda place: place.read_text().startswith("mine"))
    assert out.read_text() == "mine: whole"


def test_without_links_nothing_is_replaced(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(new_files.os, "link", none)
    write_new(tmp_path / "out.json", "mine")
    assert (tmp_path / "out.json").read_text() == "mine"
    with pytest.raises(hdp.ArgumentError):
        exchanged(tmp_path / "other.json")
    assert (tmp_path / "other.json").read_text() == "theirs"


def test_a_place_without_a_folder_is_refused(tmp_path):
    with pytest.raises(hdp.ArgumentError, match="there is no folder"):
        write_new(tmp_path / "none" / "out.json", "mine")
