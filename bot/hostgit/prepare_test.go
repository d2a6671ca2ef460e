package hostgit

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func (f *fixture) subjects(p nod.Prepared) []string {
	var s []string
	for _, c := range p.Revision.Commits {
		s = append(s, c.Subject)
	}
	return s
}

func TestR25EveryKindOfChangeSurvivesTheWholeWay(t *testing.T) {
	f := newFixture(t)
	w := filepath.Join(t.TempDir(), "w")
	f.plain("", "clone", "--quiet", f.origin, w)
	f.write(w, "gone.txt", "x\n")
	f.write(w, "tool.sh", "#!/bin/sh\n")
	f.write(w, "old name.txt", lines(30, ""))
	f.write(w, "becomes a link", "x\n")
	f.commit(w, "feat: more")
	f.plain(w, "push", "--quiet", "origin", "main")
	base := f.seed()
	names := []string{"ä-nfc", "a\u0308-nfd", "日本語/ファイル", "🎉 party", "new\nline", `quote"d`, `back\slash`, "tab\there", " space ", "-dash", "--option", ":(glob)*", "$(touch x)", "a;b|c&d"}
	for _, n := range names {
		f.write(f.agent, n, "text of "+strconv.Quote(n)+"\n")
	}
	f.write(f.agent, "binary", "\x00\x01\x02\xff")
	f.write(f.agent, "empty", "")
	f.write(f.agent, "no newline", "x")
	f.write(f.agent, "README.md", "hello\nthere\n")
	for _, err := range []error{
		os.Remove(filepath.Join(f.agent, "gone.txt")), os.Chmod(filepath.Join(f.agent, "tool.sh"), 0o755),
		os.Rename(filepath.Join(f.agent, "old name.txt"), filepath.Join(f.agent, "neuer näme.txt")),
		os.Remove(filepath.Join(f.agent, "becomes a link")), os.Symlink("lib/a.txt", filepath.Join(f.agent, "becomes a link")),
		os.Symlink("../README.md", filepath.Join(f.agent, "lib", "up")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.commit(f.agent, "feat: everything")
	want := f.plain(f.agent, "ls-tree", "-r", "-z", "HEAD")
	f.onMain("moved.txt", "x\n") // so that trees are merged
	p := f.prepare(f.importAll(base))
	f.push(p.Revision.SHA, "")
	got := strings.Replace(f.plain(f.origin, "ls-tree", "-r", "-z", f.task.Branch), "\x00"+f.plain(f.origin, "ls-tree", "-z", f.task.Branch, "moved.txt"), "\x00", 1)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the pushed tree differs: %s", d)
	}
	by := map[string]nod.FileChange{}
	for _, c := range p.Revision.Files {
		by[c.Path] = c
	}
	for _, n := range append(names, "empty", "neuer näme.txt") {
		if by[n].Status != "A" {
			t.Errorf("%q is listed as %+v", n, by[n])
		}
		delete(by, n)
	}
	rest := map[string]nod.FileChange{
		"gone.txt":       {Path: "gone.txt", Status: "D", OldMode: "100644", NewMode: "000000", Deleted: 1},
		"old name.txt":   {Path: "old name.txt", Status: "D", OldMode: "100644", NewMode: "000000", Deleted: 30},
		"tool.sh":        {Path: "tool.sh", Status: "M", OldMode: "100644", NewMode: "100755"},
		"becomes a link": {Path: "becomes a link", Status: "T", OldMode: "100644", NewMode: "120000", Added: 1, Deleted: 1},
		"lib/up":         {Path: "lib/up", Status: "A", OldMode: "000000", NewMode: "120000", Added: 1},
		"binary":         {Path: "binary", Status: "A", OldMode: "000000", NewMode: "100644", Added: -1, Deleted: -1},
		"no newline":     {Path: "no newline", Status: "A", OldMode: "000000", NewMode: "100644", Added: 1},
		"README.md":      {Path: "README.md", Status: "M", OldMode: "100644", NewMode: "100644", Added: 1},
	}
	if d := cmp.Diff(rest, by); d != "" {
		t.Error(d)
	}
	for _, n := range []string{"ä-nfc", "日本語/ファイル", "🎉 party", "$(touch x)"} {
		if !strings.Contains(string(p.Diff), n) {
			t.Errorf("the diff does not name %q as it is", n)
		}
	}
}

func TestConflictNamesThePathsAndKeepsTheWork(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "lib/a.txt", lines(20, " agent"))
	f.write(f.agent, "süß\n.txt", "agent\n")
	f.commit(f.agent, "fix: mine")
	head := f.importAll(base)
	f.onMain("lib/a.txt", lines(20, " other"))
	f.onMain("süß\n.txt", "other\n")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main"})
	wantCode(t, err, nod.Conflict, `"lib/a.txt"`, `"süß\n.txt"`)
	var kept bytes.Buffer
	if err := f.git.Bundle(t.Context(), f.task, base, head, &kept); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	f.plain("", "clone", "--quiet", f.origin, restored)
	f.write(restored, "../kept.bundle", kept.String())
	f.plain(restored, "bundle", "verify", "--quiet", "../kept.bundle")
	f.plain(restored, "fetch", "--quiet", "../kept.bundle", "HEAD")
	if got := strings.TrimSpace(f.plain(restored, "rev-parse", "FETCH_HEAD")); got != head {
		t.Errorf("restored %s, want %s", got, head)
	}
}

func TestFixupsGoIntoTheCommitsTheyName(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	step := func(file, text, message string) string {
		f.write(f.agent, file, text)
		return f.commit(f.agent, message)
	}
	first := step("one", "1\n", "feat: one")
	step("two", "1\n", "feat: two")
	step("one", "2\n", "fixup! feat: one")
	step("two", "2\n", "squash! feat: two\n\nAnd more.")
	step("one", "3\n", "fixup! "+first[:10])
	step("one", "4\n", "fixup! fixup! feat: one")
	step("three", "1\n", "fixup! fix: nothing here")
	f.commit(f.agent, "feat: nothing at all")
	p := f.prepare(f.importAll(base))
	if d := cmp.Diff([]string{"feat: one", "feat: two", "fix: nothing here"}, f.subjects(p)); d != "" {
		t.Error(d)
	}
	if got := p.Revision.Commits[1].Message; got != "feat: two\n\nAnd more.\n" {
		t.Errorf("message %q", got)
	}
	if got, want := p.Revision.Tree, strings.TrimSpace(f.plain(f.agent, "rev-parse", "HEAD^{tree}")); got != want {
		t.Errorf("tree %s, want %s", got, want)
	}
}

func TestFixupThatDoesNotFitStaysInItsPlace(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	for _, s := range [][2]string{{"a\n", "feat: first"}, {"b\n", "feat: second"}, {"c\n", "fixup! feat: first"}} {
		f.write(f.agent, "file", s[0])
		f.commit(f.agent, s[1])
	}
	p := f.prepare(f.importAll(base))
	if d := cmp.Diff([]string{"feat: first", "feat: second", "feat: first"}, f.subjects(p)); d != "" {
		t.Error(d)
	}
}

func TestMergeCommitsAndEmptyResultsAreRefusedAloud(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	prepare := func(code nod.Code, words ...string) {
		t.Helper()
		_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "main"})
		wantCode(t, err, code, words...)
	}
	f.commit(f.agent, "feat: nothing")
	prepare(nod.NotFound, "nothing to publish")
	f.write(f.agent, "x", "x")
	f.commit(f.agent, "feat: there")
	f.plain(f.agent, "revert", "--no-edit", "HEAD")
	prepare(nod.NotFound, "undo each other")
	f.plain(f.agent, "checkout", "--quiet", "-b", "side", base)
	f.write(f.agent, "y", "y")
	f.commit(f.agent, "feat: side")
	f.plain(f.agent, "merge", "--quiet", "--no-edit", f.task.Branch)
	prepare(nod.Invalid, "merge commit", "linear history")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: strings.Repeat("ab", 20), BaseRef: "main"})
	wantCode(t, err, nod.NotFound, "not imported")
	_, err = f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "no/such/branch"})
	wantCode(t, err, nod.NotFound, `"no/such/branch" does not exist`)
	// Work that is already on the target is nothing to publish.
	f.plain(f.agent, "checkout", "--quiet", "-B", "again", base)
	f.write(f.agent, "lib/a.txt", lines(20, " same"))
	f.commit(f.agent, "fix: same")
	f.onMain("lib/a.txt", lines(20, " same"))
	prepare(nod.NotFound, "nothing to publish")
}

func TestDiffThatCannotBeShownWholeIsRefused(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Limits.DiffBytes = 2000 })
	base := f.seed()
	f.write(f.agent, "long", lines(1000, ""))
	f.commit(f.agent, "feat: long")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "main"})
	wantCode(t, err, nod.TooLarge, "shown whole")
}

func TestAttributesOfTheWorkHideNothingFromTheDiff(t *testing.T) {
	f := newFixture(t)
	f.onMain(".gitattributes", "lib/* -diff merge=ours filter=x diff=y\n")
	base := f.seed()
	f.write(f.agent, ".gitattributes", "* -diff -text merge=union diff=hide export-subst ident\n")
	f.write(f.agent, "lib/a.txt", lines(20, "")+"evil line\n")
	f.commit(f.agent, "feat: hide")
	f.onMain("lib/b.txt", "b\n")
	p := f.prepare(f.importAll(base))
	if !strings.Contains(string(p.Diff), "+evil line\n") {
		t.Errorf("diff:\n%s", p.Diff)
	}
}

func TestReworkGoesOnTopOfWhatWasPublished(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		name := map[bool]string{false: "pushed as prepared", true: "recreated under other ids"}[recreated]
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			base := f.seed()
			for i := range 3 { // each on top of the other: picking them again would conflict
				f.write(f.agent, "file", strings.Repeat(strconv.Itoa(i), 10)+"\n")
				f.commit(f.agent, "feat: step "+strconv.Itoa(i))
			}
			first := f.prepare(f.importAll(base))
			published := first.Revision.SHA
			if recreated {
				f.push(published, "")
				out, err := f.try(f.origin, "", "commit-tree", "-p", first.Revision.BaseSHA, "-m", "feat: recreated", first.Revision.Tree)
				if err != nil {
					t.Fatal(err)
				}
				published = strings.TrimSpace(out)
				f.plain(f.origin, "update-ref", "refs/heads/"+f.task.Branch, published)
			} else {
				f.push(published, "")
			}
			f.onMain("main-moved", "x\n")
			f.write(f.agent, "file", "rework\n")
			f.commit(f.agent, "fixup! feat: step 0")
			second := f.prepare(f.importAll(base))
			if second.Revision.BaseSHA != published || len(second.Revision.Commits) != 1 || second.Revision.Commits[0].Subject != "feat: step 0" {
				t.Fatalf("revision %+v", second.Revision)
			}
			f.push(second.Revision.SHA, published)
			_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "main"})
			wantCode(t, err, nod.NotFound)
		})
	}
}

func TestReworkThatRewritesWhatWasPublishedIsRefused(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "file", "one\n")
	f.commit(f.agent, "feat: one")
	first := f.prepare(f.importAll(base)).Revision
	f.push(first.SHA, "")
	f.write(f.agent, "file", "two\n")
	f.plain(f.agent, "commit", "--quiet", "-a", "--amend", "-m", "feat: two")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "main"})
	wantCode(t, err, nod.Invalid, "rewrites commits that are on GitHub")
	if got := f.remoteBranch(f.task.Branch); got != first.SHA {
		t.Errorf("the branch is at %s", got)
	}
}

func TestBranchWithOtherWorkIsNotBuiltOver(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.plain(f.origin, "branch", f.task.Branch, "main")
	theirs := f.onBranch(f.task.Branch, "theirs", "x\n")
	f.write(f.agent, "mine", "x\n")
	f.commit(f.agent, "feat: mine")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: f.importAll(base), BaseRef: "main"})
	wantCode(t, err, nod.Conflict, "not part of this task")
	if got := f.remoteBranch(f.task.Branch); got != theirs {
		t.Errorf("their branch is at %s", got)
	}
}

func TestManyCommitsAreReplayedOneByOne(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	const many = 60
	var stream strings.Builder
	for i := range many {
		text := lines(i+1, "")
		stream.WriteString("commit refs/heads/many\ncommitter a <a@b> 1770000000 +0000\ndata 7\nfeat: x\n")
		if i == 0 {
			stream.WriteString("from " + base + "\n")
		}
		stream.WriteString("M 100644 inline grows\ndata " + strconv.Itoa(len(text)) + "\n" + text + "\n")
	}
	if _, err := f.try(f.agent, stream.String(), "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	f.plain(f.agent, "checkout", "--quiet", "many")
	f.onMain("moved.txt", "x\n")
	r := f.prepare(f.importAll(base)).Revision
	if len(r.Commits) != many {
		t.Fatalf("%d commits", len(r.Commits))
	}
	f.push(r.SHA, "")
	parent := r.BaseSHA
	for i, c := range r.Commits {
		if d := cmp.Diff([]string{parent}, c.Parents); d != "" {
			t.Error(d)
		}
		parent = c.SHA
		if got := f.plain(f.origin, "show", c.SHA+":grows"); got != lines(i+1, "") {
			t.Errorf("commit %d holds %q", i, got)
		}
	}
}
