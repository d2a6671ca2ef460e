package bot

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLinksAreFollowedFromOutside(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "src", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"out": "/etc/passwd", "up": "../../../../home/agent", "src/back": "..", "src/deep/in": "../../README.md", "loop": "loop", "abs": "/workspace/src",
		"far": "src/deep/../../up/x", "home": "/",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"/workspace":                 "/workspace",
		"/workspace/src/new.go":      "/workspace/src/new.go",
		"/workspace/out":             "/etc/passwd",
		"/workspace/up/.bashrc":      "/home/agent/.bashrc",
		"/workspace/src/back":        "/workspace",
		"/workspace/src/back/out":    "/etc/passwd",
		"/workspace/src/deep/in":     "/workspace/README.md",
		"/workspace/loop":            "",
		"/workspace/abs/deep/in":     "/workspace/README.md",
		"/workspace/far":             "/home/agent/x",
		"/workspace/home/proc/1/env": "/proc/1/env",
		"/etc":                       "/etc",
	}
	var paths []string
	for p := range want {
		paths = append(paths, p)
	}
	got := links(dir, paths)
	for p, w := range want {
		if got[p] != w {
			t.Errorf("%s leads to %q, want %q", p, got[p], w)
		}
	}
	if gone := links(filepath.Join(dir, "none"), []string{"/workspace/a"}); gone["/workspace/a"] != "" || len(gone) != 1 {
		t.Errorf("without a workspace: %v", gone)
	}
}
