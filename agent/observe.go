package agent

import (
	"strings"
	"unicode/utf8"

	"nod"
)

// DiffCap is how many bytes of one change an event carries.
const DiffCap = 64 << 10

// NewDiff is a change of a file, cut to DiffCap at a line or a character.
func NewDiff(call, path, text string) nod.Diff {
	if len(text) > DiffCap {
		text = text[:DiffCap]
		if i := strings.LastIndexByte(text, '\n'); i > 0 {
			text = text[:i+1]
		}
		for !utf8.ValidString(text) && len(text) > 0 {
			text = text[:len(text)-1]
		}
		text += "[the rest is left out]\n"
	}
	return nod.Diff{CallID: call, Path: path, Text: text}
}

// runners are the beginnings of commands that run tests.
var runners = []string{"go test", "cargo test", "cargo nextest", "npm test", "npm run test", "npx jest", "npx vitest", "yarn test", "pnpm test",
	"bun test", "deno test", "pytest", "python -m pytest", "python3 -m pytest", "python -m unittest", "python3 -m unittest", "tox", "make test", "make check",
	"ctest", "mvn test", "gradle test", "./gradlew test", "dotnet test", "swift test", "rspec", "bundle exec rspec", "mix test", "zig build test"}

// RunsTests reports whether one of the simple commands of a shell command is known
// to run tests. It is for telling people, and decides nothing.
func RunsTests(command string) bool {
	for part := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune(";&|\n()", r) }) {
		words := strings.Fields(part)
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:] // a variable for the command
		}
		part = strings.Join(words, " ")
		for _, r := range runners {
			if part == r || strings.HasPrefix(part, r+" ") {
				return true
			}
		}
	}
	return false
}

// Trouble is the event of a turn that ended because the model does not answer, and
// whether r is one.
func Trouble(r nod.Result) (nod.EventKind, nod.Trouble, bool) {
	switch r.Reason {
	case ReasonAuthExpired:
		return nod.EventSignedOut, nod.Trouble{Text: r.Text}, true
	case ReasonQuotaExhausted:
		return nod.EventQuota, nod.Trouble{Text: r.Text, ResetsAt: r.ResetsAt}, true
	}
	return "", nod.Trouble{}, false
}
