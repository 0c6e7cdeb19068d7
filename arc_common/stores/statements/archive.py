"""The SQL statements that move conversations into the archive and back."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, delete, exists, func, null, select, update

from arc_common.protocols.conversations import ConversationStatus
from arc_common.stores.branch_paths import in_conversation, is_active
from arc_common.stores.database.schema import branches, conversations, messages, stray_objects
from arc_common.stores.statements.compiler import Statements, insert_for, later
from arc_common.stores.statements.conversations import same_session

_OBJECTS = conversations.c.archive_path


@cache
def archive_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    known = _OBJECTS.is_not_distinct_from(bindparam("before", type_=Text))
    same = conversations.c.incarnation == bindparam("incarnation", type_=BigInteger)
    unchanged = [conversations.c[name] == bindparam(name) for name in ("epoch", "next_seq", "next_branch")]
    held = exists().where(messages.c.conversation == conversations.c.conversation)
    changed: Any = update(conversations).where(*same_session(), known)
    return Statements(
        dialect_name,
        {
            "look": select(
                *(conversations.c[name] for name in ("user_id", "status", "incarnation")),
                *(conversations.c[name] for name in ("archive_path", "archive_checksum")),
                held.where(messages.c.caller_id == conversations.c.caller_id),
            ).where(*same_session()),
            "name_objects": changed.where(same, is_active())
            .values(archive_path=bindparam("objects", type_=Text))
            .returning(conversations.c.user_id),
            "forget_objects": changed.values(archive_path=func.nullif(bindparam("objects", type_=Text), "")).returning(
                conversations.c.user_id
            ),
            "note_stray": insert_for(dialect_name)(stray_objects).on_conflict_do_nothing(),
            "strays": select(*(stray_objects.c[name] for name in ("conversation", "caller_id", "path")))
            .where(stray_objects.c.since <= bindparam("before", type_=BigInteger))
            .order_by(stray_objects.c.since),
            "drop_stray": delete(stray_objects).where(
                *in_conversation(stray_objects), stray_objects.c.path == bindparam("path")
            ),
            "archive": changed.where(same, is_active(), *unchanged)
            .values(status=ConversationStatus.ARCHIVED.value, archive_checksum=bindparam("checksum"))
            .returning(conversations.c.user_id),
            "heads": select(branches.c.branch, branches.c.head_seq)
            .where(*in_conversation(branches))
            .order_by(branches.c.branch),
            "drop_messages": delete(messages).where(*in_conversation(messages)),
            "restore": changed.where(same, conversations.c.status == bindparam("was"))
            .values(
                status=ConversationStatus.ACTIVE.value,
                archive_path=bindparam("objects", type_=Text),
                archive_checksum=null(),
                updated_at=later("now", conversations.c.updated_at),
            )
            .returning(conversations.c.user_id),
        },
    )
