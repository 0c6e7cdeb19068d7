"""An image, a tool call, and a provider's own tool call for tests of messages."""

import base64

from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.bridge.pydantic import BaseModel, ConfigDict

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
PNG_TEXT = base64.b64encode(PNG).decode()
CALL = ToolCallBlock(tool_call_id="c1", tool_name="find", tool_kwargs={"q": "x"})


class OpenCall(BaseModel):
    """A provider's model that accepts any field, like OpenAI's."""

    model_config = ConfigDict(extra="allow")
    id: str
