"""Reference tables made from what they describe: commands from their own options, results from their schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kernels.figures.html import Markup, data_table, escape

REFERENCE = '<div class="kl-reference">'
"""How the HTML of a reference begins; it is text to read and to search, not a drawing."""

_CODE = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z][\w-]*)")  # between marks, or an option, which needs none


def command_reference(name: str, command) -> str:
    """A command with its arguments and options, then its commands; `command` is a click command or group.

    Every command below a group is a heading of level 3 with the anchor `NAME-COMMAND`. A command that stands alone has
    the heading that the page gives it.
    """
    parts = [REFERENCE]
    if not hasattr(command, "commands"):
        parts += _command(name, command)
    return "\n".join([*parts, *_below(name, command), "</div>"])


def _below(name: str, group) -> Iterator[str]:
    for word, each in sorted(getattr(group, "commands", {}).items()):
        full = f"{name} {word}"
        if not hasattr(each, "commands"):
            yield f'<h3 id="{escape(full.replace(" ", "-"))}"><code>{escape(full)}</code></h3>'
            yield from _command(full, each)
        yield from _below(full, each)


def _command(name: str, command) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    lines = [f"<p>{_words(paragraph)}</p>" for paragraph in paragraphs if paragraph]
    rows = []
    for one in command.params:
        if getattr(one, "hidden", False) or one.name == "help":
            continue
        argument = one.param_type_name == "argument"
        typed = (one.name or "").upper() if argument else ", ".join([*one.opts, *one.secondary_opts])
        kind = getattr(one, "type", None) or getattr(one, "type_descriptor", None)
        takes = "" if argument or one.is_flag else f" <{one.metavar or getattr(kind, 'name', 'value')}>"
        default = "" if one.default is None or callable(one.default) or one.required else str(one.default)
        rows.append((Markup(f"<code>{escape(typed + takes)}</code>"), Markup(_words(one.help or "")), default))
    if rows:
        lines.append(_options(rows, f"Options of {name}"))
    return lines


def _options(rows: Sequence[tuple[object, object, str]], caption: str) -> str:
    """The table of options; what stands for one that is left out has a column where anything does."""
    headers = ("argument or option", "meaning", "when left out")
    if not any(default for *_, default in rows):
        return data_table(headers[:2], [row[:2] for row in rows], caption, numeric=())
    return data_table(headers, rows, caption, numeric=(), stack=True)


def _words(text: str) -> str:
    return _CODE.sub(lambda found: f"<code>{found[1] or found[2]}</code>", escape(text))


def schema_reference(schema: Mapping[str, object]) -> str:
    """A JSON Schema's objects as tables: each property with its type, and whether it must be there.

    An object is a heading of level 2, its description stands above its table; the root's object comes first.
    """
    named = schema["$defs"]
    first = str(schema.get("$ref", "")).rpartition("/")[2]
    parts = [REFERENCE]
    for name in sorted(named, key=lambda each: (each != first, each)):
        one = named[name]
        if "properties" not in one:
            continue
        parts.append(f'<h2 id="{escape(name.lower())}">{escape(name)}</h2>')
        parts += [f"<p>{_words(each)}</p>" for each in re.split(r"\n\s*\n", one.get("description", "")) if each]
        needed = one.get("required", ())
        rows = [
            (Markup(f"<code>{escape(field)}</code>"), Markup(type_words(rule)), "yes" if field in needed else "no")
            for field, rule in one["properties"].items()
        ]
        parts.append(data_table(("field", "holds", "must be there"), rows, f"Fields of {name}", numeric=()))
        for field, rule in one["properties"].items():
            for long in filter(_is_long, (rule, *rule.get("anyOf", ()))):
                words = ", ".join(f"<code>{escape(each)}</code>" for each in long["enum"])
                parts.append(f"<p><code>{escape(field)}</code> is one of {words}.</p>")
    return "\n".join([*parts, "</div>"])


def _is_long(rule: Mapping[str, object]) -> bool:
    """Whether a rule names more words than a cell of a table has room for on a phone."""
    return len(rule.get("enum", ())) > 3


def type_words(rule: Mapping[str, object]) -> str:
    """A property's rule in words, as HTML: `list of number`, a link to another object, `number or null`."""
    if "$ref" in rule:
        name = str(rule["$ref"]).rpartition("/")[2]
        return f'<a href="#{escape(name.lower())}">{escape(name)}</a>'
    if "anyOf" in rule:
        return " or ".join(type_words(each) for each in rule["anyOf"])
    if "const" in rule:
        return f"always <code>{escape(rule['const'])}</code>"
    if _is_long(rule):
        return f"one of {len(rule['enum'])} words, below"
    if "enum" in rule:
        return "one of " + ", ".join(f"<code>{escape(each)}</code>" for each in rule["enum"])
    if rule.get("type") == "array":
        return f"list of {type_words(rule['items'])}" if "items" in rule else "list"
    if rule.get("type") == "object" and isinstance(rule.get("additionalProperties"), Mapping):
        return f"names, each with {type_words(rule['additionalProperties'])}"
    return escape(rule.get("type", "anything"))
