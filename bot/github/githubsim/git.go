package githubsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// gitTimeout bounds one git command.
const gitTimeout = time.Minute

// gitEnv is the whole environment of every git process: no system or user
// configuration, no hooks, no prompts, no background work.
func (s *Server) gitEnv() []string {
	set := [][2]string{{"core.hooksPath", os.DevNull}, {"gc.auto", "0"}, {"receive.autogc", "false"}, {"maintenance.auto", "false"},
		{"http.receivepack", "true"}, {"http.uploadpack", "true"}, {"receive.fsckObjects", "true"},
		{"receive.hideRefs", "refs/pull"}, {"receive.denyDeleteCurrent", "refuse"}, {"uploadpack.allowFilter", "true"}}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.dir, "home"), "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(set))}
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// errNoObject says that git does not know a revision.
var errNoObject = errors.New("no such object")

// git runs git in dir and returns its output.
func (s *Server) git(dir string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ended, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + dir}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stdin = s.gitEnv(), s.dir, bytes.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out.Bytes(), nil
}

// refs lists the branches and tags of r.
func (s *Server) refs(r *repo) (map[string]string, error) {
	out, err := s.git(r.dir, nil, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, sha, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			refs[name] = sha
		}
	}
	return refs, nil
}

// head returns the commit of a branch, or "" when there is no such branch.
func (s *Server) head(r *repo, branch string) string {
	sha, err := s.resolve(r, "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return sha
}

// resolve turns a full ref or an object id into the id of the commit it means.
func (s *Server) resolve(r *repo, rev string) (string, error) {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, " ^~:?*[\\\x00\n{") {
		return "", errNoObject
	}
	out, err := s.git(r.dir, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		return "", errNoObject
	}
	return strings.TrimSpace(string(out)), nil
}

// validBranch applies git's own rules for a branch name.
func (s *Server) validBranch(name string) bool {
	if strings.HasPrefix(name, "-") || strings.ContainsRune(name, 0) {
		return false
	}
	_, err := s.git(s.dir, nil, "check-ref-format", "refs/heads/"+name)
	return err == nil
}

// ancestor reports whether old is contained in sha.
func (s *Server) ancestor(r *repo, old, sha string) bool {
	_, err := s.git(r.dir, nil, "merge-base", "--is-ancestor", old, sha)
	return err == nil
}

// person is an author or a committer.
type person struct {
	name, email string
	at          time.Time
}

// commit is a commit object, parsed.
type commit struct {
	sha, tree         string
	parents           []string
	author, committer person
	message           string
	signature         string // of the gpgsig header
	payload           []byte // what was signed
}

func (s *Server) commit(r *repo, sha string) (commit, error) {
	raw, err := s.git(r.dir, nil, "cat-file", "commit", sha)
	if err != nil {
		return commit{}, errNotFound
	}
	return parseCommit(sha, raw), nil
}

// maxCommits is how many commits of a pull request the API lists, as on GitHub.
const maxCommits = 250

// commits lists what head has and base lacks, oldest first.
func (s *Server) commits(r *repo, base, head string) ([]commit, error) {
	out, err := s.git(r.dir, nil, "rev-list", "--reverse", "--topo-order", "--max-count="+strconv.Itoa(maxCommits), head, "^"+base, "--")
	if err != nil {
		return nil, err
	}
	var list []commit
	for sha := range strings.FieldsSeq(string(out)) {
		c, err := s.commit(r, sha)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// parseCommit reads a raw commit object. The payload is the object without its
// gpgsig header, which is what git signs.
func parseCommit(sha string, raw []byte) commit {
	c := commit{sha: sha}
	head, message, _ := bytes.Cut(raw, []byte("\n\n"))
	c.message = string(message)
	var payload, sig bytes.Buffer
	in := ""
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		key, value, _ := strings.Cut(string(line), " ")
		if key != "" {
			in = key // a continuation line begins with a space
		}
		if in == "gpgsig" {
			sig.WriteString(value + "\n")
			continue
		}
		payload.Write(line)
		payload.WriteByte('\n')
		switch key {
		case "tree":
			c.tree = value
		case "parent":
			c.parents = append(c.parents, value)
		case "author":
			c.author = parsePerson(value)
		case "committer":
			c.committer = parsePerson(value)
		}
	}
	c.signature = strings.TrimSuffix(sig.String(), "\n")
	c.payload = append(append(payload.Bytes(), '\n'), message...)
	return c
}

// parsePerson reads "Name <email> 1700000000 +0200".
func parsePerson(line string) person {
	name, rest, _ := strings.Cut(line, " <")
	email, stamp, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(stamp, " ")
	p := person{name: name, email: email}
	if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
		p.at = time.Unix(n, 0).UTC()
	}
	return p
}

// writeCommit stores a commit object, signed by sign when it is not nil.
func (s *Server) writeCommit(r *repo, c commit, sign *signer) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	for _, p := range c.parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	for _, who := range []struct {
		role string
		p    person
	}{{"author", c.author}, {"committer", c.committer}} {
		if strings.ContainsAny(who.p.name+who.p.email, "<>\n\x00") {
			return "", invalid("Commit", who.role, "invalid", "")
		}
		fmt.Fprintf(&b, "%s %s <%s> %d +0000\n", who.role, who.p.name, who.p.email, who.p.at.Unix())
	}
	payload := b.String() + "\n" + c.message
	raw := payload
	if sign != nil {
		sig, err := sign.sign([]byte(payload))
		if err != nil {
			return "", err
		}
		raw = b.String() + "gpgsig " + strings.ReplaceAll(sig, "\n", "\n ") + "\n\n" + c.message
	}
	out, err := s.git(r.dir, []byte(raw), "hash-object", "-t", "commit", "-w", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// commitFiles puts files on top of a branch, or makes the branch's first commit.
// A nil content removes the file.
func (s *Server) commitFiles(r *repo, by *user, branch, message string, files map[string]*string) error {
	var b bytes.Buffer
	who := fmt.Sprintf("%s <%s> %d +0000", by.login, by.noreply(), s.now().Unix())
	fmt.Fprintf(&b, "commit refs/heads/%s\nauthor %s\ncommitter %s\ndata %d\n%s\n", branch, who, who, len(message), message)
	if s.head(r, branch) != "" {
		fmt.Fprintf(&b, "from refs/heads/%s^0\n", branch)
	}
	for path, content := range files {
		if content == nil {
			fmt.Fprintf(&b, "D %s\n", quotePath(path))
			continue
		}
		mode := "100644"
		if strings.HasPrefix(*content, "#!") {
			mode = "100755"
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, quotePath(path), len(*content), *content)
	}
	_, err := s.git(r.dir, b.Bytes(), "fast-import", "--quiet", "--date-format=raw")
	return err
}

// quotePath quotes a path for fast-import, byte by byte where needed.
func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// editTree applies lines of "git update-index -z --index-info" to a tree, in an
// index of its own, and returns the new tree.
func (s *Server) editTree(r *repo, base, feed string) (string, error) {
	index, err := os.MkdirTemp(filepath.Join(s.dir, "spool"), "index-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(index) }() // the spool is emptied with the server's directory
	run := func(stdin string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(s.ended, gitTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir=" + r.dir}, args...)...)
		cmd.Env, cmd.Dir, cmd.Stdin = append(s.gitEnv(), "GIT_INDEX_FILE="+filepath.Join(index, "index")), s.dir, strings.NewReader(stdin)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	if base != "" {
		if _, err := run("", "read-tree", base); err != nil {
			return "", err
		}
	}
	if _, err := run(feed, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	return run("", "write-tree")
}
