"""Print the software bill of materials of a wheel: what was compiled into it, and what it needs when it runs.

Usage: python sbom.py PYPROJECT

The build stores the output in the wheel as mpsgraph-*.dist-info/sboms/mpsgraph.cdx.json (PEP 770), in CycloneDX's JSON
format. The versions are those of the distributions in the build's environment. There is no timestamp, so that
identical builds give identical files.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]  # installed, because scikit-build-core needs it

COMPILED_IN = [("pybind11", "BSD-3-Clause"), ("nlohmann-json", "MIT")]  # headers, compiled into the binaries
LICENSES = {"numpy": "BSD-3-Clause"}


def component(name: str, version: str | None, license_id: str, scope: str, description: str) -> dict:
    url = f"pkg:pypi/{name}@{version}" if version else f"pkg:pypi/{name}"
    described = {"type": "library", "bom-ref": url, "name": name, "scope": scope, "description": description}
    if version:
        described["version"] = version
    return described | {"purl": url, "licenses": [{"license": {"id": license_id}}]}


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def sbom(pyproject: dict) -> dict:
    """Return the document as a dict."""
    version = pyproject["project"]["version"]
    own = f"pkg:pypi/mpsgraph@{version}"
    components = [
        component(name, installed(name), license_id, "required", "compiled into the wheel's binaries")
        for name, license_id in COMPILED_IN
    ]
    for requirement in pyproject["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)[0]
        described = f"not in the wheel; installed as a dependency: {requirement}"
        # A range of versions is resolved when the wheel is installed, not when it is built.
        exact = re.search(r"==([\w.]+)", requirement.partition(";")[0])
        components.append(component(name, exact[1] if exact else None, LICENSES[name], "required", described))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "mpsgraph",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": pyproject["project"]["license"]}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [one["bom-ref"] for one in components]},
            *({"ref": one["bom-ref"]} for one in components),
        ],
    }


if __name__ == "__main__":
    document = sbom(tomllib.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps(document, indent=2))
