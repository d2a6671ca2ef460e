package nod_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// defaults are where github.com may be named: it is what an empty setting means.
var defaults = []string{"cmd/nod/config.go", "cmd/nod/setup.go", "bot/github/client.go", "bot/github/setup.go"}

// TestNothingIsTiedToOneGitHub: a GitHub Enterprise Server is reached by two addresses
// in the configuration, and no other place knows where GitHub is.
func TestNothingIsTiedToOneGitHub(t *testing.T) {
	looked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "githubsim" || d.Name() == "openapitest" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		looked++
		named := false
		ast.Inspect(file, func(n ast.Node) bool {
			if _, imports := n.(*ast.ImportSpec); imports {
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			named = named || ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "github.com")
			return true
		})
		allowed := false
		for _, f := range defaults {
			allowed = allowed || filepath.ToSlash(path) == f
		}
		if named && !allowed {
			t.Errorf("%s names github.com", path)
		}
		return nil
	})
	if err != nil || looked < 100 {
		t.Fatalf("looked at %d files: %v", looked, err)
	}
}
