"""What R writes goes to Python's streams in its order, and is sent only where something else comes next."""

from contextlib import contextmanager, redirect_stderr, redirect_stdout

from r_bridge.console import Console, Streams


class Recorded:
    """A stream that notes what is done with it."""

    def __init__(self, name, notes):
        self._name, self._notes = name, notes

    def write(self, text):
        self._notes.append((self._name, text))

    def flush(self):
        self._notes.append((self._name, "is sent"))


@contextmanager
def recorded():
    notes = []
    with redirect_stdout(Recorded("stdout", notes)), redirect_stderr(Recorded("stderr", notes)):
        yield notes


def test_a_stream_is_sent_where_the_other_one_begins_and_nowhere_else():
    streams, words = Streams(), [("stdout", f"word {number}") for number in range(200)]
    with recorded() as notes:
        for name, word in [*words, ("stderr", "aside"), ("stderr", "more"), ("stdout", "last")]:
            streams.write(name, word)
    assert notes == [
        *words,
        ("stdout", "is sent"),
        ("stderr", "aside"),
        ("stderr", "more"),
        ("stderr", "is sent"),
        ("stdout", "last"),
    ]


def test_a_form_feed_and_a_question_come_after_what_was_written():
    with recorded() as notes:
        console = Console(
            lambda prompt: notes.append(("asked", prompt)) or "yes", lambda: notes.append(("cleared", ""))
        )
        console.write("stdout", "old")
        console.write("stdout", "lost\fnew")
        answer = console.answer("sure? ")
    assert answer == "yes"
    assert notes == [
        ("stdout", "old"),
        ("stdout", "is sent"),
        ("cleared", ""),
        ("stdout", "new"),
        ("stdout", "is sent"),
        ("asked", "sure? "),
    ]


def test_a_silent_console_writes_nothing():
    with recorded() as notes:
        console = Console(str, lambda: notes.append(("cleared", "")))
        console.silent = True
        console.write("stdout", "a\fb")
    assert notes == []
