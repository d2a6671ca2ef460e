package hostgit

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"nod"
)

// A mirror with little history fetches more until it finds where the work began, and
// its clones have as little and work all the same.
func TestHistoryIsDeepenedUntilTheMergeBaseIsFound(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Depth = 2 })
	w := filepath.Join(t.TempDir(), "w")
	f.plain("", "clone", "--quiet", f.origin, w)
	var past []string
	for i := range 20 {
		f.write(w, "step.txt", fmt.Sprintln(i))
		past = append(past, f.commit(w, fmt.Sprint("feat: step ", i)))
	}
	f.plain(w, "push", "--quiet", "origin", "main")
	base := f.seed()
	if n := strings.TrimSpace(f.plain(f.agent, "rev-list", "--count", "HEAD")); n != "2" {
		t.Fatalf("the clone has %s commits", n)
	}
	f.write(f.agent, "mine.txt", "x\n")
	f.commit(f.agent, "feat: mine")
	head := f.importAll(base)
	// Others take ten commits back and go on from there.
	f.plain(w, "reset", "--quiet", "--hard", past[9])
	f.write(w, "theirs.txt", "x\n")
	onto := f.commit(w, "feat: theirs")
	f.plain(w, "push", "--quiet", "--force", "origin", "main")
	m, err := f.git.open(t.Context(), f.task.Repo)
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.cut()
	m.close()
	if err != nil || before == nil {
		t.Fatalf("the mirror's history is whole: %v", err)
	}
	_, err = f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main"})
	if err != nil && nod.CodeOf(err) != nod.Conflict { // what was taken back does not merge: step.txt is theirs to change
		t.Fatal(err)
	}
	m, err = f.git.open(t.Context(), f.task.Repo)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if shared, err := m.mergeBase(t.Context(), onto, head); err != nil || shared != past[9] {
		t.Errorf("the work meets the target at %q, %v, want %s", shared, err, past[9])
	}
}

// With little history a change goes the whole way.
func TestShallowMirrorPublishes(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Depth = 1 })
	for i := range 5 {
		f.onMain("step.txt", fmt.Sprintln(i))
	}
	r := f.prepared()
	f.push(r.SHA, "")
	if got := f.remoteBranch(f.task.Branch); got != r.SHA {
		t.Errorf("the branch is at %s", got)
	}
	f.plain(f.origin, "fsck", "--strict")
}
