package hostgit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"nod"
)

// Identity is a name and an address as git writes them.
type Identity struct {
	Name, Email string
}

// Limits bound what is taken from an agent. Zero fields take the default.
type Limits struct {
	TreeEntries  int64         // entries of one tree, expanded; 200,000
	TreeBytes    int64         // bytes of one tree's files, expanded; 2 GiB
	Commits      int           // new commits of one bundle; 2,000
	AddedEntries int64         // entries that new commits add or change, summed; 400,000
	AddedBytes   int64         // bytes of those, and of everything in a bundle inflated; 4 GiB
	BlobBytes    int64         // one object; 100 MiB, the most that GitHub takes
	BundleBytes  int64         // one bundle as streamed; 1 GiB
	DiffBytes    int64         // one unified diff; 4 MiB
	Time         time.Duration // one operation with all its git processes; 10 minutes
}

func (l Limits) withDefaults() Limits {
	set := func(p *int64, n int64) {
		if *p == 0 {
			*p = n
		}
	}
	set(&l.TreeEntries, 200_000)
	set(&l.TreeBytes, 2<<30)
	set(&l.AddedEntries, 400_000)
	set(&l.AddedBytes, 4<<30)
	set(&l.BlobBytes, 100<<20)
	set(&l.BundleBytes, 1<<30)
	set(&l.DiffBytes, 4<<20)
	if l.Commits == 0 {
		l.Commits = 2_000
	}
	if l.Time == 0 {
		l.Time = 10 * time.Minute
	}
	return l
}

// Config is what a Git is made of.
type Config struct {
	// Dir is where everything is kept; made with mode 0700. Required, absolute.
	Dir string
	// GitPath is the git to run, 2.38 or newer. Empty: looked up in PATH once.
	GitPath string
	// Remote tells where a task's repository is and what to authenticate with, an
	// https URL without credentials (http is taken for a loopback host only) and
	// the narrowest token that does. It is asked before each use. Required.
	Remote func(ctx context.Context, t nod.Task, write bool) (url string, token nod.Secret, err error)
	// Author is the bot: author and committer of every prepared commit. Required.
	Author Identity
	// SigningKey is the path of an OpenSSH Ed25519 private key that only its owner
	// can read. Required for Prepare.
	SigningKey string
	// CAFile holds the certificates that an https remote is checked against;
	// empty: those of the system.
	CAFile string
	// Depth is how many commits of history a new mirror fetches; more come when they
	// are needed to find where work began. 0 is all.
	Depth  int
	Limits Limits
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: nothing is logged
}

// Git is the supervisor's own git. It is safe for concurrent use; operations on
// one repository happen one at a time.
type Git struct {
	dir, home, path, execPath string
	remote                    func(context.Context, nod.Task, bool) (string, nod.Secret, error)
	author                    Identity
	key                       ed25519.PrivateKey
	caFile                    string
	depth                     int
	limits                    Limits
	now                       func() time.Time
	log                       *slog.Logger
	pauses                    []time.Duration // between looks for a ref that is gone

	mu       sync.Mutex
	turns    map[string]chan struct{} // repository key → the one turn
	branches map[string]bool          // names that git takes
}

// New checks c, makes its directory and loads the signing key.
func New(c Config) (*Git, error) {
	switch {
	case !filepath.IsAbs(c.Dir) || strings.ContainsAny(c.Dir, ":\"\n"):
		return nil, nod.E(nod.Invalid, "hostgit needs an absolute directory without colons, quotes and newlines", nil)
	case c.Remote == nil:
		return nil, nod.E(nod.Invalid, "hostgit needs to know its remotes", nil)
	case c.Depth < 0:
		return nil, nod.E(nod.Invalid, "hostgit cannot fetch less than no history", nil)
	case !c.Author.valid():
		return nil, nod.E(nod.Invalid, "hostgit needs an author name and address without angle brackets and control characters", nil)
	}
	g := &Git{
		dir: c.Dir, home: filepath.Join(c.Dir, "home"), path: c.GitPath, remote: c.Remote, author: c.Author,
		caFile: c.CAFile, depth: c.Depth, limits: c.Limits.withDefaults(), now: c.Now, log: c.Log,
		pauses: []time.Duration{250 * time.Millisecond, time.Second}, turns: map[string]chan struct{}{}, branches: map[string]bool{},
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.log == nil {
		g.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	for _, d := range []string{g.dir, g.home, filepath.Join(g.dir, "mirrors")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, nod.E(nod.Internal, "make a directory for git", err)
		}
	}
	if c.SigningKey != "" {
		key, err := loadSigningKey(c.SigningKey)
		if err != nil {
			return nil, err
		}
		g.key = key
	}
	if err := g.findGit(); err != nil {
		return nil, err
	}
	return g, nil
}

// findGit resolves the program to an absolute path and refuses one that is too old.
func (g *Git) findGit() error {
	if g.path == "" {
		p, err := exec.LookPath("git")
		if err != nil {
			return &nod.Error{Code: nod.Unsupported, Msg: "git is not installed on this host", Hint: "install git 2.38 or newer", Err: err}
		}
		g.path = p
	}
	p, err := filepath.Abs(g.path)
	if err != nil {
		return nod.E(nod.Internal, "resolve the path of git", err)
	}
	g.path = p
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := g.run(ctx, call{}, "--exec-path")
	if err != nil {
		return nod.E(nod.Unsupported, "git on this host does not run", err)
	}
	g.execPath = string(bytes.TrimRight(out, "\n"))
	out, err = g.run(ctx, call{}, "version")
	if err != nil {
		return nod.E(nod.Unsupported, "git on this host does not run", err)
	}
	if !newEnough(string(out)) {
		return &nod.Error{Code: nod.Unsupported, Msg: "git on this host is too old", Hint: "install git 2.38 or newer"}
	}
	return nil
}

// newEnough reports whether "git version x.y…" is at least 2.38, the first that
// can merge without a working tree.
func newEnough(version string) bool {
	f := strings.Fields(version)
	if len(f) < 3 {
		return false
	}
	n := strings.SplitN(f[2], ".", 3)
	if len(n) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(n[0])
	minor, err2 := strconv.Atoi(n[1])
	return err1 == nil && err2 == nil && (major > 2 || major == 2 && minor >= 38)
}

func (i Identity) valid() bool {
	for _, s := range []string{i.Name, i.Email} {
		if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '<' || r == '>' }) {
			return false
		}
	}
	return true
}

func (g *Git) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.limits.Time)
}
