package hostgit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

// TestTextsAreThoseOfTheCommit: plain files of the commit asked for, whatever the
// branch says later; no link, no directory, nothing larger than asked for.
func TestTextsAreThoseOfTheCommit(t *testing.T) {
	f := newFixture(t)
	f.onMain("CLAUDE.md", "Use tabs.\n")
	f.onMain("AGENTS.md/inner", "x")
	f.onMain("BIG.md", strings.Repeat("x", 2000))
	sha := f.seed()
	f.onMain("CLAUDE.md", "Use spaces.\n")
	names := []string{"CLAUDE.md", "AGENTS.md", "BIG.md", "NONE.md"}
	got, err := f.git.Texts(t.Context(), f.task, sha, names, 1000)
	if diff := cmp.Diff(map[string]string{"CLAUDE.md": "Use tabs.\n"}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := os.Symlink("CLAUDE.md", filepath.Join(f.agent, "LINK.md")); err != nil {
		t.Fatal(err)
	}
	f.commit(f.agent, "feat: link")
	linked := f.importAll(sha)
	if got, err := f.git.Texts(t.Context(), f.task, linked, []string{"LINK.md"}, 1000); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := f.git.Texts(t.Context(), f.task, "main", names, 1000); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("a name that is no commit: %v", err)
	}
}
