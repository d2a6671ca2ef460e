package bot

import (
	"strings"
	"testing"

	"nod"
)

func TestProtectedFilesAreFoundWhereverTheyAre(t *testing.T) {
	for name, want := range map[string]bool{
		".github/workflows/ci.yml": true, ".github/workflows/deep/er.yml": true, ".GitHub/Workflows/ci.yml": true,
		".github/workflows": true, "docs/.github/workflows/ci.yml": false, "CODEOWNERS": true, ".github/CODEOWNERS": true, "docs/codeowners": true,
		"go.sum": true, "tools/go.sum": true, "go.sum.txt": false, "src/package-lock.json": true, "main.go": false, "": false,
	} {
		if got := len(Protection{}.touched([]nod.FileChange{{Path: name}})) == 1; got != want {
			t.Errorf("%q protected: %v", name, got)
		}
	}
	own := Protection{Paths: []string{"deploy/*.yaml", "**/secret/**"}}
	if got := own.touched([]nod.FileChange{{Path: "deploy/b.yaml"}, {Path: "a/secret/b/c"}, {Path: "go.sum"}}); strings.Join(got, " ") != "a/secret/b/c deploy/b.yaml" {
		t.Errorf("own patterns: %q", got)
	}
}

func TestPatternsThatCouldNotMatchAreRefused(t *testing.T) {
	for p, want := range map[string]bool{"a/**": true, "**/x": true, "*.lock": true, "": false, "/a": false, "a//b": false, "a/": false, "[": false, "a/[b": false} {
		if ValidPattern(p) != want {
			t.Errorf("%q valid: %v", p, !want)
		}
	}
	for _, p := range ProtectedDefaults {
		if !ValidPattern(p) {
			t.Errorf("the default %q is not valid", p)
		}
	}
}
