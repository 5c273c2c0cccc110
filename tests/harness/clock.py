"""A fake clock for tests where the package measures which dtype is faster."""


def clock_that_favours(precision, monkeypatch):
    """Replace the clock so that each step takes 1 s in the given precision and 2 s in the other."""
    from mpsgraph.precision import layer_precision

    now, calls = [0.0], [0]

    def perf_counter():
        calls[0] += 1
        if calls[0] % 2 == 0:
            low = (calls[0] // 2) % 2 == 0
            now[0] += 1.0 if low == (precision == "bfloat16") else 2.0
        return now[0]

    monkeypatch.setattr(layer_precision.time, "perf_counter", perf_counter)
