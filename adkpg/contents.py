"""Contents: ADK's contents read from JSON text; those of texts alone without validation."""

import json
from typing import Any

from google.genai import types
from pydantic_core import from_json

_CONTENT = types.Content(role="user", parts=[])
_PART = types.Part(text="")


def read(text: str) -> types.Content:
    """Returns a content that pydantic wrote as JSON text.

    Most are of texts alone. These are copied from one that is valid, in less than half of the time
    that a validation takes: it runs Python code of google-genai's for each content and part.
    """
    try:
        fields: dict[str, Any] = from_json(text)
        parts: Any = fields.get("parts")
        if fields.keys() == {"parts", "role"} and all(part.keys() == {"text"} for part in parts):
            fields["parts"] = [_PART.model_copy(update=part) for part in parts]
            return _CONTENT.model_copy(update=fields)
        return types.Content.model_validate_json(text)
    except ValueError:  # a lone surrogate, which pydantic's parser refuses
        return types.Content.model_validate(json.loads(text))
