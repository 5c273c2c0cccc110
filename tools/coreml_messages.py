"""Write python/mpsgraph/coreml/messages.txt: the fields of Core ML's messages, from coremltools' definitions.

Runs where coremltools is installed (`make test-coreml` sets up such an environment). The reader in
python/mpsgraph/coreml/_wire.py needs only the numbers, names, and types of a message's fields.
"""

import sys
from pathlib import Path

from coremltools.proto import Model_pb2
from google.protobuf.descriptor import FieldDescriptor as Field

# Messages that graphs are read from. Other kinds of models are known by name only, for error messages.
READ = ("Model.proto", "MIL.proto", "NeuralNetwork.proto", "FeatureTypes.proto", "DataStructures.proto")
KINDS = {
    Field.TYPE_DOUBLE: "double", Field.TYPE_FLOAT: "float", Field.TYPE_BOOL: "bool", Field.TYPE_STRING: "string",
    Field.TYPE_BYTES: "bytes", Field.TYPE_SINT32: "sint", Field.TYPE_SINT64: "sint",
    **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64), "int"),
}  # fmt: skip


def short(name: str) -> str:
    return name.removeprefix("CoreML.Specification.").replace("MILSpec.", "MIL.")


def is_read(message) -> bool:
    return message.file.name.split("/")[-1] in READ and not message.name.endswith("LinkedModel")


def main(path: Path) -> None:
    lines, seen, todo = [], set(), [Model_pb2.DESCRIPTOR.message_types_by_name["Model"]]
    while todo:
        message = todo.pop(0)
        if message.full_name in seen:
            continue
        seen.add(message.full_name)
        lines.append(f"message {short(message.full_name)}")
        for field in sorted(message.fields, key=lambda f: f.number):
            kind = KINDS.get(field.type)
            if field.type == Field.TYPE_ENUM:
                kind = f"enum:{','.join(f'{v.number}={v.name}' for v in field.enum_type.values)}"
            elif field.type == Field.TYPE_MESSAGE:
                kind = short(field.message_type.full_name) if is_read(field.message_type) else "bytes"
                if is_read(field.message_type):
                    todo.append(field.message_type)
            repeated = " repeated" if field.is_repeated else ""
            oneof = f" ={field.containing_oneof.name}" if field.containing_oneof else ""
            lines.append(f" {field.number} {field.name} {kind}{repeated}{oneof}")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "python/mpsgraph/coreml/messages.txt"))
