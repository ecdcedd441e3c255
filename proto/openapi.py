"""Describes the calls of the contract as an OpenAPI 3.1 document, with the comments of the proto.

Owns what the port of HTTP promises about JSON; `judged_server.http_api` keeps it. The document
comes of a descriptor set with its source information, and of nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from google.protobuf import descriptor_pb2 as pb

Schema = dict[str, object]
_Field = pb.FieldDescriptorProto

_WHOLE = {
    _Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    _Field.TYPE_SINT32: (-(2**31), 2**31 - 1),
    _Field.TYPE_UINT32: (0, 2**32 - 1),
}
_LONG = {
    _Field.TYPE_INT64: r"^-?[0-9]{1,19}$",
    _Field.TYPE_SINT64: r"^-?[0-9]{1,19}$",
    _Field.TYPE_UINT64: r"^[0-9]{1,20}$",
}
_PLAIN: dict[int, Schema] = {
    _Field.TYPE_BOOL: {"type": "boolean"},
    _Field.TYPE_STRING: {"type": "string"},
    _Field.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    _Field.TYPE_DOUBLE: {"type": "number", "format": "double"},
    _Field.TYPE_FLOAT: {"type": "number", "format": "float"},
}
_WELL_KNOWN: dict[str, Schema] = {
    ".google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,9}(\.[0-9]{1,9})?s$",
        "description": "seconds, 1.5s",
    },
    ".google.protobuf.Timestamp": {
        "type": "string",
        "format": "date-time",
        "description": "a time by RFC 3339, 2026-01-31T12:00:00Z",
    },
}
_STATUS = "google.rpc.Status"
_STATUS_SCHEMA: Schema = {
    "description": "The error of a call. details always has google.rpc.ErrorInfo with a reason of "
    "judged.v1.ErrorReason, but for errors of the path or the method of HTTP.",
    "type": "object",
    "required": ["code", "message", "details"],
    "properties": {
        "code": {"type": "integer", "description": "a number of google.rpc.Code"},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["@type"],
                "properties": {"@type": {"type": "string"}},
            },
        },
    },
}
_HEADERS: dict[str, Schema] = {
    "grpc-timeout": {
        "name": "grpc-timeout",
        "in": "header",
        "description": "The deadline of the call: a number and H, M or S. Also m, u and n for "
        "thousandths, millionths and billionths of a second. 30S where it is left out.",
        "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,7}[HMS]$"},
    },
    "x-request-id": {
        "name": "x-request-id",
        "in": "header",
        "description": "A name of the call for the server's log: 1 to 128 visible characters of "
        "ASCII. What is no such name is not taken over.",
        "schema": {"type": "string"},
    },
    "x-judged-class": {
        "name": "x-judged-class",
        "in": "header",
        "description": "batch, for a call that may wait behind interactive ones.",
        "schema": {"type": "string"},
    },
}
_INFO = (
    "Every call of judged.v1 that takes one request, as JSON by protobuf's mapping with the field "
    "names of the contract. Requests may have camelCase names too. Numbers of 64 bits are strings "
    "in replies; requests may have them as numbers."
)


def document(descriptors: pb.FileDescriptorSet, package: str = "judged.v1") -> bytes:
    """Return the document of a package's services as JSON."""
    writer = _Writer(descriptors)
    paths = {
        f"/v1/{method.name}": {"post": writer.operation(service, method, said)}
        for service, method, said in writer.methods(package)
    }
    paths["/healthz"] = {"get": _health("Whether the event loop turns.", "200")}
    paths["/readyz"] = {"get": _health("Whether the server takes calls.", "200", "503")}
    found = {
        "openapi": "3.1.0",
        "info": {"title": "judged", "version": package.rpartition(".")[2], "description": _INFO},
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of a tenant, where the server asks who calls.",
                }
            },
            "parameters": _HEADERS,
            "schemas": dict(sorted(writer.schemas().items())),
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False).encode() + b"\n"


class _Writer:
    """Writes the operations of methods, and the schemas of all that they refer to."""

    def __init__(self, descriptors: pb.FileDescriptorSet) -> None:
        self._files = descriptors.file
        self._messages: dict[str, pb.DescriptorProto] = {}
        self._enums: dict[str, pb.EnumDescriptorProto] = {}
        self._said: dict[str, str] = {}
        self._wanted: list[str] = []
        for file in self._files:
            said = {
                tuple(x.path): _text(x.leading_comments) for x in file.source_code_info.location
            }
            for index, message in enumerate(file.message_type):
                self._add(f".{file.package}.{message.name}", message, said, (4, index))
            for index, enum in enumerate(file.enum_type):
                self._add_enum(f".{file.package}.{enum.name}", enum, said, (5, index))

    def methods(
        self, package: str
    ) -> Iterator[tuple[pb.ServiceDescriptorProto, pb.MethodDescriptorProto, str]]:
        """Yield the methods that take one request, each with its service and its comment."""
        for file in self._files:
            said = {
                tuple(x.path): _text(x.leading_comments) for x in file.source_code_info.location
            }
            for at, service in enumerate(file.service if file.package == package else ()):
                for index, method in enumerate(service.method):
                    if not method.client_streaming:
                        yield service, method, said.get((6, at, 2, index), "")

    def operation(
        self, service: pb.ServiceDescriptorProto, method: pb.MethodDescriptorProto, said: str
    ) -> Schema:
        """Return what a method takes and answers."""
        reply = self._refer(method.output_type)
        if method.server_streaming:
            content: Schema = {"text/event-stream": {"schema": self._event(method, reply)}}
        else:
            content = {"application/json": {"schema": reply}}
        failure = {"application/json": {"schema": _refer(_STATUS)}}
        return {
            "operationId": method.name,
            "tags": [service.name],
            "description": said,
            "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": self._refer(method.input_type)}},
            },
            "responses": {
                "200": {"description": "The reply.", "content": content},
                "default": {"description": "The error of the call.", "content": failure},
            },
        }

    def _event(self, method: pb.MethodDescriptorProto, reply: Schema) -> Schema:
        """Return what one event of a stream of replies is."""
        names = [field.name for field in self._messages[method.output_type].field]
        return {
            "type": "object",
            "description": "One of the events that the stream is made of. Its name is that of the "
            "field which is set, or error for the status that ends a call after its first event.",
            "required": ["event", "data"],
            "properties": {
                "event": {"type": "string", "enum": [*names, "error"]},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": {"anyOf": [reply, _refer(_STATUS)]},
                },
            },
        }

    def schemas(self) -> dict[str, Schema]:
        """Return the schemas of all that was referred to, and of what these refer to."""
        found: dict[str, Schema] = {_STATUS: _STATUS_SCHEMA}
        while self._wanted:
            name = self._wanted.pop()
            if name.removeprefix(".") not in found:
                found[name.removeprefix(".")] = self._schema(name)
        return found

    def _add(
        self,
        name: str,
        message: pb.DescriptorProto,
        said: Mapping[tuple[int, ...], str],
        path: tuple[int, ...],
    ) -> None:
        self._messages[name] = message
        self._said[name] = said.get(path, "")
        for index, field in enumerate(message.field):
            self._said[f"{name}.{field.name}"] = said.get((*path, 2, index), "")
        for index, inner in enumerate(message.nested_type):
            self._add(f"{name}.{inner.name}", inner, said, (*path, 3, index))
        for index, enum in enumerate(message.enum_type):
            self._add_enum(f"{name}.{enum.name}", enum, said, (*path, 4, index))

    def _add_enum(
        self,
        name: str,
        enum: pb.EnumDescriptorProto,
        said: Mapping[tuple[int, ...], str],
        path: tuple[int, ...],
    ) -> None:
        self._enums[name] = enum
        values = (
            f"- {value.name}: {said.get((*path, 2, index), '')}"
            for index, value in enumerate(enum.value)
        )
        self._said[name] = "\n".join((said.get(path, ""), "", *values))

    def _refer(self, name: str) -> Schema:
        self._wanted.append(name)
        return _refer(name.removeprefix("."))

    def _schema(self, name: str) -> Schema:
        if name in self._enums:
            values = [value.name for value in self._enums[name].value]
            return {"type": "string", "enum": values, "description": self._said[name]}
        fields = self._messages[name].field
        return {
            "type": "object",
            "description": self._said[name],
            "additionalProperties": False,
            "properties": {field.name: self._property(name, field) for field in fields},
        }

    def _property(self, name: str, field: pb.FieldDescriptorProto) -> Schema:
        said = self._said[f"{name}.{field.name}"]
        if field.HasField("oneof_index") and not field.proto3_optional:
            choices = [
                other.name
                for other in self._messages[name].field
                if other.HasField("oneof_index") and other.oneof_index == field.oneof_index
            ]
            said = f"{said}\n\nAt most one of {', '.join(choices)} is set."
        inner = self._messages.get(field.type_name)
        if inner is not None and inner.options.map_entry:
            value = self._value(inner.field[1])
            return {"type": "object", "additionalProperties": value, "description": said}
        value = self._value(field)
        if field.label == _Field.LABEL_REPEATED:
            return {"type": "array", "items": value, "description": said}
        return {**value, "description": said}

    def _value(self, field: pb.FieldDescriptorProto) -> Schema:
        if field.type in _WHOLE:
            least, most = _WHOLE[field.type]
            return {"type": "integer", "minimum": least, "maximum": most}
        if field.type in _LONG:
            return {"type": ["string", "integer"], "pattern": _LONG[field.type], "format": "int64"}
        if field.type in _PLAIN:
            return dict(_PLAIN[field.type])
        if field.type_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[field.type_name])
        return self._refer(field.type_name)


def _refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _comments(file: pb.FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """Return what a file says of each of its parts, by their paths in its descriptor."""
    return {
        tuple(location.path): _text(location.leading_comments)
        for location in file.source_code_info.location
    }


def _text(comment: str) -> str:
    """Return a comment as paragraphs, each of one line."""
    paragraphs = comment.strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _health(said: str, *statuses: str) -> Schema:
    content = {"text/plain": {"schema": {"type": "string"}}}
    meanings = {"200": "It is so.", "503": "Not now."}
    return {
        "description": said,
        "security": [{}],
        "responses": {
            status: {"description": meanings[status], "content": content} for status in statuses
        },
    }
