package hostgit

import (
	"regexp"
	"strconv"
	"strings"

	"nod"
)

var (
	conventional = regexp.MustCompile(`^(` + types + `)(\([^()\n]+\))?!?: \S`)
	nearly       = regexp.MustCompile(`^([A-Za-z]+)(\([^()\n]+\))?(!?)[ \t]*:[ \t]*(\S.*)$`)
	reverted     = regexp.MustCompile(`^Revert "(\S.*)"$`)
	trailer      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*: \S[^\n]*$`)
	squashMark   = regexp.MustCompile(`^(fixup|squash|amend)! +`)
	abbreviated  = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// split parts a message into its subject, the first line that says something, and
// its body. Space at line ends and at both ends is dropped.
func split(message string) (subject, body string) {
	lines := strings.Split(message, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	subject, body, _ = strings.Cut(strings.Trim(strings.Join(lines, "\n"), "\n"), "\n")
	return strings.TrimSpace(subject), strings.Trim(body, "\n")
}

func join(subject, body string) string {
	if body == "" {
		return subject + "\n"
	}
	return subject + "\n\n" + body + "\n"
}

// types are those of conventional subjects.
const types = "feat|fix|docs|style|refactor|perf|test|build|ci|chore|revert"

// lint holds a message to conventionalcommits.org. It repairs form alone: the case and
// spacing of a known type, git's own wording of a revert, a missing blank line after
// the subject. What only whoever made the commit can know, its type, it never makes up:
// then it says what is wrong.
func lint(message string) (fixed, wrong string) {
	subject, body := split(message)
	if subject == "" {
		return "", "it has no message"
	}
	if conventional.MatchString(subject) {
		return join(subject, body), ""
	}
	if f := reverted.FindStringSubmatch(subject); f != nil { // as git itself words it
		return join("revert: "+f[1], body), ""
	}
	f := nearly.FindStringSubmatch(subject)
	if f == nil {
		return "", "the subject " + quoted(subject) + " does not begin with a type and a colon"
	}
	if fixed := strings.ToLower(f[1]) + f[2] + f[3] + ": " + f[4]; conventional.MatchString(fixed) {
		return join(fixed, body), ""
	}
	return "", "the subject " + quoted(subject) + " begins with " + quoted(f[1]) + ", which is no known type"
}

// unconventional is the error about messages that were found wrong, one a line.
func unconventional(wrong []string) error {
	const most = 20
	more := ""
	if n := len(wrong) - most; n > 0 {
		wrong, more = wrong[:most], "\nand "+strconv.Itoa(n)+" more"
	}
	return nod.E(nod.Invalid, "commit messages are not conventional, as type(scope): subject with one of the types "+strings.ReplaceAll(types, "|", ", ")+":\n"+
		strings.Join(wrong, "\n")+more, nod.ErrMessages)
}

// withTrailers puts trailers at the end of a message, into its last paragraph when
// that holds nothing else. A line that is there already is not added again.
func withTrailers(message string, trailers []string) (string, error) {
	subject, body := split(message)
	last := body[strings.LastIndex("\n\n"+body, "\n\n"):]
	have := map[string]bool{}
	open := body != ""
	for line := range strings.SplitSeq(last, "\n") {
		open = open && trailer.MatchString(line)
		have[line] = true
	}
	var add []string
	for _, t := range trailers {
		if !trailer.MatchString(t) || strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", nod.E(nod.Invalid, "a trailer is not one line of the form Key: value", nil)
		}
		if !open || !have[t] {
			add = append(add, t)
		}
	}
	if len(add) == 0 {
		return join(subject, body), nil
	}
	block := strings.Join(add, "\n")
	switch {
	case body == "":
		body = block
	case open:
		body += "\n" + block
	default:
		body += "\n\n" + block
	}
	return join(subject, body), nil
}

// group is one commit to be: what is picked into it, in order, and its message.
type group struct {
	picks   []commit
	message string
}

// plan orders commits as rebase --autosquash would: fixup! and amend! and squash!
// commits go into the one they name. Without squash, or when the one they name is
// not there, such a commit stays where it is and loses the mark. squashed tells
// whether anything was moved into another commit.
func plan(commits []commit, squash bool) (groups []group, squashed bool, err error) {
	for _, c := range commits {
		text, err := c.text()
		if err != nil {
			return nil, false, err
		}
		subject, body := split(text)
		mark := squashMark.FindStringSubmatch(subject)
		if mark == nil {
			groups = append(groups, group{picks: []commit{c}, message: text})
			continue
		}
		name := subject
		for squashMark.MatchString(name) {
			name = squashMark.ReplaceAllString(name, "")
		}
		into := -1
		if squash {
			into = target(groups, name)
		}
		if into < 0 {
			groups = append(groups, group{picks: []commit{c}, message: join(name, body)})
			continue
		}
		g := &groups[into]
		g.picks = append(g.picks, c)
		squashed = true
		switch {
		case mark[1] == "squash" && body != "":
			s, b := split(g.message)
			g.message = join(s, strings.TrimLeft(b+"\n\n"+body, "\n"))
		case mark[1] == "amend" && body != "":
			g.message = body
		}
	}
	return groups, squashed, nil
}

// target finds the group that a mark names: by its whole subject, by its commit, by
// the start of its subject.
func target(groups []group, name string) int {
	if name == "" {
		return -1
	}
	subjects := make([]string, len(groups))
	for i, g := range groups {
		subjects[i], _ = split(g.picks[0].message)
		if subjects[i] == name {
			return i
		}
	}
	for i, g := range groups {
		if abbreviated.MatchString(name) && strings.HasPrefix(g.picks[0].id, name) {
			return i
		}
	}
	for i, s := range subjects {
		if strings.HasPrefix(s, name) {
			return i
		}
	}
	return -1
}
