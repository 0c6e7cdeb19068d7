"""What a model gets to see on one turn, what each part costs, and what was left out; `html` and `terminal` show it."""

from arc_common.context_window.values import (
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

__all__ = [
    "NEAREST",
    "ContextWindow",
    "Item",
    "LeftOut",
    "MessageItems",
    "Omission",
    "Receipt",
    "Section",
    "receipt_of",
    "with_parts_of",
]
