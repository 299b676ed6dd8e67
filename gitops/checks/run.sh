#!/usr/bin/env bash
# One run in the cluster for one release: the base branch's program and rules, the change's registry/ and nothing else of it.
# `admit.yml` calls it with RELEASE (the file), REPOSITORY (to clone), EVIDENCE (s3://…, where the result is left), BASE and HEAD
# (commits), and CHECKS_KIND: `job` for a Kubernetes Job, `workflow` for an Argo Workflow of the template beside this.
# It ends well when the run has ended, whatever it found: the gate judges what was left.
set -euo pipefail
cd "$(dirname "$0")"

namespace=models-checks
NAME="admit-$(printf '%s' "$RELEASE $EVIDENCE" | sha256sum | cut -c 1-16)"
export NAME RELEASE REPOSITORY EVIDENCE BASE HEAD
case "${CHECKS_KIND:-job}" in
  job)
    manifest=job.yaml run="jobs.batch/$NAME" ended=(Complete Failed) pods="batch.kubernetes.io/job-name=$NAME"
    ;;
  workflow)
    manifest=workflow.yaml run="workflows.argoproj.io/$NAME" ended=(Completed) pods="workflows.argoproj.io/workflow=$NAME"
    ;;
  *)
    echo "CHECKS_KIND is '$CHECKS_KIND', wanted job or workflow" >&2
    exit 2
    ;;
esac

waiting=()
stop() {
  if ((${#waiting[@]})); then kill "${waiting[@]}" 2>/dev/null || true; fi
  kubectl --namespace "$namespace" delete "$run" --ignore-not-found --wait=false
}
trap stop EXIT
# shellcheck disable=SC2016 # the names of the variables that are filled in
envsubst '$NAME $BASE $HEAD $RELEASE $REPOSITORY $EVIDENCE' <"$manifest" | kubectl create --filename -
for condition in "${ended[@]}"; do
  kubectl --namespace "$namespace" wait --for="condition=$condition" --timeout=11h "$run" &
  waiting+=("$!")
done
status=0
wait -n "${waiting[@]}" || status=$?
kubectl --namespace "$namespace" logs --selector "$pods" --container main --tail=200 || true
if ((status)); then echo "$run did not end within 11 hours, or could not be asked" >&2; fi
exit "$status"
