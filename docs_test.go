package nod_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testFuncs returns the name of every test and fuzz target in the tree.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != "." {
			return errOrSkip(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range decl.FindAllStringSubmatch(string(raw), -1) {
				names[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func errOrSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

func TestNamesInTheDocsExist(t *testing.T) {
	tests := testFuncs(t)
	cited := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	place := regexp.MustCompile("`((?:cmd|bot|webhooks|notify|runtime|agent|store|policy|migrations|docs)/[a-z0-9_/.]+)`")
	docs, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, doc := range append(docs, more...) {
		raw, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range cited.FindAllStringSubmatch(string(raw), -1) {
			if n++; !tests[m[1]] {
				t.Errorf("%s cites %s, which does not exist", doc, m[1])
			}
		}
		for _, m := range place.FindAllStringSubmatch(string(raw), -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s cites %s, which does not exist", doc, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no test is cited anywhere")
	}
}

func TestEveryInvariantNamesItsTest(t *testing.T) {
	raw, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (\\d+) \\| .* \\| .*`Test[A-Za-z0-9]+`.* \\|$").FindAllString(string(raw), -1)
	if len(rows) != 13 {
		t.Errorf("%d of 13 invariants name a test", len(rows))
	}
	if lines := strings.Count(string(raw), "\n"); lines > 250 {
		t.Errorf("ARCHITECTURE.md has %d lines, more than anyone reads", lines)
	}
}
