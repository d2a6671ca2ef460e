package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"nod"
)

const (
	outputCap = 64 << 20 // what is kept of a command's stdout unless said otherwise
	stderrCap = 16 << 10
)

// call is how one git process is run. The zero value is outside any repository
// and has no transport.
type call struct {
	repo    string    // the git directory
	work    string    // the working tree, for a new clone only
	objects string    // where new objects go instead of repo; repo's stay readable
	remote  *remote   // the one transport that is allowed
	lock    *os.File  // inherited, so that the lock lives as long as the process
	stdin   io.Reader // nil: empty
	stdout  io.Writer // nil: returned
	limit   int64     // of stdout; 0 is outputCap, for a stdout that is returned
}

// fixed is configuration that beats whatever a repository says. A program that
// git could be told to run is named here or cannot be named anywhere: there are no
// other sources of configuration, and PATH holds git's own programs only.
var fixed = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.pager", "cat"},
	{"core.editor", "false"},
	{"core.askPass", ""},
	{"core.sshCommand", "false"},
	{"core.gitProxy", ""},
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.quotePath", "false"},
	{"core.useReplaceRefs", "false"},
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	{"core.alternateRefsCommand", "true"},
	{"core.fsync", "committed,reference,-loose-object"},
	{"attr.tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}, // the empty tree
	{"credential.helper", ""},
	{"credential.interactive", "false"},
	{"gpg.program", "false"},
	{"gpg.ssh.program", "false"},
	{"gpg.x509.program", "false"},
	{"commit.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"push.followTags", "false"},
	{"push.recurseSubmodules", "no"},
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"fetch.fsckObjects", "true"},
	{"transfer.fsckObjects", "true"},
	{"receive.fsckObjects", "true"},
	// Old histories carry these; they are ugly and harmless.
	{"fetch.fsck.zeroPaddedFilemode", "ignore"},
	{"fetch.fsck.missingSpaceBeforeDate", "ignore"},
	{"fetch.fsck.badTimezone", "ignore"},
	{"fetch.fsck.zeroPaddedDate", "ignore"},
	{"transfer.unpackLimit", "1"},
	{"fetch.writeCommitGraph", "false"},
	{"gc.auto", "0"},
	{"gc.autoDetach", "false"},
	{"maintenance.auto", "false"},
	{"http.followRedirects", "false"},
	{"http.sslVerify", "true"},
	{"safe.bareRepository", "explicit"},
	{"protocol.allow", "never"},
	{"diff.renames", "false"},
	{"merge.renames", "true"},
	{"advice.detachedHead", "false"},
}

// environ is the whole environment of one git process.
func (g *Git) environ(c call) []string {
	env := []string{
		"PATH=" + g.execPath, "HOME=" + g.home, "XDG_CONFIG_HOME=" + g.home, "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_SSH_COMMAND=false", "GIT_PAGER=cat", "GIT_EDITOR=false",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_PROTOCOL_FROM_USER=0",
		// glibc gives the top of its heap back, and git index-pack asks for it again, for
		// every object: that was three quarters of its time.
		"MALLOC_TOP_PAD_=4194304", "MALLOC_TRIM_THRESHOLD_=33554432",
	}
	config := fixed
	allowed := "none"
	if c.remote != nil {
		allowed = c.remote.scheme
		config = append(config[:len(config):len(config)], [2]string{"protocol." + allowed + ".allow", "always"})
		if h := c.remote.header(); h != "" {
			config = append(config, [2]string{"http." + c.remote.url + ".extraHeader", h})
		}
		if g.caFile != "" {
			config = append(config, [2]string{"http.sslCAInfo", g.caFile})
		}
	}
	env = append(env, "GIT_ALLOW_PROTOCOL="+allowed)
	if c.repo != "" {
		env = append(env, "GIT_DIR="+c.repo)
	}
	if c.work != "" {
		env = append(env, "GIT_WORK_TREE="+c.work)
	}
	if c.objects != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+c.objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+c.repo+"/objects")
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, kv := range config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+kv[0], "GIT_CONFIG_VALUE_"+n+"="+kv[1])
	}
	return env
}

// command makes the process of one call: its own process group, killed as a whole
// when ctx ends.
func (g *Git) command(ctx context.Context, c call, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.path, args...)
	cmd.Env = g.environ(c)
	cmd.Dir = g.home
	if c.work != "" {
		cmd.Dir = c.work
	}
	cmd.Stdin = c.stdin
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs one git process to its end and returns its stdout. An error is a
// *nod.Error around a *gitError, so that a caller can tell exit codes apart.
func (g *Git) run(ctx context.Context, c call, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := g.command(ctx, c, args...)
	limit := c.limit
	if limit == 0 {
		limit = outputCap
	}
	out := &capped{limit: limit, over: cancel}
	errs := &tail{limit: stderrCap}
	cmd.Stdout, cmd.Stderr = out, errs
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	err := cmd.Run()
	if out.full {
		return nil, nod.E(nod.TooLarge, "git "+args[0]+" wrote more than "+strconv.FormatInt(limit, 10)+" bytes", nil)
	}
	if err != nil {
		return nil, failed(ctx, args[0], err, errs.scrubbed(c.remote))
	}
	return out.buf.Bytes(), nil
}

// together runs what only reads side by side, waits for all of it, and returns the
// error of the first in order that failed.
func together(do ...func() error) error {
	errs := make([]error, len(do))
	var wg sync.WaitGroup
	for i, f := range do {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// failed makes the error of a git process that did not end well.
func failed(ctx context.Context, verb string, err error, stderr string) error {
	ge := &gitError{verb: verb, exit: -1, stderr: stderr, err: err}
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		ge.exit = ee.ExitCode()
	}
	if ctx.Err() != nil {
		return nod.E(nod.Unavailable, "git "+verb+" was stopped before it was done", errors.Join(context.Cause(ctx), ge))
	}
	return nod.E(nod.Internal, "git "+verb+" failed", ge)
}

// gitError is how a git process ended.
type gitError struct {
	verb   string
	exit   int // -1: it did not exit by itself
	stderr string
	err    error
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: %v: %s", e.verb, e.err, strings.TrimSpace(e.stderr))
}

func (e *gitError) Unwrap() error { return e.err }

// exitCode is the exit code in err, or -1.
func exitCode(err error) int {
	var ge *gitError
	if errors.As(err, &ge) {
		return ge.exit
	}
	return -1
}

// capped keeps up to limit bytes and calls over at the first one more.
type capped struct {
	buf   bytes.Buffer // not embedded: its ReadFrom would go around the cap
	limit int64
	full  bool
	over  func()
}

func (c *capped) Write(p []byte) (int, error) {
	if int64(c.buf.Len()+len(p)) > c.limit {
		c.full = true
		c.over()
		return 0, io.ErrShortWrite
	}
	return c.buf.Write(p)
}

// tail keeps the last limit bytes.
type tail struct {
	b     []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - t.limit; n > 0 {
		t.b = t.b[n:]
	}
	return len(p), nil
}

func (t *tail) scrubbed(r *remote) string {
	s := string(t.b)
	if r == nil || r.token.Empty() {
		return s
	}
	for _, secret := range []string{r.token.Reveal(), r.basic()} {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}
