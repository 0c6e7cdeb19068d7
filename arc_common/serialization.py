"""Reversible JSON: `loads` restores exactly the values that `dumps` wrote.

Plain JSON loses properties of Python values: tuples become lists, integer keys become text, bytes and NaN are refused
or invalid. Here such a value is wrapped as `{"__arc__": <kind>, "value": …}`, and a dictionary that happens to have
the key `__arc__` is wrapped too, so that nothing a user stores can be mistaken for a wrapper. Text with lone
surrogates is wrapped, because JSON's escapes join two of them into one character, and so are integers longer than
Python converts to decimal text. Values that JSON has are written as they are.
"""

import base64
import json
import math
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from arc_common.exceptions import InvalidInputError
from arc_common.messages import check_text, is_utf8

if TYPE_CHECKING:
    from pydantic import BaseModel

TAG = "__arc__"
_DEPTH = 100  # enough for real JSON; works even 600 frames deep of Python's 1,000
_INT_BITS = 2_000  # far below the limit of int-to-text conversion, which a process may lower to 640 digits
_STORABLE = "a value that can be stored: JSON values, bytes, tuples, sets, dates, Decimal, UUID"

# `json.dumps` makes an encoder for each call with other than its usual options.
DECODER = json.JSONDecoder()
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Extension: TypeAlias = tuple[str, Callable[[Any], Any], Callable[[Any], Any]]
"""A further kind of value: its tag, a function that turns it into storable values (or `None` when the value isn't
of this kind), and the function back."""


def dumps(value: Any, *, field: str, extensions: tuple[Extension, ...] = ()) -> str:
    """Return JSON text (valid UTF-8 without NUL) from which `loads` restores an equal value of the same types.

    Subclasses of text and numbers (enumerations, numpy's float64) are written as the plain values they equal.

    Raises:
        InvalidInputError: The value contains something without a reversible form; the message names its path.
    """
    return ENCODER.encode(to_plain(value, field=field, extensions=extensions))


def to_plain(value: Any, *, field: str, extensions: tuple[Extension, ...] = ()) -> Any:
    """Return the JSON value that `dumps` writes."""
    return _encode(value, field, 0, extensions)


def loads(text: str, *, extensions: tuple[Extension, ...] = ()) -> Any:
    """Restore a value from the text that `dumps` wrote."""
    plain = DECODER.raw_decode(text)[0]
    if TAG not in text:
        return plain
    return _decode(plain, {tag: decode for tag, _, decode in extensions})


def storable_copy(value: Any, field: str) -> Any:
    """Return a deep copy of a value that a store can hold; raise `InvalidInputError` for any other."""
    return loads(dumps(value, field=field))


def _encode(value: Any, path: str, depth: int, extensions: tuple[Extension, ...]) -> Any:
    kind = type(value)
    if kind is str:
        if value.isascii() or is_utf8(value):
            return value
        return {TAG: "text", "value": _base64(value.encode(errors="surrogatepass"))}
    if kind is int:
        return value if value.bit_length() <= _INT_BITS else {TAG: "int", "value": hex(value)}
    if kind is bool or value is None:
        return value
    if depth > _DEPTH:
        raise InvalidInputError(path, value, f"at most {_DEPTH} levels of nesting")
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}
    if kind is list:
        return [_encode(item, f"{path}[{i}]", depth + 1, extensions) for i, item in enumerate(value)]
    if kind is dict:
        if TAG not in value and set(map(type, value)) <= {str} and is_utf8("".join(value)):
            return {key: _encode(item, f"{path}.{key}", depth + 1, extensions) for key, item in value.items()}
        pairs = [
            [
                _encode(key, f"{path} key", depth + 1, extensions),
                _encode(item, f"{path}[{key!r}]", depth + 1, extensions),
            ]
            for key, item in value.items()
        ]
        return {TAG: "dict", "value": pairs}
    for tag, to_storable, _ in extensions:
        storable = to_storable(value)
        if storable is not None:
            return {TAG: tag, "value": _encode(storable, path, depth + 1, extensions)}
    if kind in (tuple, set, frozenset):
        items = list(value) if kind is tuple else sorted(value, key=repr)
        return {
            TAG: kind.__name__,
            "value": [_encode(item, f"{path}[{i}]", depth + 1, extensions) for i, item in enumerate(items)],
        }
    for tag, (of_kind, to_text, _) in _SCALARS.items():
        if kind is of_kind:
            return {TAG: tag, "value": to_text(value)}
    for base in (str, int, float):  # enumerations and numpy's float64, which equal their plain values
        if isinstance(value, base):
            return _encode(base(value.value if isinstance(value, Enum) else value), path, depth, extensions)
    if isinstance(value, Mapping):
        return _encode(dict(value), path, depth, extensions)
    raise InvalidInputError(path, value, _STORABLE)


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


_SCALARS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "bytes": (bytes, _base64, base64.b64decode),
    "bytearray": (bytearray, _base64, lambda text: bytearray(base64.b64decode(text))),
    "complex": (complex, repr, complex),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "decimal": (Decimal, str, Decimal),
    "uuid": (UUID, str, UUID),
}


def _decode(plain: Any, extensions: Mapping[str, Callable[[Any], Any]]) -> Any:
    if isinstance(plain, list):
        return [_decode(item, extensions) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = plain.get(TAG)
    if tag is None:
        return {key: _decode(item, extensions) for key, item in plain.items()}
    value = plain["value"]
    if tag == "dict":
        return {_decode(key, extensions): _decode(item, extensions) for key, item in value}
    if tag == "float":
        return float(value)
    if tag == "int":
        return int(value, 16)
    if tag == "text":
        return base64.b64decode(value).decode(errors="surrogatepass")
    if tag in ("tuple", "set", "frozenset"):
        items = [_decode(item, extensions) for item in value]
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
    if tag in _SCALARS:
        return _SCALARS[tag][2](value)
    if tag in extensions:
        return extensions[tag](_decode(value, extensions))
    return plain


# Python objects, for `OBJECTS`: stored as the name of their class and their raw fields. Nothing is imported when
# reading, because stored data must not choose the code that runs: a class that this process has not loaded raises
# `LookupError`. No validator runs, so a path whose file was deleted since can still be read.


def _name_of(value: object) -> str | None:
    """Return the name by which `_class_named` finds the value's class; `None` if it wouldn't find the class."""
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name if _found(name) is kind else None


def _class_named(name: str, base: type) -> Any:
    found = _found(name)
    if isinstance(found, type) and issubclass(found, base):
        return found
    raise LookupError(name)


def _found(name: str) -> object:
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _pydantic(name: str) -> Any:
    """Return a class of pydantic's; a class without objects if nothing has imported pydantic."""
    return getattr(sys.modules.get("pydantic"), name, _Absent)


class _Absent: ...


def _model_fields(value: object) -> dict[str, Any] | None:
    if not isinstance(value, _pydantic("BaseModel")) or value.__pydantic_private__ or (name := _name_of(value)) is None:
        return None
    extra = {"extra fields": value.model_extra} if value.model_extra else {}
    return {"class": name, **value.__dict__, **extra}  # neither key can be a field's name


def _model(fields: dict[str, Any]) -> "BaseModel":
    cls = _class_named(fields.pop("class"), _pydantic("BaseModel"))
    extra = fields.pop("extra fields", None)
    made: BaseModel = cls.model_construct(**fields)
    if extra:
        object.__setattr__(made, "__pydantic_extra__", extra)
    return made


def _member(value: object) -> list[Any] | None:
    if not isinstance(value, Enum) or (name := _name_of(value)) is None:
        return None
    return [name, value.value]


def _enumeration(stored: list[Any]) -> Any:
    name, value = stored
    try:
        return _class_named(name, Enum)(value)
    except LookupError:  # most enumerations are also text or numbers, and equal their plain values
        return value


def _address(value: object) -> list[str] | None:
    if not isinstance(value, _pydantic("AnyUrl")) or (name := _name_of(value)) is None:
        return None
    return [name, str(value)]


OBJECTS: tuple[Extension, ...] = (
    ("model", _model_fields, _model),
    ("enum", _member, _enumeration),
    ("url", _address, lambda stored: _class_named(stored[0], _pydantic("AnyUrl"))(stored[1])),
    ("path", lambda value: str(value) if type(value) is type(Path()) else None, Path),
)
"""Extensions for `dumps` and `loads`: pydantic models, enumerations, paths and addresses."""


_JSON_DEPTH = 32
_INTEGERS = 2**63


def json_copy(name: str, value: Any, depth: int = 0) -> Any:
    """Copy JSON values (tuples become lists, subclasses plain); refuse values that JSON or an index can't hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        check_text(name, value)
        return str(value)
    if isinstance(value, int):
        if not -_INTEGERS <= value < _INTEGERS:
            raise InvalidInputError(name, value, "a whole number of 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(name, value, "a finite number")
        return float(value)
    if depth > _JSON_DEPTH:
        raise InvalidInputError(name, value, f"at most {_JSON_DEPTH} levels of nesting")
    if isinstance(value, list | tuple):
        return [json_copy(f"{name}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            check_text(f"{name} key", key)
        return {str(key): json_copy(f"{name}[{key!r}]", item, depth + 1) for key, item in value.items()}
    raise InvalidInputError(name, value, "JSON values: text, finite numbers, booleans, None, lists and mappings")
