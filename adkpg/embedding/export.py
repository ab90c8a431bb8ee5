"""What the folder of a sentence-transformers model says of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from adkpg.errors import ConfigurationError

POOLINGS = ("mean", "cls", "max", "lasttoken")
"""How the vectors of a text's tokens become one."""

_MODULES = ("Transformer", "Pooling", "Normalize")
_PASSAGES = ("document", "passage", "corpus")  # as sentence-transformers looks for their prompt
_MOST_TOKENS = 512  # of a model that does not say


class Export(NamedTuple):
    """A model as its folder describes it.

    Attributes:
      dimensions: Length of the vectors; None if nothing says.
      max_tokens: What it reads of a text.
      pooling: One of `POOLINGS`, another, or None if nothing says.
      beyond: Steps that the model takes besides.
      query_prompt: What stands before a question.
      document_prompt: What stands before a text.
      lowercase: Whether texts are in lower case before the tokenizer reads them.
    """

    dimensions: int | None
    max_tokens: int
    pooling: str | None
    beyond: tuple[str, ...]
    query_prompt: str
    document_prompt: str
    lowercase: bool


def read_export(folder: Path) -> Export:
    """Reads the folder's JSON files; each may be missing.

    Raises:
      ConfigurationError: One cannot be read.
    """
    pooling = _read(folder, "1_Pooling/config.json")
    sentences = _read(folder, "sentence_bert_config.json")
    told = _read(folder, "config_sentence_transformers.json")
    prompts = told.get("prompts") or {}
    usual = prompts.get(told.get("default_prompt_name"), "")
    limits = [
        sentences.get("max_seq_length"),
        _read(folder, "tokenizer_config.json").get("model_max_length"),
    ]
    modules = _read(folder, "modules.json", [])
    kinds = [str(each.get("type")).rpartition(".")[2] for each in modules]
    beyond = [kind for kind in kinds if kind not in _MODULES]
    if pooling.get("include_prompt") is False:
        beyond.append("pooling without the prompt")
    return Export(
        dimensions=pooling.get("word_embedding_dimension")
        or _read(folder, "config.json").get("hidden_size"),
        # A tokenizer without a limit has one of 1e30.
        max_tokens=min((each for each in limits if each and each < 1e9), default=_MOST_TOKENS),
        pooling=_pooling(pooling),
        beyond=tuple(beyond),
        query_prompt=prompts.get("query") or usual,
        document_prompt=next((prompts[key] for key in _PASSAGES if prompts.get(key)), usual),
        lowercase=bool(sentences.get("do_lower_case")),
    )


def _pooling(told: dict[str, Any]) -> str | None:
    """The mode as later versions name it, or as the flags of earlier ones do."""
    modes = told.get("pooling_mode") or [
        key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for key, chosen in told.items()
        if key.startswith("pooling_mode_") and chosen
    ]
    modes = [modes] if isinstance(modes, str) else modes
    # Its vectors are the mean's, of another length; the length does not count for cosines.
    return "+".join(modes).replace("mean_sqrt_len", "mean") or None


def _read(folder: Path, name: str, missing: Any = None) -> Any:
    path = folder / name
    missing = {} if missing is None else missing
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, type(missing)):
            raise ValueError(f"no {type(missing).__name__}")
        return found
    except FileNotFoundError:
        return missing
    except (OSError, ValueError) as exc:
        raise ConfigurationError(
            f"{path} cannot be read ({type(exc).__name__}); export the model again."
        ) from exc
