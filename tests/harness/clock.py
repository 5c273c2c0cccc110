"""A clock that says what a test wants, where the package measures which element type is faster."""


def clock_that_favours(precision, monkeypatch):
    """Times that do not depend on the machine: each step of the one takes 1 s, of the other 2."""
    from mpsgraph.precision import layer_precision

    now, calls = [0.0], [0]

    def perf_counter():
        calls[0] += 1
        if calls[0] % 2 == 0:
            low = (calls[0] // 2) % 2 == 0
            now[0] += 1.0 if low == (precision == "bfloat16") else 2.0
        return now[0]

    monkeypatch.setattr(layer_precision.time, "perf_counter", perf_counter)
