"""Figures of a test for the table in docs/RELIABILITY.md: lines that tests/run --figures
collects."""


def figure(test, text):
    """What the test has measured, in a few words, such as "0 of 640 answers wrong, registered again
    after 0.4 s"."""
    print(f"figure {test.id().rpartition('.')[2]}: {text}", flush=True)


def figure_of_all(text):
    """What the tests of a program have measured together."""
    print(f"figure: {text}", flush=True)


def seconds(value):
    if value >= 1:
        return f"{value:.1f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.1f} ms"
