"""Converts the blocks of a LangChain message's content to arc's parts, and back."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, PartType
from arc_common.serialization import storable_copy

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,(.*)", re.DOTALL)
_NAME_KEYS = ("filename", "title", "name")

_SOURCE_KEYS = ("source", "image_url", "input_audio", "file")

Block = Mapping[str, Any]
Reader = Callable[[Block, str], ContentPart | None]


def part_of(block: str | Block, field: str) -> ContentPart:
    """Convert a content block to arc's part; an unknown block becomes an opaque part that holds all of it."""
    if isinstance(block, str):
        return ContentPart("text", text=block)
    if not isinstance(block, Mapping):
        raise InvalidInputError(field, block, "text or a block (a dictionary)")
    kind = block.get("type")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    part = read(block, field) if read else None
    if part is None:
        return ContentPart("opaque", name=kind if isinstance(kind, str) else None, extra=storable_copy(block, field))
    return part


def block_of(part: ContentPart) -> dict[str, Any]:
    """Convert a part to LangChain's standard content block; an opaque part becomes its original block."""
    extra: dict[str, Any] = storable_copy(part.extra, "content.extra") if part.extra else {}
    if part.type == "opaque":
        if isinstance(extra.get("type"), str) and extra["type"] == part.name:
            return extra  # the block came from LangChain, and its provider may know it
        return {"type": "non_standard", "value": extra} | ({"name": part.name} if part.name is not None else {})
    if part.name is not None:
        extra["filename"] = part.name
    block: dict[str, Any]
    if part.type == "text":
        block = {"type": "text", "text": part.text}
    elif part.type == "thinking":
        block = {"type": "reasoning", "reasoning": part.text or ""}
    else:
        is_video = part.type == "file" and (part.mime_type or "").startswith("video/")
        source = {"base64": part.data, "url": part.url, "mime_type": part.mime_type}
        block = {"type": "video" if is_video else part.type}
        block |= {key: value for key, value in source.items() if value is not None}
    return block | ({"extras": extra} if extra else {})


def _foreign(block: Block, field: str) -> ContentPart | None:
    """Read the block that `block_of` writes for another framework's opaque part; `None` for any other."""
    value, name = block.get("value"), block.get("name")
    if not isinstance(value, Mapping) or block.keys() - {"type", "value", "name"} or (name is None and "name" in block):
        return None
    return ContentPart("opaque", name=name, extra=storable_copy(value, f"{field}.value"))


def _text(block: Block, field: str) -> ContentPart | None:
    text = block.get("text")
    return ContentPart("text", text=text, **_named(block, field)) if isinstance(text, str) else None


def _thinking(block: Block, field: str) -> ContentPart | None:
    text = block.get("reasoning", block.get("thinking"))
    return ContentPart("thinking", text=text, **_named(block, field)) if isinstance(text, str) else None


def _media(part_type: PartType, mime_type: str | None = None) -> Reader:
    """Return a reader for blocks with their bytes inline, in `source` (Anthropic) or under a key (OpenAI)."""

    def read(block: Block, field: str) -> ContentPart | None:
        source = next((block[key] for key in _SOURCE_KEYS if key in block), block)
        if isinstance(source, str):
            source = {"url": source}
        return _from_source(part_type, block, source, mime_type, field) if isinstance(source, Mapping) else None

    return read


def _from_source(
    part_type: PartType, block: Block, source: Block, mime_type: str | None, field: str
) -> ContentPart | None:
    data = source.get("base64", source.get("data"))
    url = source.get("url", source.get("file_data"))
    mime_type = source.get("mime_type", source.get("media_type")) or mime_type
    if mime_type is None and isinstance(source.get("format"), str):
        mime_type = f"audio/{source['format']}"
    text = data if source.get("type") == "text" else source.get("text")
    if isinstance(text, str) and part_type == "file":
        data, mime_type = base64.b64encode(text.encode(errors="surrogatepass")).decode(), mime_type or "text/plain"
    if any(value is not None and not isinstance(value, str) for value in (data, url, mime_type)):
        return None
    if url is not None and (inline := _DATA_URL.fullmatch(url)):
        data, url, mime_type = inline[2], None, mime_type or inline[1] or None
    if not data and not url:
        return None  # a provider's own file id, which means nothing elsewhere
    return ContentPart(part_type, url=url, data=data, mime_type=mime_type, **_named({**block, **source}, field))


def _named(block: Block, field: str) -> dict[str, Any]:
    """Return a block's name and its extra fields that others may use: extras, image detail, signature."""
    extras, metadata = (block[key] if isinstance(block.get(key), Mapping) else {} for key in ("extras", "metadata"))
    extra = storable_copy(extras, f"{field}.extras") if extras else {}
    extra |= {key: block[key] for key in ("detail", "signature") if isinstance(block.get(key), str)}
    names = [extra.pop("filename", None), *(place.get(key) for place in (block, metadata) for key in _NAME_KEYS)]
    return {"name": next((name for name in names if isinstance(name, str)), None), "extra": extra}


_READERS: dict[str, Reader] = {
    "text": _text,
    "reasoning": _thinking,
    "thinking": _thinking,
    "image": _media("image"),
    "image_url": _media("image"),
    "audio": _media("audio"),
    "input_audio": _media("audio"),
    "video": _media("file", "video/mp4"),  # arc has no video part: the MIME type marks it
    "file": _media("file"),
    "document": _media("file"),
    "text-plain": _media("file", "text/plain"),
    "non_standard": _foreign,
}
