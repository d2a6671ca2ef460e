package hostgit

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nod"
)

// remote is where a repository lives and what opens it.
type remote struct {
	url    string // without credentials
	scheme string
	token  nod.Secret
}

// basic is the token as HTTP Basic wants it; GitHub takes any user name.
func (r *remote) basic() string {
	return base64.StdEncoding.EncodeToString([]byte("x-access-token:" + r.token.Reveal()))
}

func (r *remote) header() string {
	if r.token.Empty() {
		return ""
	}
	return "Authorization: Basic " + r.basic()
}

// dial asks for the remote of t and checks that it is one that git may talk to.
func (g *Git) dial(ctx context.Context, t nod.Task, write bool) (*remote, error) {
	raw, token, err := g.remote(ctx, t, write)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, nod.E(nod.Invalid, "the repository's URL is not a plain one", nil)
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return nil, nod.E(nod.Invalid, "the repository's URL is not https", nil)
	}
	if strings.ContainsFunc(token.Reveal(), func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return nil, nod.E(nod.Invalid, "the repository's token has control characters", nil)
	}
	return &remote{url: raw, scheme: u.Scheme, token: token}, nil
}

// online does one thing at the remote of t. Where the token is refused, a fresh one
// is asked for, once.
func (m *mirror) online(ctx context.Context, t nod.Task, write bool, do func(*remote) error) error {
	for again := false; ; again = true {
		r, err := m.g.dial(ctx, t, write)
		if err != nil {
			return err
		}
		err = answered(do(r))
		if c := nod.CodeOf(err); again || c != nod.Unauthenticated && c != nod.Forbidden {
			if c == nod.Unauthenticated { // the token is minted anew next time
				err = nod.E(nod.Unavailable, "GitHub does not take the token for this repository", err)
			}
			return err
		}
	}
}

// answered gives the error of a remote command the code of what the server said.
// In the C locale these words are git's own; the numbers are HTTP's.
func answered(err error) error {
	var ge *gitError
	if nod.CodeOf(err) != nod.Internal { // judged already
		return err
	}
	if !errors.As(err, &ge) || ge.exit < 0 || ge.verb != "ls-remote" && ge.verb != "fetch" && ge.verb != "push" {
		return err
	}
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(ge.stderr, w) {
				return true
			}
		}
		return false
	}
	switch {
	case says("could not read Username", "Authentication failed", "returned error: 401"):
		return nod.E(nod.Unauthenticated, "GitHub does not take the token for this repository", err)
	case says("returned error: 403"):
		return nod.E(nod.Forbidden, "GitHub does not allow this for the repository", err)
	case says("returned error: 404") || says("repository '") && says("not found"):
		return &nod.Error{Code: nod.NotFound, Msg: "GitHub does not show this repository to the App", Hint: "check that the App is installed for it", Err: err}
	case says("returned error: 429"):
		return nod.E(nod.RateLimited, "GitHub asks to come back later", err)
	default:
		return nod.E(nod.Unavailable, "git could not talk to GitHub", err)
	}
}

// heads lists the branches of the remote.
func (m *mirror) heads(ctx context.Context, r *remote) (map[string]string, error) {
	out, err := m.git(ctx, call{remote: r}, "ls-remote", "--quiet", "--heads", "--", r.url)
	if err != nil {
		return nil, err
	}
	heads := map[string]string{}
	for line := range bytes.Lines(out) {
		sha, ref, ok := strings.Cut(strings.TrimRight(string(line), "\n"), "\t")
		name, branch := strings.CutPrefix(ref, "refs/heads/")
		if ok && branch && hexID.MatchString(sha) {
			heads[name] = sha
		}
	}
	return heads, nil
}

// fetch brings the needed branches into the mirror at their newest and, where they
// exist, the wished ones. It returns the commit of each that exists. A needed branch
// that is not there is looked for again for about a second: refs of a repository
// that was just pushed to are gone for a moment.
func (m *mirror) fetch(ctx context.Context, t nod.Task, needed, wished []string) (map[string]string, error) {
	for _, name := range append(needed[:len(needed):len(needed)], wished...) {
		if err := m.g.checkBranch(ctx, name); err != nil {
			return nil, err
		}
	}
	got := map[string]string{}
	err := m.online(ctx, t, false, func(r *remote) error {
		heads, err := m.waitForHeads(ctx, r, needed)
		if err != nil {
			return err
		}
		args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
			"--no-show-forced-updates", "--refmap="}
		have, err := m.refs(ctx, branchRefs)
		if err != nil {
			return err
		}
		if len(have) == 0 && m.g.depth > 0 { // nothing was fetched yet
			args = append(args, "--depth="+strconv.Itoa(m.g.depth))
		}
		args = append(args, "--", r.url)
		fixedArgs := len(args)
		var names []string
		for _, name := range append(needed[:len(needed):len(needed)], wished...) {
			if heads[name] == "" {
				continue
			}
			names = append(names, name)
			if have[branchRef(name)] != heads[name] {
				args = append(args, "+refs/heads/"+name+":"+branchRef(name))
			}
		}
		if len(args) > fixedArgs {
			if _, err := m.git(ctx, call{remote: r}, args...); err != nil {
				return err
			}
			if have, err = m.refs(ctx, branchRefs); err != nil {
				return err
			}
		}
		for _, name := range names {
			got[name] = have[branchRef(name)]
		}
		return nil
	})
	return got, err
}

func (m *mirror) waitForHeads(ctx context.Context, r *remote, needed []string) (map[string]string, error) {
	for try := 0; ; try++ {
		heads, err := m.heads(ctx, r)
		if err != nil {
			return nil, err
		}
		gone := ""
		for _, name := range needed {
			if heads[name] == "" {
				gone = name
			}
		}
		if gone == "" {
			return heads, nil
		}
		if try == len(m.g.pauses) {
			return nil, nod.E(nod.NotFound, "the branch "+quoted(gone)+" does not exist on GitHub", nil)
		}
		wait := time.NewTimer(m.g.pauses[try])
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, nod.E(nod.Unavailable, "the branch "+quoted(gone)+" was not there in time", ctx.Err())
		}
	}
}
