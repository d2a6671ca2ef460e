package nod_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows are the imports between families of packages that the design allows.
// A family is the first path element below the module: "bot" holds bot/github.
var arrows = map[string][]string{
	"bot":   {"policy"},                                                                         // the conductor asks it for verdicts
	"store": {"migrations"},                                                                     // the schema is embedded there
	"cmd":   {"agent", "bot", "migrations", "notify", "policy", "runtime", "store", "webhooks"}, // all wiring is in cmd
}

// bans are imports that no package but the named ones may have, and why.
var bans = map[string]struct {
	only []string
	why  string
}{
	"os/exec": {[]string{"nod/bot/hostgit", "nod/bot/github/githubsim", "nod/runtime/...", "nod/cmd/...", "nod/agent/agenttest"},
		"only runtime starts processes in an environment and only hostgit runs git on the host; the rest are doubles and the program itself"},
	"github.com/google/go-github/v66/github": {[]string{"nod/bot/github/...", "nod/webhooks"},
		"only bot/github holds GitHub tokens; webhooks parses payloads"},
	"github.com/bradleyfalzon/ghinstallation/v2": {[]string{"nod/bot/github"}, "only bot/github holds GitHub tokens"},
	"database/sql": {[]string{"nod/store/...", "nod/cmd/..."}, "SQL sits in the store"},
}

// pure packages may import nothing that reads the outside world.
var impure = []string{"context", "database/sql", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "net", "net/http", "os", "os/exec", "syscall"}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func family(path string) string {
	rest, ok := strings.CutPrefix(path, "nod/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func within(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			return path == base || strings.HasPrefix(path, base+"/")
		}
		return path == p
	})
}

// support reports whether p exists for tests only: it imports testing outside of
// _test.go files. Such a package may use what any other offers to tests.
func support(p listed) bool { return slices.Contains(p.Imports, "testing") }

func TestImportsFollowTheDesign(t *testing.T) {
	for _, p := range packages(t) {
		if support(p) {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "nod/") || imp == "nod" {
				from, to := family(p.ImportPath), family(imp)
				if to != "" && from != to && !slices.Contains(arrows[from], to) {
					t.Errorf("%s imports %s: siblings speak through ports that cmd plugs together", p.ImportPath, imp)
				}
			}
			if ban, ok := bans[imp]; ok && !within(p.ImportPath, ban.only) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imp, ban.why)
			}
		}
	}
}

func TestProgramsLinkNoTestSupport(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), "testing") {
		t.Error("a program links package testing")
	}
}

func TestVocabularyImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "nod" {
			continue
		}
		for _, imp := range p.Imports {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") {
				t.Errorf("the vocabulary imports %s", imp)
			}
		}
	}
}

func TestPolicyIsPure(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "nod/policy" {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(impure, imp) {
				t.Errorf("policy imports %s: it has no context, clock, network or random", imp)
			}
		}
	}
}

func TestTopLevelHoldsTheFoldersOfTheDesign(t *testing.T) {
	want := []string{"agent", "bot", "cmd", "docs", "migrations", "notify", "policy", "runtime", "store", "webhooks"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(want, e.Name()) {
			t.Errorf("folder %s at the top level is not in the design", e.Name())
		}
	}
}
