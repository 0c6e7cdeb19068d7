"""Documents: the caller's, and those of one of its users."""

from typing import Annotated

from fastapi import Depends, Path

from arc_common.documents import ScoredDocument
from arc_common.engine.documents import DocumentIndex
from arc_common.exceptions import NotFoundError
from arc_common.server.models import DocumentOut, DocumentsIn, IdsOut, SearchIn
from arc_common.server.routes.parameters import Caller, UserId


async def _documents(access: Caller, user_id: UserId = None) -> DocumentIndex:
    return access.engine.documents_of(access.caller_id, user_id=access.user(user_id))


Documents = Annotated[DocumentIndex, Depends(_documents)]
DocumentId = Annotated[str, Path(alias="documentId", min_length=1, max_length=255, description="The document's id.")]


async def add_documents(documents: Documents, body: DocumentsIn) -> IdsOut:
    """Store documents: of the user if one is named or the token is for one, otherwise of the caller."""
    return IdsOut(ids=await documents.aadd([one.document() for one in body.documents], chunk=body.chunk))


async def search_documents(documents: Documents, body: SearchIn) -> list[DocumentOut]:
    """Return the documents that match a question, best first: the user's, otherwise the caller's."""
    found = await documents.asearch(body.query, top_k=body.top_k, filters=body.filters)
    return list(map(DocumentOut.of, found))


async def get_document(documents: Documents, document_id: DocumentId) -> DocumentOut:
    """Return one document, or one chunk."""
    found = await documents.aget([document_id])
    if not found:
        raise NotFoundError(f"no document {document_id!r}")
    return DocumentOut.of(ScoredDocument(found[0]))


async def delete_document(documents: Documents, document_id: DocumentId) -> None:
    """Delete a document with its chunks."""
    if not await documents.adelete([document_id]):
        raise NotFoundError(f"no document {document_id!r}")
