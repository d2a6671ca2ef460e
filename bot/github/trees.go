package github

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// What is sent to GitHub's Git Data API at most. GitHub does not say where its own
// limits are; these are well below what is known to be refused.
const (
	maxSigned     = 250      // commits; as many as GitHub lists of a pull request
	maxPaths      = 20_000   // changed paths of all commits
	maxBlob       = 30 << 20 // bytes of one file, which base64 makes a third larger
	maxInline     = 256 << 10
	treeEntries   = 500     // paths in one request
	treeBytes     = 4 << 20 // inline text in one request
	emptyTree     = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	workflowsPath = ".github/workflows/"
)

// planned refuses what the API cannot make exactly: names that are not UTF-8,
// modes other than files and links, an empty tree, and what is over the limits.
func planned(series []nod.CommitChange) error {
	refuse := func(why string) error {
		return &nod.Error{Code: nod.Unsupported, Msg: "GitHub cannot sign this work: " + why,
			Hint: `change the work, or set sign to "ssh" for this repository`}
	}
	paths := 0
	for _, c := range series {
		paths += len(c.Changes)
		if c.Commit.Tree == emptyTree {
			return refuse(fmt.Sprintf("commit %.8s leaves no file", c.Commit.SHA))
		}
		for _, f := range c.Changes {
			switch {
			case !utf8.ValidString(f.Path):
				return refuse(strconv.Quote(f.Path) + " is not UTF-8")
			case !slices.Contains([]string{"", "100644", "100755", "120000"}, f.Mode):
				return refuse(strconv.Quote(f.Path) + " is neither a file nor a link")
			case f.Size > maxBlob:
				return refuse(fmt.Sprintf("%s is larger than %d MiB", strconv.Quote(f.Path), maxBlob>>20))
			}
		}
	}
	switch {
	case len(series) == 0:
		return refuse("there are no commits")
	case len(series) > maxSigned:
		return refuse(fmt.Sprintf("it has more than %d commits", maxSigned))
	case paths > maxPaths:
		return refuse(fmt.Sprintf("it changes more than %d paths", maxPaths))
	}
	return nil
}

func touchesWorkflows(series []nod.CommitChange) bool {
	for _, c := range series {
		for _, f := range c.Changes {
			if strings.HasPrefix(f.Path, workflowsPath) {
				return true
			}
		}
	}
	return false
}

// tree makes the tree of c on top of tree base, in as many requests as its size asks
// for, and compares its id with the approved one.
func (p *Commits) tree(ctx context.Context, plan commitPlan, done *progress, base string, c nod.CommitChange) error {
	if done.trees[c.Commit.Tree] || done.commits[c.Commit.SHA] != "" {
		return nil
	}
	left := slices.Clone(c.Changes)
	// What goes first, so that a file may take a directory's name and the other way round.
	slices.SortStableFunc(left, func(a, b nod.TreeChange) int { return btoi(a.Mode != "") - btoi(b.Mode != "") })
	for {
		n := batch(left)
		entries, err := p.entries(ctx, plan, done, left[:n])
		if err != nil {
			return err
		}
		made, _, err := plan.client.Git.CreateTree(ctx, plan.repo.Owner, plan.repo.Name, base, entries)
		if err != nil {
			return err
		}
		base, left = made.GetSHA(), left[n:]
		if len(left) == 0 {
			break
		}
	}
	if base != c.Commit.Tree {
		return nod.E(nod.Failed, fmt.Sprintf("GitHub made another tree of commit %.8s than was approved", c.Commit.SHA), nil)
	}
	done.trees[base] = true
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// batch is how many of the changes go into the next request.
func batch(changes []nod.TreeChange) int {
	var bytes int64
	for i, c := range changes {
		if c.Size <= maxInline {
			bytes += c.Size
		}
		if i > 0 && (i == treeEntries || bytes > treeBytes) && changes[i-1].Mode != "" {
			return i
		}
	}
	return len(changes)
}

// entries turns changes into what the API takes. Text of moderate size goes along;
// anything else is made as a blob first.
func (p *Commits) entries(ctx context.Context, plan commitPlan, done *progress, changes []nod.TreeChange) ([]*gh.TreeEntry, error) {
	content, err := p.contents(ctx, plan, changes)
	if err != nil {
		return nil, err
	}
	entries := make([]*gh.TreeEntry, 0, len(changes))
	for _, c := range changes {
		// The API wants a mode for what is gone, too, and does not look at it.
		e := &gh.TreeEntry{Path: &c.Path, Mode: gh.String(orElse(c.Mode, "100644")), Type: gh.String("blob")}
		if text, ok := content[c.Blob]; ok && c.Mode != "" && plain(text) {
			e.Content = gh.String(string(text))
		} else if c.Mode != "" {
			e.SHA = &c.Blob
			if err := p.blob(ctx, plan, done, c, text); err != nil {
				return nil, err
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// plain reports whether text survives a JSON string and is not taken for nothing.
func plain(text []byte) bool {
	return len(text) > 0 && utf8.Valid(text) && !slices.Contains(text, 0)
}

// contents reads the files of changes that may go along inline.
func (p *Commits) contents(ctx context.Context, plan commitPlan, changes []nod.TreeChange) (map[string][]byte, error) {
	content := map[string][]byte{}
	var ids []string
	for _, c := range changes {
		if c.Blob != "" && c.Size <= maxInline {
			ids = append(ids, c.Blob)
		}
	}
	if len(ids) == 0 {
		return content, nil
	}
	files, err := p.from.Blobs(ctx, plan.task, ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		content[id] = files[i]
	}
	return content, nil
}

// blob makes one file on GitHub, once, and compares its id.
func (p *Commits) blob(ctx context.Context, plan commitPlan, done *progress, c nod.TreeChange, content []byte) error {
	if done.blobs[c.Blob] {
		return nil
	}
	if content == nil {
		files, err := p.from.Blobs(ctx, plan.task, []string{c.Blob})
		if err != nil {
			return err
		}
		content = files[0]
	}
	made, _, err := plan.client.Git.CreateBlob(ctx, plan.repo.Owner, plan.repo.Name,
		&gh.Blob{Content: gh.String(base64.StdEncoding.EncodeToString(content)), Encoding: gh.String("base64")})
	if err != nil {
		return err
	}
	if made.GetSHA() != c.Blob {
		return nod.E(nod.Failed, "GitHub made another file of "+strconv.Quote(c.Path)+" than was approved", nil)
	}
	done.blobs[c.Blob] = true
	return nil
}
