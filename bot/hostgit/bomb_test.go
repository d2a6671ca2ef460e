package hostgit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nod"
)

// bombEnv holds a bombPlan as JSON in a child process whose memory is measured.
const bombEnv = "NOD_TEST_BOMB"

type bombPlan struct {
	Dir, Git, Bundle string
	Task             nod.Task
}

// bombResult is what a child saw.
type bombResult struct {
	Code    nod.Code
	Message string
	Took    time.Duration // of the import
	Own     int64         // bytes that the import had resident itself, at its peak
	Gits    int64         // bytes that the largest git process had resident
}

func TestMain(m *testing.M) {
	raw := os.Getenv(bombEnv)
	if raw == "" {
		os.Exit(m.Run())
	}
	var p bombPlan
	err := json.Unmarshal([]byte(raw), &p)
	var r bombResult
	if err == nil {
		r, err = p.refuse()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// refuse imports the bundle and measures.
func (p bombPlan) refuse() (r bombResult, err error) {
	g, err := New(Config{Dir: p.Dir, GitPath: p.Git, Author: Identity{"nod", "nod@example.invalid"},
		Remote: func(context.Context, nod.Task, bool) (string, nod.Secret, error) {
			return "", nod.Secret{}, nod.E(nod.Unsupported, "an import needs no remote", nil)
		}})
	if err != nil {
		return r, err
	}
	f, err := os.Open(p.Bundle)
	if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }() // it was only read
	before := resident()
	start := time.Now()
	_, refusal := g.Import(context.Background(), p.Task, f)
	r.Took = time.Since(start)
	var self, children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return r, err
	}
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		return r, err
	}
	r.Own, r.Gits = self.Maxrss<<10-before, children.Maxrss<<10
	r.Code, r.Message = nod.CodeOf(refusal), nod.PublicMessage(refusal)
	return r, nil
}

// resident is how many bytes this process has had resident at most.
func resident() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10
}

// bombs are bundles of few objects that stand for very much.
func (f *fixture) bombs(base string) map[string][]byte {
	f.t.Helper()
	write := func(kind, body string) string {
		f.t.Helper()
		id, err := writeObject(filepath.Join(f.agent, ".git", "objects"), kind, []byte(body))
		if err != nil {
			f.t.Fatal(err)
		}
		return id
	}
	twice := func(mode, id string) string {
		o := parseOID(id)
		return write("tree", mode+" a\x00"+string(o[:])+mode+" b\x00"+string(o[:]))
	}
	commit := func(tree, parent, message string) string {
		const by = "a <a@b> 1770000000 +0000"
		return write("commit", "tree "+tree+"\nparent "+parent+"\nauthor "+by+"\ncommitter "+by+"\n\n"+message+"\n")
	}
	bundle := func(head string) []byte {
		f.plain(f.agent, "update-ref", "refs/heads/bomb", head)
		return []byte(f.plain(f.agent, "bundle", "create", "--quiet", "-", base+"..refs/heads/bomb"))
	}
	files := twice(modeFile, write("blob", "x"))
	for range 29 {
		files = twice(modeTree, files)
	}
	trees := write("tree", "")
	for range 40 {
		trees = twice(modeTree, trees)
	}
	was := strings.TrimSpace(f.plain(f.agent, "rev-parse", base+"^{tree}"))
	return map[string][]byte{
		"2^30 files of 31 objects":         bundle(commit(files, base, "feat: files")),
		"2^40 trees":                       bundle(commit(trees, base, "feat: trees")),
		"one commit that deletes it again": bundle(commit(was, commit(files, base, "feat: files"), "fix: gone")),
	}
}

// measured has a child process import a bundle.
func (f *fixture) measured(bundle []byte) bombResult {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "bundle")
	if err := os.WriteFile(path, bundle, 0o600); err != nil {
		f.t.Fatal(err)
	}
	raw, err := json.Marshal(bombPlan{Dir: f.config.Dir, Git: f.config.GitPath, Bundle: path, Task: f.task})
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), bombEnv+"="+string(raw))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatal(err)
	}
	var r bombResult
	if err := json.Unmarshal(out, &r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// bombMemory is what refusing a bomb may take, in bytes.
const bombMemory = 64 << 20

func TestBombIsRefusedInLittleMemory(t *testing.T) {
	f := newFixture(t)
	for name, b := range f.bombs(f.seed()) {
		t.Run(name, func(t *testing.T) {
			f.t = t
			r := f.measured(b)
			if r.Code != nod.TooLarge || !strings.Contains(r.Message, "entries") {
				t.Errorf("refused with %s: %s", r.Code, r.Message)
			}
			if r.Own+r.Gits > bombMemory {
				t.Errorf("%d KiB of its own and %d KiB of git were resident", r.Own>>10, r.Gits>>10)
			}
			f.refused(b, nod.TooLarge, "entries")
			t.Logf("%d bytes refused in %v, with %d KiB of its own and %d KiB of git", len(b), r.Took, r.Own>>10, r.Gits>>10)
		})
	}
}

// BenchmarkBomb measures how long a bomb takes to be refused, and in how much memory.
func BenchmarkBomb(b *testing.B) {
	f := newFixture(b)
	for name, bundle := range f.bombs(f.seed()) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			f.t = b
			var took time.Duration
			var most int64
			for b.Loop() {
				r := f.measured(bundle)
				took += r.Took
				most = max(most, r.Own+r.Gits)
			}
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms-to-refuse")
			b.ReportMetric(float64(most)/(1<<20), "MiB")
		})
	}
}
