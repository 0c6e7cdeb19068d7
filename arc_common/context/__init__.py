"""Builds requests within their budgets and displays them: the messages, their token costs and the omissions."""

from arc_common.context.allocation import HistoryRoom, history_room
from arc_common.context.builder import build_context_window
from arc_common.context.history_view import ViewLimits, build_view
from arc_common.context.receipt import (
    ContextWindow,
    Item,
    LeftOut,
    Omission,
    Receipt,
    Section,
    receipt_of,
)
from arc_common.context.request import NO_LAYERS, Costs, Layers, RecalledLine, Request, as_documents

__all__ = [
    "NO_LAYERS",
    "ContextWindow",
    "Costs",
    "HistoryRoom",
    "Item",
    "Layers",
    "LeftOut",
    "Omission",
    "RecalledLine",
    "Receipt",
    "Request",
    "Section",
    "ViewLimits",
    "as_documents",
    "build_context_window",
    "build_view",
    "history_room",
    "receipt_of",
]
