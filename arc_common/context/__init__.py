"""Builds requests within their budgets and displays them: the messages, their token costs and the omissions."""

from arc_common.context.allocation import HistoryRoom, history_room
from arc_common.context.builder import build_context_window
from arc_common.context.draft import NO_LAYERS, NOTHING, Layers, RecalledLine
from arc_common.context.receipt import (
    NEAREST,
    ContextWindow,
    Item,
    LeftOut,
    MessageItems,
    Omission,
    Receipt,
    Section,
    receipt_of,
    with_parts_of,
)
from arc_common.context.request import Costs, Request, as_documents
from arc_common.context.view import View, ViewLimits, build_view

__all__ = [
    "NEAREST",
    "NOTHING",
    "NO_LAYERS",
    "ContextWindow",
    "Costs",
    "HistoryRoom",
    "Item",
    "Layers",
    "LeftOut",
    "MessageItems",
    "Omission",
    "RecalledLine",
    "Receipt",
    "Request",
    "Section",
    "View",
    "ViewLimits",
    "as_documents",
    "build_context_window",
    "build_view",
    "history_room",
    "receipt_of",
    "with_parts_of",
]
