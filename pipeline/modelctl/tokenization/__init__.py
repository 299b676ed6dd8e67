"""What a model's tokenizer files say and what a loaded tokenizer does, examined inside an isolated child.

`worker` is the child's entry; the other modules each look at one side (files, vocabulary, special tokens, templates,
behaviour) and write into one `Ledger`. Nothing here runs on a model's files in modelctl's own process.
"""
