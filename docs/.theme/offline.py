"""A hook of mkdocs.yml: the offline bundle asks no server for anything.

The theme's plugin for offline reading loads a script from a server that stands in for the search's worker; the bundle
has one of its own (`assets/file-worker.js`). Such a page has no versions beside it either.
"""

from __future__ import annotations

from mkdocs.plugins import event_priority


@event_priority(-100)  # after the plugin
def on_config(config):
    """The configuration with our own script in the place of the one from a server."""
    if config.extra.get("polyfills"):
        config.extra["polyfills"] = [
            "assets/file-worker.js" if "iframe-worker" in str(each) else each for each in config.extra["polyfills"]
        ]
    return config
