"""``python -m hw schema|sources|fields``: print what is generated from the schema and the presets."""

from __future__ import annotations

import argparse
import json

from hw.documents import fields_table, sources_page
from hw.schema import json_schema


def schema_text() -> str:
    """The JSON Schema as ``hw/chip.schema.json`` has it."""
    return json.dumps(json_schema(), indent=2) + "\n"


def main() -> None:
    """Print one of the generated documents."""
    documents = {"schema": schema_text, "sources": sources_page, "fields": fields_table}
    parser = argparse.ArgumentParser(prog="python -m hw", description="Print what is generated from the chip schema.")
    parser.add_argument("document", choices=documents)
    print(documents[parser.parse_args().document](), end="")


if __name__ == "__main__":
    main()
