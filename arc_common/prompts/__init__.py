"""The text that arc writes into prompts: a constant for each task, and the functions that render and parse it.

Text from users, tools and documents is data: it is put between markers that it can't contain, and is never read as a
template.
"""

from arc_common.prompts.context import (
    ARTIFACTS_HEADING,
    DOCUMENT_SEPARATOR,
    DOCUMENTS_HEADING,
    ERA_MARK,
    MEMORY_HEADING,
    RECALLED_HEADING,
    holds_memory,
    parse_fences,
    parse_memory,
    render_artifacts,
    render_conversation,
    render_documents,
    render_fence,
    render_idle_note,
    render_memory,
    render_memory_lines,
    render_recalled,
)
from arc_common.prompts.summary import (
    ParsedSummary,
    SummaryFormatError,
    parse_narrative,
    parse_summary,
    render_block_request,
    render_correction,
    render_era_request,
    render_leaf_request,
)

__all__ = [
    "ARTIFACTS_HEADING",
    "DOCUMENTS_HEADING",
    "DOCUMENT_SEPARATOR",
    "ERA_MARK",
    "MEMORY_HEADING",
    "RECALLED_HEADING",
    "ParsedSummary",
    "SummaryFormatError",
    "holds_memory",
    "parse_fences",
    "parse_memory",
    "parse_narrative",
    "parse_summary",
    "render_artifacts",
    "render_block_request",
    "render_conversation",
    "render_correction",
    "render_documents",
    "render_era_request",
    "render_fence",
    "render_idle_note",
    "render_leaf_request",
    "render_memory",
    "render_memory_lines",
    "render_recalled",
]
