"""The messages of gNMI that Wiresum sends and understands, described field by field.

Names, numbers and types are those of OpenConfig's `gnmi.proto`, version 0.10; fields that are not here are skipped by
whoever reads a message. The messages have a pool of descriptors of their own, so that another library's gNMI may be
loaded beside them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from wiresum.errors import SupportError

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC writes lines of its own about devices that are not there.
try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
    from google.protobuf.message import DecodeError
except ImportError as missing:
    raise SupportError(f"gNMI needs gRPC ({missing}); install it with `pip install 'wiresum[gnmi]'`") from None

__all__ = [
    "JSON_IETF", "METHODS", "ON_CHANGE", "SAMPLE", "SERVICE", "STREAM", "SUBSCRIBE", "content", "grpc", "new", "parsed",
    "path", "shown", "typed",
]  # fmt: skip

PACKAGE = "gnmi"
SERVICE = "gnmi.gNMI"

ENUMS: Mapping[str, Sequence[str]] = {
    "Encoding": ("JSON", "BYTES", "PROTO", "ASCII", "JSON_IETF"),
    "DataType": ("ALL", "CONFIG", "STATE", "OPERATIONAL"),
    "Operation": ("INVALID", "DELETE", "REPLACE", "UPDATE"),
    "Mode": ("STREAM", "ONCE", "POLL"),
    "SubscriptionMode": ("TARGET_DEFINED", "ON_CHANGE", "SAMPLE"),
}
"""Values by their numbers, from 0."""
JSON_IETF = ENUMS["Encoding"].index("JSON_IETF")
"""The encoding in which SONiC shows and takes tables."""
STREAM = ENUMS["Mode"].index("STREAM")
"""The mode of subscriptions that last."""
ON_CHANGE, SAMPLE = (ENUMS["SubscriptionMode"].index(name) for name in ("ON_CHANGE", "SAMPLE"))
"""When a device tells of a path: when it has changed, or from time to time."""

MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "PathElem": {"name": (1, "string"), "key": (2, "repeated KeyEntry")},
    "KeyEntry": {"key": (1, "string"), "value": (2, "string")},
    "Path": {"origin": (2, "string"), "elem": (3, "repeated PathElem"), "target": (4, "string")},
    "TypedValue": {"string_val": (1, "string"), "json_val": (10, "bytes"), "json_ietf_val": (11, "bytes")},
    "Update": {"path": (1, "Path"), "val": (3, "TypedValue")},
    "ModelData": {"name": (1, "string"), "organization": (2, "string"), "version": (3, "string")},
    "CapabilityRequest": {},
    "CapabilityResponse": {
        "supported_models": (1, "repeated ModelData"),
        "supported_encodings": (2, "repeated Encoding"),
        "gNMI_version": (3, "string"),
    },
    "GetRequest": {
        "prefix": (1, "Path"),
        "path": (2, "repeated Path"),
        "type": (3, "DataType"),
        "encoding": (5, "Encoding"),
    },
    "GetResponse": {"notification": (1, "repeated Notification")},
    "Notification": {"timestamp": (1, "int64"), "prefix": (2, "Path"), "update": (4, "repeated Update")},
    "SetRequest": {
        "prefix": (1, "Path"),
        "delete": (2, "repeated Path"),
        "replace": (3, "repeated Update"),
        "update": (4, "repeated Update"),
    },
    "SetResponse": {"prefix": (1, "Path"), "response": (2, "repeated UpdateResult"), "timestamp": (4, "int64")},
    "UpdateResult": {"path": (2, "Path"), "op": (4, "Operation")},
    "Subscription": {
        "path": (1, "Path"),
        "mode": (2, "SubscriptionMode"),
        "sample_interval": (3, "uint64"),
        "suppress_redundant": (4, "bool"),
    },
    "SubscriptionList": {
        "prefix": (1, "Path"),
        "subscription": (2, "repeated Subscription"),
        "mode": (5, "Mode"),
        "encoding": (8, "Encoding"),
        "updates_only": (9, "bool"),
    },
    "SubscribeRequest": {"subscribe": (1, "SubscriptionList")},
    "SubscribeResponse": {"update": (1, "Notification"), "sync_response": (3, "bool")},
}
"""Messages with their fields: number on the wire, and type."""

METHODS: Mapping[str, tuple[str, str]] = {
    "Capabilities": ("CapabilityRequest", "CapabilityResponse"),
    "Get": ("GetRequest", "GetResponse"),
    "Set": ("SetRequest", "SetResponse"),
}
"""Calls, each with the messages of question and answer."""
SUBSCRIBE = ("SubscribeRequest", "SubscribeResponse")
"""Messages of the call Subscribe, which has a stream of them each way."""

_Field = descriptor_pb2.FieldDescriptorProto


def _field(name: str, number: int, kind: str) -> Any:
    repeated, _, base = kind.rpartition(" ")
    field = _Field(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
    if base in ENUMS or base in MESSAGES:
        field.type = _Field.TYPE_ENUM if base in ENUMS else _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{base}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{base.upper()}")
    return field


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="wiresum/gnmi", package=PACKAGE, syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        file.message_type.add(name=name, field=[_field(field, *kind) for field, kind in fields.items()])
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


CLASSES = _classes()


def new(message: str, /, **fields: Any) -> Any:
    """A message."""
    return CLASSES[message](**fields)


def parsed(name: str, data: bytes) -> Any:
    """A message from its bytes.

    Raises:
        ValueError: they are none.
    """
    try:
        return CLASSES[name].FromString(data)
    except DecodeError as strange:
        raise ValueError(f"no {name} of gNMI: {strange}") from None


def shown(name: str, data: bytes) -> bytes:
    """A message for people: its text, or its bytes where they make no message."""
    try:
        text = text_format.MessageToString(parsed(name, data), indent=2)
    except ValueError:
        return data
    return f"{name} {{\n{text}}}\n".encode()


def path(origin: str, *names: str) -> Any:
    """A path.

    Example:
        >>> [one.name for one in path("sonic-db", "CONFIG_DB", "localhost").elem]
        ['CONFIG_DB', 'localhost']
    """
    return new("Path", origin=origin, elem=[new("PathElem", name=name) for name in names])


def typed(value: object) -> Any:
    """A value as JSON."""
    return new("TypedValue", json_ietf_val=json.dumps(value).encode())


def content(value: Any) -> Any:
    """The content of a value in JSON, or its text; None if it is empty.

    Raises:
        ValueError: it is no JSON.
    """
    text = value.json_ietf_val or value.json_val
    return json.loads(text) if text else value.string_val or None
