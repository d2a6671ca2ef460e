// Package hostgit is the only place where git runs on the host. It owns one bare
// mirror per repository, the clones that new workspaces are seeded with, the
// import of what an agent made, its preparation (rebase, autosquash, message
// lint, signature) and the push of exactly one approved commit.
//
// It must never open a tree or a repository that an agent can write, run a
// program other than git's own, force a push, push a tag, or show a token in an
// argument list or a file. Every git process is started by one runner (run.go)
// with an environment made from nothing; every byte of a bundle is measured in
// memory-safe code (header.go, pack.go, tree.go) before anything is unpacked
// into the mirror, and nothing is checked out while preparing.
//
// What is carried: regular files with and without the execute bit, relative
// symbolic links that stay inside the tree, any UTF-8 name that git itself
// allows. What is refused aloud when a commit adds or changes it: submodules,
// names like .git, names that differ only in case from a neighbour, names that
// are not UTF-8, absolute or escaping symbolic links, files above the blob cap.
// Such entries are left alone where the repository had them before.
package hostgit
