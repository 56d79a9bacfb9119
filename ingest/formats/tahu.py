"""The Sparkplug B payload as a protobuf message, its descriptors built while the program starts.

Field numbers and types after the Sparkplug specification 3.0.0, section 6.4.1; what a sensor never needs (templates,
data sets, metadata) is skipped as unknown.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F: Final = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "quarterline.sparkplug"
_KINDS: Final = {
    "u32": _F.TYPE_UINT32, "u64": _F.TYPE_UINT64, "f": _F.TYPE_FLOAT, "d": _F.TYPE_DOUBLE, "b": _F.TYPE_BOOL,
    "s": _F.TYPE_STRING, "x": _F.TYPE_BYTES,
}  # fmt: skip
_MESSAGES: Final = {
    "PropertyValue": "1 type u32, 2 is_null b, 3 int_value u32, 4 long_value u64, 5 float_value f, 6 double_value d, "
    "7 boolean_value b, 8 string_value s",
    "PropertySet": "1 keys s*, 2 values PropertyValue*",
    "Metric": "1 name s, 2 alias u64, 3 timestamp u64, 4 datatype u32, 5 is_historical b, 6 is_transient b, "
    "7 is_null b, 9 properties PropertySet, 10 int_value u32, 11 long_value u64, 12 float_value f, 13 double_value d, "
    "14 boolean_value b, 15 string_value s, 16 bytes_value x",
    "Payload": "1 timestamp u64, 2 metrics Metric*, 3 seq u64, 4 uuid s, 5 body x",
}


def _build() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="quarterline_sparkplug.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for one in fields.split(", "):
            number, label, kind = one.split()
            field = message.field.add(name=label, number=int(number))
            field.label = _F.LABEL_REPEATED if kind.endswith("*") else _F.LABEL_OPTIONAL
            plain = kind.rstrip("*")
            if plain in _KINDS:
                field.type = _KINDS[plain]
            else:
                field.type, field.type_name = _F.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Payload"))


Payload: Final = _build()
