"""A hook of mkdocs.yml: `[words][name]` means what Markdown says it means, and no Python name.

mkdocstrings brings an extension that takes `x[1][34]` in a sentence for a link to a name, and warns where there is
none. Links between names in docstrings do not need it.
"""

from __future__ import annotations

from mkdocs.plugins import event_priority


@event_priority(-100)  # after the plugin that brings it
def on_config(config):
    """The configuration without that extension."""
    config.markdown_extensions[:] = [
        each for each in config.markdown_extensions if type(each).__name__ != "AutorefsExtension"
    ]
    return config
