"""Converts the blocks of a LlamaIndex message to arc's parts, and back. Reads no file and no URL."""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    BaseContentBlock,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import AnyUrl

from arc_common.exceptions import InvalidInputError
from arc_common.messages import ContentPart, PartType
from arc_common.serialization import storable_copy

_UNTITLED = "input_document"
"""The title that `DocumentBlock` gives an untitled document."""

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)

_AUDIO_FORMATS = {"mpeg": "mp3", "mp4": "m4a", "wave": "wav", "x-wav": "wav", "x-flac": "flac", "x-m4a": "m4a"}
"""MIME subtypes that differ from the file extension, which `AudioBlock.format` holds."""


def parts_of(block: BaseContentBlock) -> Iterable[ContentPart]:
    """Yield the parts of a block; cited content is unpacked, so that other frameworks' models read it too."""
    match block:
        case TextBlock():
            yield ContentPart("text", text=block.text)
        case ImageBlock():
            extra = without_none(detail=block.detail)
            yield _media("image", block.image, block.url, mime_type=block.image_mimetype, extra=extra)
        case AudioBlock():
            mime_type = f"audio/{block.format}" if block.format else None
            yield _media("audio", block.audio, block.url, mime_type=mime_type)
        case VideoBlock():
            extra = without_none(detail=block.detail, fps=block.fps)
            yield _media("file", block.video, block.url, mime_type=block.video_mimetype or "video/mp4", extra=extra)
        case DocumentBlock():
            name = None if block.title == _UNTITLED else block.title
            yield _media("file", block.data, block.url, mime_type=block.document_mimetype, name=name)
        case ThinkingBlock():
            yield ContentPart("thinking", text=block.content, extra=_storable(block.additional_information))
        case CitableBlock() | CitationBlock():
            cited = block.content if isinstance(block, CitableBlock) else [block.cited_content]
            for inner in cited:
                yield from parts_of(inner)
        case _:
            yield ContentPart("opaque", name=str(getattr(block, "block_type", type(block).__name__)))


def _media(
    kind: PartType,
    data: object,
    url: object,
    *,
    mime_type: str | None,
    name: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ContentPart:
    address = None if url is None else str(url)
    encoded = _base64_text(data) if isinstance(data, bytes) else None
    if address is not None and (inline := _DATA_URL.fullmatch(address)):
        address = None  # the block's own bytes take precedence, as in LlamaIndex
        if encoded is None:
            encoded, mime_type = inline[2], mime_type or inline[1] or None
    return ContentPart(kind, url=address, data=encoded, mime_type=mime_type, name=name, extra=extra or {})


def _base64_text(data: bytes) -> str:
    """Return bytes as base64 text; LlamaIndex encodes them already, unless assigned after construction."""
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        data = base64.b64encode(data)
    return data.decode("ascii")


def block_of(part: ContentPart) -> BaseContentBlock | None:
    """Convert a part to LlamaIndex's block; `None` if there is no block for it and it has no text."""
    if part.type == "text":
        return TextBlock.model_construct(text=part.text)
    if part.type == "opaque":
        text = part.text or text_of(part.extra, "text")
        return TextBlock.model_construct(text=text) if text else None
    if part.type == "thinking":
        return ThinkingBlock.model_construct(content=part.text, additional_information=fresh(part.extra))
    if part.url is None and part.data is None:
        return None
    return _media_block(part, None if part.data is None else part.data.encode(errors="surrogatepass"))


def _media_block(part: ContentPart, data: bytes | None) -> BaseContentBlock:
    mime_type, detail = part.mime_type, text_of(part.extra, "detail")
    family, _, subtype = (mime_type or "").partition("/")
    if part.type == "image":
        return ImageBlock.model_construct(image=data, url=_url(part.url), image_mimetype=mime_type, detail=detail)
    if part.type == "audio":
        audio_format = _AUDIO_FORMATS.get(subtype, subtype) or None
        return AudioBlock.model_construct(audio=data, url=_url(part.url), format=audio_format)
    if family == "video":
        fps = part.extra.get("fps")
        return VideoBlock.model_construct(
            video=data,
            url=_url(part.url),
            video_mimetype=mime_type,
            detail=detail,
            fps=fps if isinstance(fps, int) else None,
        )
    return DocumentBlock.model_construct(
        data=data, url=part.url, title=part.name or _UNTITLED, document_mimetype=mime_type
    )


def _url(text: str | None) -> AnyUrl | str | None:
    """Return the URL as LlamaIndex holds it, or as text if parsing would change or refuse it."""
    if text is None:
        return None
    try:
        url = AnyUrl(text)
    except ValueError:
        return text
    return url if str(url) == text else text


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of the values that plain storage takes; the others are kept in the origin only."""
    kept = {}
    for key, value in values.items():
        try:
            kept[key] = storable_copy(value, key)
        except InvalidInputError:
            continue
    return kept


def without_none(**values: object) -> dict[str, object]:
    """Return the values that are not `None`."""
    return {key: value for key, value in values.items() if value is not None}


def text_of(values: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first value under these keys that is text; `None` if there is none."""
    return next((values[key] for key in keys if isinstance(values.get(key), str)), None)


def fresh(value: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """Return a copy that shares no mutable value."""
    return value if isinstance(value, str) else deepcopy(dict(value))
