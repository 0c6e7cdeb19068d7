"""Vectors as pgvector sends and receives them, which no one has to write out in digits and read again."""

from struct import pack
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PackedVector", "send_packed"]


class PackedVector(bytes):
    """A vector in pgvector's binary form (its `vector_recv`): dimension, two bytes of zero, floats of four bytes."""

    __slots__ = ()

    @classmethod
    def of(cls, vector: "NDArray[np.float32]") -> Self:
        """Pack a vector of shape (dimension,)."""
        return cls(pack(">HH", len(vector), 0) + vector.astype(">f4").tobytes())

    def unpacked(self) -> "NDArray[np.float32]":
        """The vector, of shape (dimension,)."""
        import numpy as np  # noqa: PLC0415 - it takes a tenth of a second, which importing arc must not cost

        return np.frombuffer(self, dtype=">f4", offset=4).astype(np.float32)


def send_packed(connection: Any) -> None:
    """Let a psycopg connection send packed vectors as they are.

    No type is named: the server takes that of the place where it stands, so the extension may come later.
    """
    from psycopg.adapt import Dumper  # noqa: PLC0415 - an optional dependency
    from psycopg.pq import Format  # noqa: PLC0415

    class PackedVectorDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: PackedVector) -> PackedVector:
            return obj

    connection.adapters.register_dumper(PackedVector, PackedVectorDumper)
