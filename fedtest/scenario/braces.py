"""What was meant by two braces where YAML sees a mapping: a template."""

from __future__ import annotations

_SHOWN = 60


def hint(text: str, index: int) -> str:
    """How to mend it, if the place at `index`, or what is before it in its line, is a template."""
    start = text.rfind("\n", 0, index) + 1
    at = text.rfind("{{", start, index + 2)
    if at < 0:
        return ""
    end = text.find("}}", at, at + _SHOWN)
    path = text[at + 2 : end].strip() if end > 0 else ""
    if not path or "\n" in path:
        path = "path"
    if at and text[at - 1] == "$":
        return f"within braces and brackets a text with ${{{{ {path} }}}} is in quotes"
    return f'a template is written ${{{{ {path} }}}}, and "${{{{ {path} }}}}" within braces'
