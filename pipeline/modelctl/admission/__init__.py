"""Policy, runner, verdict, evidence, attestation and reports."""
