"""What readers of JUnit XML accept, by the schema of Jenkins' xUnit plugin."""

from __future__ import annotations

from xml.etree import ElementTree as ET

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"skipped", "failure", "error", "system-out", "system-err"},
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "property": {"name", "value"},
    "testcase": {"name"},
}


def read_junit(xml: str) -> ET.Element:
    """Return the root of JUnit XML. Raises ValueError for what readers would refuse."""
    root = ET.fromstring(xml)  # noqa: S314 - written by a test
    if root.tag != "testsuites":
        raise ValueError(f"begins with {root.tag}")
    for element in root.iter():
        strange = {child.tag for child in element} - CHILDREN.get(element.tag, set())
        if strange:
            raise ValueError(f"{element.tag} has {strange}")
        if missing := REQUIRED.get(element.tag, set()) - set(element.keys()):
            raise ValueError(f"{element.tag} lacks {missing}")
    for suite in root:
        cases = suite.findall("testcase")
        if int(suite.get("tests", "-1")) != len(cases):
            raise ValueError(f"{suite.get('tests')} tests, but {len(cases)} cases")
    return root
