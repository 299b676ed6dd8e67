"""The end of an admission and of a merge of several: what the policy says of the release as a whole, then the verdict.

The policy's own findings are those of no check: where the model comes from, its licence, a team's rules over the
report, and waivers that do not hold. They stand in the report as the check `policy`, and only in a whole report: of a
part of the checks nothing whole can be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from modelctl.admission.policy import LoadedPolicy, Policy
from modelctl.admission.report import CheckReport, ModelReport, Report, as_plain
from modelctl.admission.rules import evaluate
from modelctl.admission.runner import now
from modelctl.admission.verdict import decide, outcome_of
from modelctl.admission.waivers import Waivers
from modelctl.checks import CHECK_IDS
from modelctl.checks.base import Coverage, Finding, Observation, Undecided
from modelctl.isolation import Sandbox

POLICY_ID = "policy"
CARD_REMEDY = "correct 'license' in the front matter of the model's README.md, or propose another model"


def close(draft: Report, loaded: LoadedPolicy, waivers: Waivers, sandbox: Sandbox) -> Report:
    """The report with the policy's findings, where it is whole, and its verdict; the draft's own is not looked at."""
    policy = loaded.policy
    checks = draft.checks
    if not draft.partial:
        checks = (*checks, _judge(draft, policy, waivers, sandbox))
    decision = decide(
        checks,
        may_skip=frozenset(name for name in (*CHECK_IDS, *policy.spec.own_checks) if policy.limits(name).allow_skip),
        isolation_missing=policy.spec.isolation == "required" and draft.machine.isolation == "none",
    )
    return replace(draft, checks=checks, verdict=decision.verdict, reasons=decision.reasons)


@dataclass(kw_only=True)
class _Seen:
    terms: int = 0
    findings: list[Finding] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)


def _judge(draft: Report, policy: Policy, waivers: Waivers, sandbox: Sandbox) -> CheckReport:
    seen = _Seen()
    _source(draft.model, policy, seen)
    _license(draft.model, policy, seen)
    _rules(draft, policy, seen, sandbox)
    model = draft.model
    standing, waived = waivers.apply(seen.findings, model.served_digest or model.source_digest)
    ended = {check.id: check.outcome in ("passed", "failed") and not check.undecided for check in draft.checks}
    of_waivers = waivers.problems(
        digests=frozenset(digest for digest in (model.source_digest, model.served_digest) if digest),
        decided={**ended, POLICY_ID: not seen.undecided},
    )
    observation = Observation(
        coverage=(Coverage(unit="terms of the policy", seen=seen.terms, total=seen.terms),),
        findings=(*standing, *of_waivers),
        undecided=tuple(seen.undecided),
    )
    return CheckReport(
        id=POLICY_ID,
        outcome=outcome_of(observation, skipped=False),
        required=True,
        coverage=observation.coverage,
        findings=observation.findings,
        undecided=observation.undecided,
        skipped_because=None,
        measurements=(),
        warnings=tuple(_warnings(waivers)),
        tools={},
        evidence=(),
        started_at=now(),
        duration_s=0.0,
        waived=waived,
    )


def _source(model: ModelReport, policy: Policy, seen: _Seen) -> None:
    seen.terms += 1
    allowed = policy.spec.sources
    if model.source_kind is not None and model.source_kind not in allowed:
        seen.findings.append(
            Finding(
                rule="policy.source",
                message=f"the model comes from {model.source} ({model.source_kind}), allowed: {', '.join(allowed)}",
                remedy="propose it from a source that the policy allows (spec.sources)",
            )
        )


def _license(model: ModelReport, policy: Policy, seen: _Seen) -> None:
    allowed, license_ = policy.spec.licenses, model.license
    if license_ is None or (not allowed and license_.declared is None):
        return
    seen.terms += 1
    if license_.problem is not None:
        seen.undecided.append(Undecided(reason=f"the licence is not known: {license_.problem}", remedy=CARD_REMEDY))
        return
    if license_.declared is not None and license_.names and license_.declared.lower() not in license_.names:
        message = f"release.yaml says '{license_.declared}', the model card '{', '.join(license_.names)}'"
        seen.findings.append(
            Finding(
                rule="policy.license-differs",
                message=message,
                remedy="correct spec.license in release.yaml to what the card says",
                path="README.md",
            )
        )
    if allowed and not license_.names:
        message = f"the model card names no licence, allowed: {', '.join(allowed)}"
        seen.findings.append(
            Finding(rule="policy.license-missing", message=message, remedy=CARD_REMEDY, path="README.md")
        )
    for name in license_.names:
        if allowed and name not in allowed:
            message = f"the model's licence is '{name}', allowed: {', '.join(allowed)} (spec.licenses)"
            seen.findings.append(Finding(rule="policy.license", message=message, remedy=CARD_REMEDY, path="README.md"))


def _rules(draft: Report, policy: Policy, seen: _Seen, sandbox: Sandbox) -> None:
    rules = policy.spec.rules
    if not rules:
        return
    plain = as_plain(draft)
    for decided in ("verdict", "reasons"):
        del plain[decided]
    for rule, answer in zip(rules, evaluate(rules, plain, sandbox), strict=True):
        seen.terms += 1
        if answer.value is None:
            reason = f"rule '{rule.id}' could not be evaluated: {answer.problem}"
            seen.undecided.append(
                Undecided(reason=reason, remedy="mend its expr in the policy; has(…) asks whether a key is there")
            )
        elif not answer.value:
            remedy = f"the policy wants: {rule.expr}"
            seen.findings.append(Finding(rule=f"policy.rule-{rule.id}", message=rule.message, remedy=remedy))


def _warnings(waivers: Waivers) -> Iterator[str]:
    for waiver in waivers.waivers:
        left = (waiver.spec.expires - waivers.today).days
        if waiver.file in waivers.used and left <= waivers.EXPIRES_SOON_DAYS:
            yield f"the waiver {waiver.file} expires in {left} days ({waiver.spec.owner} answers for it)"
