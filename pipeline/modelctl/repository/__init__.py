"""A team's registry repository: what `modelctl init` lays down, and the release file that `modelctl new` writes.

`templates/` holds the files. Those that this project uses itself are links to its own, so that there is one of each;
`contents` fills in what a team decides.
"""
