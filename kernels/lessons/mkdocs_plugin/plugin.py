"""The MkDocs plugin: it hands pages to the engine and outputs to the pages."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from mkdocs.commands import serve as serve_command
from mkdocs.config import base
from mkdocs.config import config_options as options
from mkdocs.exceptions import Abort, PluginError
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority
from mkdocs.structure.files import File
from mkdocs.utils import CountHandler, get_relative_url

from kernels.exercises.library import EXERCISES
from kernels.lessons import fence
from kernels.lessons.engine import Engine, Report
from kernels.lessons.explained import linked
from kernels.lessons.mkdocs_plugin.headings import complete
from kernels.lessons.mkdocs_plugin.live import LiveSite
from kernels.lessons.mkdocs_plugin.pages import docs_name, in_order_of, new_markdown_of, page_sources
from kernels.lessons.mkdocs_plugin.server import PreviewServer
from kernels.lessons.model import Fault, PageOutcome, PageSource
from kernels.lessons.notebook import is_notebook, notebook_sources, write_notebooks
from kernels.lessons.preview import Preview, source_of_page
from kernels.lessons.progress import showing
from kernels.lessons.render import PageRenderer, record_folders
from kernels.lessons.report import acceptable, counted, judged, known, ran, summary
from kernels.lessons.scan import annotate_known, rendered_unseen
from kernels.lessons.staging import Staging
from kernels.lessons.turns import Turn

log = logging.getLogger("mkdocs.plugins.lessons")


class LessonsConfig(base.Config):
    """Options of the plugin in mkdocs.yml."""

    mode = options.Choice(("run", "frozen", "verify"), default="run")
    shown_notebooks = options.ListOfItems(options.Type(str), default=[])
    watch = options.ListOfItems(options.Type(str), default=["kernels", "cuda", "lessons_src", "results"])
    shared = options.ListOfItems(options.Type(str), default=[])
    """Pages that others are made from, as a glossary is: when one changes, a live preview renders all pages."""


class LessonsPlugin(BasePlugin[LessonsConfig]):
    """Runs the pages' blocks before the pages are rendered, and fails the build when a page is untrue."""

    supports_multiple_instances = False

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._made_for: tuple[Path, str] | None = None
        self.command = "build"
        self.dirty = False
        self.report = self._notebooks = self._brought = Report()
        self._turn = Turn()
        self._made: list[str] = []
        self._made_of: tuple | None = None
        self._staging: Staging | None = None
        self.preview = Preview()
        self._live: LiveSite | None = None
        self._renderer: PageRenderer | None = None
        self._pass = None
        self._late: list[Fault] = []

    def on_startup(self, *, command: str, dirty: bool) -> None:
        """Remember whether this is a build or a live preview; being here keeps the plugin between rebuilds."""
        self.command, self.dirty = command, dirty
        self.preview.turns.stepwise = self.previewing and serve_command.LiveReloadServer is PreviewServer

    def on_shutdown(self) -> None:
        """End the warm workers."""
        if self.engine:
            self.engine.close()

    @property
    def previewing(self) -> bool:
        """Whether a live preview renders only what changed."""
        return self.command == "serve" and self.dirty

    @event_priority(100)
    def on_config(self, config):
        """Register the fences and make the engine."""
        try:
            fence.register(config.mdx_configs, config.markdown_extensions)
        except ValueError as error:
            raise PluginError(str(error)) from None
        root = Path(config.config_file_path).parent if config.config_file_path else Path.cwd()
        settings = json.dumps([config.markdown_extensions, config.mdx_configs], sort_keys=True, default=_named)
        if self._made_for != (root, settings):  # MkDocs keeps this plugin when mkdocs.yml is saved under live preview
            self.on_shutdown()
            try:
                self.engine = Engine(root.resolve(), new_markdown_of(config), settings=settings)
            except ValueError as error:  # of LESSONS_WITHOUT or LESSONS_JOBS
                raise PluginError(str(error)) from None
            self.preview.forget()
            self._made_for, self._live = (root, settings), LiveSite(root, self.preview)
        if self.previewing:
            self._live.keep_templates(config)
        return config

    def on_pre_build(self, *, config) -> None:
        """Build beside the site, so that a failed build leaves the last good one."""
        if self.command == "serve":
            return
        self._staging = Staging(Path(config.site_dir))
        config.site_dir = str(self._staging.folder)

    @event_priority(50)
    def _add_notebooks(self, files, *, config):
        """Run the notebooks, and give the site what was made of them before another plugin looks for notebooks."""
        self._late = []
        sources = notebook_sources(self.engine.root)
        pages = in_order_of(config.nav, page_sources(files))
        self._turn = self.preview.begin([*pages, *sources], self.report.pages, pages[0].name if pages else "")
        self._brought = Report()
        self._notebooks = self._bring(sources)

        def url_of(page: str, here: str) -> str | None:
            target = files.get_file_from_path(page)
            return get_relative_url(target.url, here) if target else None

        root, shown = self.engine.root, self.config.shown_notebooks
        made_of = [*self._notebooks.pages.values()], shown, sorted(file.src_uri for file in files)
        if made_of != self._made_of or not all((root / ".lessons" / uri).exists() for uri in self._made):
            try:
                self._made = write_notebooks(root / ".lessons", root, self._notebooks.pages.values(), shown, url_of)
            except ValueError as error:
                raise PluginError(str(error)) from None
            self._made_of = made_of
        for uri in self._made:
            files.append(File(uri, str(root / ".lessons"), config.site_dir, config.use_directory_urls))
        return files

    @event_priority(-90)
    def _bring_pages(self, files, *, config):
        """Bring every page up to date before the first is rendered."""
        self.report = self._bring(page_sources(files))
        self.report.pages |= self._notebooks.pages
        self.report.interrupted |= self._notebooks.interrupted
        if self._brought.pages or not self.report.interrupted:
            log.info("Lessons: %s", summary(self._brought) if self._turn.runs else known(self._brought))
        if self.command == "serve":
            for line in ran(self._brought, docs_name(config)):
                log.info("%s", line)
        return files

    on_files = CombinedEvent(_add_notebooks, _bring_pages)

    def _bring(self, sources: list[PageSource]) -> Report:
        """The report on these pages; on those that are not asked for in this build, it says what the last one said."""
        mode = os.environ.get("LESSONS_MODE") or self.config.mode
        asked = [source for source in sources if self._is_asked(source.name)]
        if asked and self._turn.runs:
            log.info("Lessons: %s in mode %s", counted(len(asked), _kind(asked)), mode)
        try:
            with showing() as progress:
                stop = self.preview.interrupted if self.previewing else None
                report = self.engine.bring_up_to_date(
                    asked,
                    mode,
                    progress=progress,
                    interrupted=stop,
                    runs=self._turn.runs,
                    resting=self._turn.resting,
                )
        except ValueError as error:
            raise PluginError(str(error)) from None
        self._brought.pages |= report.pages
        left = {source.name for source in sources} - report.pages.keys()
        report.pages |= {name: outcome for name, outcome in self.report.pages.items() if name in left}
        return report

    def _is_asked(self, name: str) -> bool:
        """Whether this build looks at a page; notebooks are made from the first build on, for all link them."""
        names = self._turn.names
        return not names or name in names or (name.endswith(".py") and name not in self.report.pages)

    def _outcome(self, uri: str) -> PageOutcome | None:
        """What became of the source of a page of the site: a page, or a notebook that is shown as one."""
        return self.report.pages.get(source_of_page(uri))

    def on_nav(self, nav, *, config, files):
        """Decide what this build renders. A page that it does not read says what it said when it was shown."""
        if self.previewing:
            texts = {each.name: each.digest for each in page_sources(files)}
            shared = [texts[name] for name in self.config.shared if name in texts]
            complete = not (self._turn.names or self.report.interrupted)
            self._live.plan(nav, config, files, self._outcome, shared, complete)
        return nav

    @event_priority(100)
    def on_page_markdown(self, markdown, *, page, config, files):
        """Number the page's blocks and make their outputs available to the fences."""
        outcome = self._outcome(page.file.src_uri)
        if outcome is not None:
            page.meta["lessons"] = _facts(outcome)
        if outcome is None or page.file.src_uri.endswith(".ipynb"):
            return markdown
        self._renderer = PageRenderer(outcome, self.engine.runs, self.engine.root, authoring=self.command == "serve")
        self._pass = fence.passing(self._renderer)
        self._pass.__enter__()
        return annotate_known(outcome.scan)

    @event_priority(100)
    def on_page_content(self, html, *, page, config, files):
        """Check that every block of the page is on it, and nothing that was not run; list the headings they made."""
        renderer, self._renderer = self._renderer, None
        if renderer is None:
            return html
        self._pass.__exit__(None, None, None)
        renderer.finish()
        self._late += renderer.extra_faults + renderer.not_rendered()
        if rendered_unseen(html):
            message = "an executed block or inline value was rendered without having been run"
            self._late.append(Fault(page.file.src_uri, 1, "unplaced", message))
        page.toc = complete(page.toc, html)

        def href(name: str) -> str | None:
            target = files.get_file_from_path(name)
            return target.url_relative_to(page.file) if target and target is not page.file else None

        return linked(html, href)

    def on_env(self, env, *, config, files):
        """All pages of this build have been read: now their titles are known."""
        if self.previewing:
            self._live.all_read(config, files)
        return env

    @event_priority(100)
    def on_page_context(self, context, *, page, config, nav):
        """Let the search's index take the edited page when it is shown already, and any other now."""
        if self.previewing:
            self._live.before_page(page, config)
        return context

    @event_priority(-100)
    def on_post_page(self, output, *, page, config):
        """Take down what is shown."""
        if self.previewing and self._outcome(page.file.src_uri):
            self._live.after_page(output, page)
        return output

    @event_priority(100)
    def _on_post_build_first(self, *, config) -> None:
        """Give the search's index all pages. When somebody waits for a page, the build that follows does so."""
        if self.previewing:
            self._live.fill_search(config)

    @event_priority(-100)
    def _on_post_build_last(self, *, config) -> None:
        """Report; publish the new site, or keep the old one."""
        publishing = self.command == "gh-deploy" or bool(os.environ.get("MIKE_DOCS_VERSION"))
        strict = config.strict or publishing
        strict |= (os.environ.get("LESSONS_MODE") or self.config.mode) != "run"
        # A preview does not say all again, and nothing of what waits to be run.
        brought = (self._brought if self.command == "serve" else self.report).pages.values()
        told = [*(fault for page in brought if not page.waiting for fault in page.all_faults()), *self._late]
        fatal = 0
        for is_fatal, line in judged(told if self._turn.runs else [], docs_name(config), strict=strict):
            fatal += is_fatal
            log.log(logging.ERROR if is_fatal else logging.WARNING, line)
        if self.command == "serve":
            return
        warned = any(
            isinstance(handler, CountHandler) and handler.get_counts()
            for handler in logging.getLogger("mkdocs").handlers
        )
        if fatal or (config.strict and warned):
            there = self._staging.target.exists()
            kept = "the site is as it was" if there else "no site was made; lessons serve shows the pages as they are"
            self._discard()
            if fatal:
                raise Abort(f"Lessons: {counted(fatal, 'fault')}; {kept}. {summary(self.report)}")
            return  # MkDocs itself aborts now, over the warnings that it counted
        self._staging.publish()
        config.site_dir = str(self._staging.target)
        self._staging = None

    on_post_build = CombinedEvent(_on_post_build_first, _on_post_build_last)

    def on_build_error(self, *, error) -> None:
        """Leave the site as it was."""
        if self._pass is not None and self._renderer is not None:
            self._renderer = None
            self._pass.__exit__(None, None, None)
        self._discard()

    def on_serve(self, server, *, config, builder):
        """Rebuild when the code behind the pages changes."""
        for name in self.config.watch:
            path = self.engine.root / name
            if path.exists():
                server.watch(str(path))
        theme = config.theme.custom_dir
        if theme and not Path(theme).resolve().is_relative_to(Path(config.docs_dir).resolve()):
            server.watch(theme)
        exercises = self.engine.root / EXERCISES
        self.preview.can_wait = lambda path: path.resolve().is_relative_to(exercises)
        if isinstance(server, PreviewServer):
            server.follow(self.preview, self._accept_shown)
        return server

    def _accept_shown(self) -> None:
        """Accept what the pages show; what fails, and what has changed since it was shown, is not accepted."""
        names = acceptable(self.report)
        for name in names:
            written, refusal = self.engine.accept_shown(self.report.pages[name])
            for line in [refusal] if refusal else [f"accepted {path}" for path in written]:
                log.info("%s", line)
        if not names:
            log.info("nothing is shown that could be accepted")

    def _discard(self) -> None:
        if self._staging is not None:
            self._staging.discard()
            self._staging = None


def _kind(sources: list[PageSource]) -> str:
    return "notebook" if is_notebook(sources[0]) else "page"


def _facts(outcome) -> dict[str, object]:
    """What a page's template may say about it."""
    labels = sorted({each.label for each in outcome.outcomes.values() if each.label})
    read = [path for each in outcome.outcomes.values() for path in each.output.data]
    labels += [f"measurements in {folder}" for folder in record_folders(read)]
    return {"blocks": len(outcome.outcomes), "values": len(outcome.values), "labels": labels}


def _named(value: object) -> str:
    return getattr(value, "__qualname__", None) or type(value).__qualname__
