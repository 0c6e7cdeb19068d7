"""Renders memories as lines that a model reads, and removes such lines from a text; loads no heavy library."""

import re
from collections.abc import Sequence

from arc_common.memories import SAID_BY, MemoryType, ScoredMemory
from arc_common.messages import Role
from arc_common.prompts.context import MEMORIES_HEADING, defused_markers
from arc_common.sources import speaker_name

_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_NOTED = "noted"
_DATED = r"\d{4}-\d\d-\d\d, [^:\n]{1,100}: "
_LISTED = rf"\[[\w-]{{1,255}}\][ \t]{{0,4}}\((?:{'|'.join(MemoryType)}), importance \d"
_LINE = re.compile(
    rf"(?:^|(?<=[{_BREAKS}]))[ \t>]{{0,20}}(?:[-*+•·‣◦–—]|[0-9]{{1,3}}[.)])?[ \t>*_`]{{0,10}}(?:{_DATED}|{_LISTED})"
    rf"[^{_BREAKS}]*",
    re.IGNORECASE,
)
"""Matches a memory as `render_memory_line` or a tool shows it, after any list or quotation mark."""


def render_memory_line(memory: ScoredMemory) -> str:
    """Render a memory as one line, with its day and who said it: `- 2026-11-20, user: …`, `- 2026-11-20, Mina: …`.

    A memory that nobody said in these words is "noted", or an "insight" if it was concluded: "noted from Mina".
    """
    known = memory.memory
    said_by = known.metadata.get(SAID_BY)
    who = speaker_name(known.speaker)
    if said_by == Role.ASSISTANT.value:
        who = Role.ASSISTANT.value
    elif said_by != Role.USER.value:
        noted = known.type.value if known.type is MemoryType.INSIGHT else _NOTED
        who = f"{noted} from {who}" if known.speaker else noted
    return f"- {known.valid_from:%Y-%m-%d}, {who}: {defused_markers(' '.join(known.text.split()))}"


def render_memories(memories: Sequence[ScoredMemory]) -> str:
    """Render the block of memories, in the order given; `""` for none."""
    return "\n".join([MEMORIES_HEADING, *map(render_memory_line, memories)]) if memories else ""


def without_memories(text: str) -> str:
    """Remove memories as shown to models from a text, whoever repeated them, in any kind of list."""
    return _LINE.sub("", text).replace(MEMORIES_HEADING, "").strip()
