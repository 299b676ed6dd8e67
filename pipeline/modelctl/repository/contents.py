"""The files of a registry repository, by their place in it, as text: templates with a team's answers filled in."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from importlib import resources

from modelctl.repository.plan import NAMESPACE, Plan

_OPEN = re.compile(r"%[A-Z_]+%")

AS_THEY_ARE = {
    ".github/workflows/admit.yml": "github/workflows/admit.yml",
    ".github/workflows/publish.yml": "github/workflows/publish.yml",
    ".github/workflows/rollout.yml": "github/workflows/rollout.yml",
    ".github/workflows/check.yml": "github/workflows/check.yml",
    ".github/actionlint.yaml": "github/actionlint.yaml",
    ".github/zizmor.yml": "github/zizmor.yml",
    ".github/dependabot.yml": "github/dependabot.yml",
    **{
        f".github/actions/modelctl/{name}.txt": f"github/actions/modelctl/{name}.txt"
        for name in ("pip", "core", "dev", "quantization", "quantization-build")
    },
    ".gitignore": "gitignore",
    "registry/README.md": "registry/README.md",
    "policies/demo.yaml": "policies/demo.yaml",
    "policies/production.yaml": "policies/production.yaml",
    **{
        f"policies/cluster/{name}.yaml": f"policies/cluster/{name}.yaml"
        for name in ("kustomization", "namespace", "policy")
    },
    **{
        f"gitops/bootstrap/{name}.yaml": f"gitops/bootstrap/{name}.yaml"
        for name in ("applications", "kustomization", "projects")
    },
    **{f"gitops/checks/{name}": f"gitops/checks/{name}" for name in ("run.sh", "job.yaml", "workflow.yaml")},
    **{
        f"gitops/checks/cluster/{name}.yaml": f"gitops/checks/cluster/{name}.yaml"
        for name in ("access", "kustomization", "workflow-template")
    },
}
"""Place in the repository → template; many are links to this project's own files."""


def template(name: str) -> str:
    """The text of a template."""
    return (resources.files("modelctl.repository") / "templates" / name).read_text(encoding="utf-8")


def contents(plan: Plan) -> dict[str, str]:
    """Path → text of every file, in their order. `.dvc/` is not among them: it is written by `registry.dvc`."""
    found = {path: template(name) for path, name in AS_THEY_ARE.items()}
    words = _words(plan)
    found |= {
        "README.md": filled("README.md", words),
        "modelctl.yaml": filled("modelctl.yaml", words),
        ".github/CODEOWNERS": filled("github/CODEOWNERS", words),
        ".github/actions/modelctl/action.yml": filled("github/actions/modelctl/action.yml", words),
        "policies/cluster/published.yaml": edited(template("policies/cluster/published.yaml"), {"data": {}}),
        "gitops/bootstrap/settings.yaml": _settings(plan),
    }
    found |= {f"gitops/environments/{name}/environment.yaml": _environment(plan, name) for name in plan.environments}
    if plan.signers:
        found["policies/allowed_signers"] = "".join(f"{line}\n" for line in plan.signers)
    return dict(sorted(found.items()))


def filled(name: str, words: Mapping[str, str]) -> str:
    """A template with its `%WORDS%` replaced; one that is unknown is a `KeyError`."""
    return _OPEN.sub(lambda found: words[found[0].strip("%")], template(name))


def edited(text: str, values: Mapping[str, object]) -> str:
    """A YAML file with values put at dotted keys; comments and everything else stay. None takes a key out."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.width = 4096
    writer.preserve_quotes = True
    writer.indent(mapping=2, sequence=4, offset=2)
    body = writer.load(text)
    for key, value in values.items():
        *parents, last = key.split(".")
        place = body
        for part in parents:
            place = place[part]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    stream = io.StringIO()
    writer.dump(body, stream)
    return stream.getvalue()


def _words(plan: Plan) -> dict[str, str]:
    return {
        "BUCKET": plan.bucket,
        "ENDPOINT": f"  endpoint: {plan.endpoint}\n" if plan.endpoint else "",
        "REGION": f"  region: {plan.region}\n" if plan.region else "",
        "ENVIRONMENTS": ", ".join(plan.environments),
        "FIRST": plan.environments[0],
        "PROGRAM": plan.program or "",
        "OWNERS": "".join(_owned(plan.owner)),
        "SIGNERS": f"{'are listed in' if plan.signers else 'belong into'} `policies/allowed_signers`",
    }


def _owned(owner: str | None) -> Iterator[str]:
    """The lines of CODEOWNERS: comments while nobody is named, since GitHub passes over owners that do not exist."""
    begin = "" if owner else "# "
    for path in ("/.github/", "/policies/", "/modelctl.yaml", "/gitops/", "/registry/"):
        yield f"{begin}{path:<16} {owner or '@your-org/your-team'}\n"


def _settings(plan: Plan) -> str:
    text = template("gitops/bootstrap/settings.yaml")
    return edited(text, {"data.repository": plan.repository}) if plan.repository else text


def _environment(plan: Plan, name: str) -> str:
    header = (
        f"# What {name} offers to every release. An example: put your own cluster's names, addresses and digests "
        "here.\n"
    )
    values: dict[str, object] = {
        "team": plan.team,
        "owner": plan.owner if plan.owner and not plan.owner.startswith("@") else None,
        "namespace": NAMESPACE + name,
        "store.bucket": plan.bucket,
    }
    if plan.endpoint:
        values["store.endpoint"] = plan.endpoint
    return header + edited(template("gitops/environment.yaml").partition("\n")[2], values)
