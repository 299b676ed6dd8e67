"""A model that is looked at and not fetched: a folder here, or a repository of the Hub at one commit.

Of a folder headers are read, of the Hub the listing, `config.json`, the index and the card; never weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from modelctl.documents import MAX_DOCUMENT_BYTES
from modelctl.model.card import CARD
from modelctl.model.config import ModelConfig
from modelctl.model.hub import Hub
from modelctl.model.hub_peek import read_small
from modelctl.model.listing import Upstream
from modelctl.model.source_names import hub_name
from modelctl.sizing.facts import ModelFacts, config_of_folder, config_of_hub, facts_of_folder, facts_of_hub


@dataclass(frozen=True, kw_only=True)
class FolderPeek:
    """A folder. `config` and `facts` raise `InputError`, `facts` also `CannotDecideError`."""

    name: str
    """As a person wrote it."""
    folder: Path

    def card(self) -> bytes:
        """The first MiB of the model card; nothing where there is none."""
        path = self.folder / CARD
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            return stream.read(MAX_DOCUMENT_BYTES)

    def config(self) -> ModelConfig:
        """Its config.json."""
        return config_of_folder(self.folder, name=self.name)

    def facts(self) -> ModelFacts:
        """What sizing needs."""
        return facts_of_folder(self.folder, name=self.name)


@dataclass(frozen=True, kw_only=True)
class HubPeek:
    """A repository of the Hub. Every method raises `InputError`, `CannotDecideError`, `RefusedError`."""

    upstream: Upstream
    hub: Hub = field(default_factory=Hub)

    def card(self) -> bytes:
        """The model card; nothing where there is none."""
        return read_small(self.hub, self.upstream, CARD)[:MAX_DOCUMENT_BYTES] if CARD in self.upstream.files else b""

    def config(self) -> ModelConfig:
        """Its config.json."""
        return config_of_hub(self.hub, self.upstream)

    def facts(self) -> ModelFacts:
        """What sizing needs."""
        return facts_of_hub(self.hub, self.upstream)


def peek(repo: str, base: Path) -> FolderPeek | HubPeek:
    """What `repo` names: a folder, relative to `base`, or `[hub:]ORG/NAME[@REVISION]`, whose revision is pinned now.

    Raises `InputError` for neither, `CannotDecideError` when the Hub can't be asked.
    """
    folder = base / Path(repo).expanduser()
    if folder.is_dir():
        return FolderPeek(name=repo, folder=folder)
    hub = Hub()
    return HubPeek(upstream=hub.listing(*hub_name(repo)), hub=hub)
