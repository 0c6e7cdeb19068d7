"""Puts a request together within its budget. Pure."""

from arc_common.assembly.build import build_context_window
from arc_common.assembly.costs import Costs
from arc_common.assembly.layers import NO_LAYERS, NOTHING, Layers, RecalledLine
from arc_common.assembly.request import Request, as_documents
from arc_common.assembly.sharing import HistoryRoom, history_room
from arc_common.assembly.view import View, ViewLimits, build_view

__all__ = [
    "NOTHING",
    "NO_LAYERS",
    "Costs",
    "HistoryRoom",
    "Layers",
    "RecalledLine",
    "Request",
    "View",
    "ViewLimits",
    "as_documents",
    "build_context_window",
    "build_view",
    "history_room",
]
