"""The MkDocs plugin, and what commands ask of MkDocs. Of `kernels`, this folder alone imports `mkdocs`."""

from kernels.lessons.mkdocs_plugin.pages import new_markdown_of
from kernels.lessons.mkdocs_plugin.plugin import LessonsPlugin
from kernels.lessons.mkdocs_plugin.project import ProjectError, build_site, open_project, scan_text
from kernels.lessons.mkdocs_plugin.server import serve_site

__all__ = ["LessonsPlugin", "ProjectError", "build_site", "new_markdown_of", "open_project", "scan_text", "serve_site"]
