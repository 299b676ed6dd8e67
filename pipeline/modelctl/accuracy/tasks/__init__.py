"""Questions that ship with the program: `modelctl_easy.jsonl`, made by `build` from `facts.txt`, as the lm-eval task
`modelctl_easy`."""
