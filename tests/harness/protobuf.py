"""Encoding of protocol buffer messages, for Core ML files that tests write without coremltools."""


def message(*fields):
    """Encode a message from (number, value) fields; a value is bytes, another message, or an int."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        else:
            made += varint(number << 3 | 2) + varint(len(value)) + value
    return made
