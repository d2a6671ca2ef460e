package nod

import "strings"

// CommentCommand is one line of a GitHub comment that speaks to nod, such as
// "/nod retry". Verb is in lower case and need not be one that nod knows. Arg is
// untrusted: the rest of the line, and for "say" also the lines below it up to the
// next command.
type CommentCommand struct {
	Verb string `json:"verb"`
	Arg  string `json:"arg,omitempty"`
}

// The verbs of comment commands.
const (
	VerbRun    = "run"
	VerbRetry  = "retry"
	VerbCancel = "cancel"
	VerbSay    = "say"
	VerbStatus = "status"
	VerbAgent  = "agent"
	VerbHelp   = "help"
)

const commandWord = "/nod"

// lineEnds makes each of Markdown's line endings a line feed.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// ParseComment returns the commands in a comment's Markdown, in order.
//
// A command begins in the first column of its line. What GitHub shows as a quote
// (with the unmarked lines that continue one), as a fenced code block, or not at
// all (HTML comments) holds none; indented code cannot, because of its indent. The
// rules for fences and comments are those of CommonMark 0.29, sections 4.5 and 4.6.
// "/nod" alone asks for help.
func ParseComment(body string) []CommentCommand {
	var found []CommentCommand
	var said []string // what belongs to the "say" under way
	saying := false
	finish := func() {
		if saying {
			last := &found[len(found)-1]
			last.Arg = strings.TrimSpace(strings.Join(append([]string{last.Arg}, said...), "\n"))
		}
		said, saying = nil, false
	}
	var at markdown
	for line := range strings.SplitSeq(lineEnds.Replace(body), "\n") {
		if at.text(line) {
			if c, ok := commandLine(line); ok {
				finish()
				found = append(found, c)
				saying = c.Verb == VerbSay
				continue
			}
		}
		if saying {
			said = append(said, line)
		}
	}
	finish()
	return found
}

// commandLine reads a line that begins with the command word.
func commandLine(line string) (CommentCommand, bool) {
	if len(line) < len(commandWord) || !strings.EqualFold(line[:len(commandWord)], commandWord) {
		return CommentCommand{}, false
	}
	rest := line[len(commandWord):]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return CommentCommand{}, false
	}
	rest = strings.TrimSpace(rest)
	if rest == "" {
		return CommentCommand{Verb: VerbHelp}, true
	}
	verb, arg := rest, ""
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		verb, arg = rest[:i], strings.TrimSpace(rest[i:])
	}
	return CommentCommand{Verb: strings.ToLower(verb), Arg: arg}, true
}

// markdown follows, line by line, which block of a document a line belongs to.
type markdown struct {
	fence   string // the run of ` or ~ that opened the code block we are in
	comment bool   // inside <!-- … -->
	quote   bool   // the line before belongs to a quote
}

// text takes the next line and reports whether it is outside code, quotes and
// HTML comments.
func (m *markdown) text(line string) bool {
	body, indent := unindent(line)
	switch {
	case m.fence != "":
		if indent <= 3 && closesFence(m.fence, body) {
			m.fence = ""
		}
		return false
	case m.comment:
		m.comment = !strings.Contains(line, "-->")
		return false
	case body == "":
		m.quote = false
		return false
	case indent <= 3 && body[0] == '>':
		m.quote = true
		return false
	}
	if fence := opensFence(body); fence != "" && indent <= 3 {
		m.fence, m.quote = fence, false
		return false
	}
	if indent <= 3 {
		m.openComment(body)
	}
	return !m.quote && indent == 0
}

// openComment notes a comment that begins in line and does not end in it. One
// that begins in the middle of a line counts too: what is lost by taking too much
// for a comment is a command, what is lost the other way is intent.
func (m *markdown) openComment(line string) {
	for {
		i := strings.Index(line, "<!--")
		if i < 0 {
			return
		}
		line = line[i+len("<!"):] // "<!-->" is a whole comment
		end := strings.Index(line, "-->")
		if end < 0 {
			m.comment = true
			return
		}
		line = line[end+len("-->"):]
	}
}

// unindent returns line without its leading blanks, and how many columns they
// take: a tab goes to the next multiple of four.
func unindent(line string) (body string, columns int) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += 4 - columns%4
		default:
			return line[i:], columns
		}
	}
	return "", columns
}

// opensFence returns the run of at least three backticks or tildes that line
// begins with. The text after backticks may not hold another one.
func opensFence(line string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, mark)
		run := line[:len(line)-len(rest)]
		if len(run) >= 3 && (mark == "~" || !strings.Contains(rest, mark)) {
			return run
		}
	}
	return ""
}

// closesFence reports whether line is nothing but a run of fence's character, at
// least as long as fence.
func closesFence(fence, line string) bool {
	line = strings.TrimRight(line, " \t")
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}
