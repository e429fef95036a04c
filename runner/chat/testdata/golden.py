"""Renders the templates with Python's Jinja, set up as the transformers library does, and writes golden.json.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python golden.py [MODEL.gguf]

With a model's file it renders that file's own template too, of which it keeps hashes only.
"""

import datetime
import hashlib
import json
import pathlib
import struct
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
# The day that strftime_now says.
NOW = datetime.datetime(2026, 2, 7)


class Generation(Extension):
    """{% generation %} marks what the model says; it renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(source, messages):
    try:
        return {"want": environment().from_string(source).render(
            messages=messages, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")}
    except jinja2.exceptions.TemplateError as e:
        return {"error": str(e)}


def template_of(path):
    """The chat template of a GGUF file."""
    data = pathlib.Path(path).read_bytes()
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key) + 4
    (size,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + size].decode()


def main():
    chats = json.loads((HERE / "chats.json").read_text())
    golden = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        # A file's last newline is not the template's.
        source = path.read_text().removesuffix("\n")
        for name, messages in chats.items():
            golden.append({"template": path.stem, "chat": name, **render(source, messages)})
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
    if len(sys.argv) > 1:
        source, hashes = template_of(sys.argv[1]), {}
        for name, messages in chats.items():
            hashes[name] = hashlib.sha256(render(source, messages)["want"].encode()).hexdigest()
        (HERE / "model.json").write_text(json.dumps(hashes, indent=1) + "\n")


main()
