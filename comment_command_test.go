package nod_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nod"
)

func TestCommandsAreReadOnlyFromTheStartOfATextLine(t *testing.T) {
	one := func(verb, arg string) []nod.CommentCommand { return []nod.CommentCommand{{Verb: verb, Arg: arg}} }
	for name, tc := range map[string]struct {
		body string
		want []nod.CommentCommand
	}{
		"alone":                   {"/nod run", one("run", "")},
		"below text":              {"Thanks!\n/nod retry\n", one("retry", "")},
		"windows line ends":       {"a\r\n/nod cancel\r\nb", one("cancel", "")},
		"case is folded":          {"/NOD Status", one("status", "")},
		"blanks around":           {"/nod \t agent   claude  ", one("agent", "claude")},
		"no verb asks for help":   {"/nod", one("help", "")},
		"unknown verb is kept":    {"/nod dance now", one("dance", "now")},
		"two commands":            {"/nod agent codex\n/nod run", []nod.CommentCommand{{Verb: "agent", Arg: "codex"}, {Verb: "run"}}},
		"say takes what follows":  {"/nod say use B\nand\n\n- test it\n```\ncode\n```\n/nod status", []nod.CommentCommand{{Verb: "say", Arg: "use B\nand\n\n- test it\n```\ncode\n```"}, {Verb: "status"}}},
		"say from the next line":  {"/nod say\nhello\n", one("say", "hello")},
		"say nothing":             {"/nod say", one("say", "")},
		"other words":             {"/nodding run\n/nod-run\n/no d", nil},
		"not at the start":        {"please /nod run", nil},
		"after a blank":           {" /nod run", nil},
		"in a list":               {"- /nod run\n1. /nod run", nil},
		"indented code":           {"    /nod run\n\t/nod run", nil},
		"quoted":                  {"> /nod run\n>/nod run\n   > /nod run", nil},
		"quote that goes on":      {"> he said\n/nod run", nil},
		"after a quote":           {"> he said\n\n/nod run", one("run", "")},
		"fenced":                  {"```\n/nod run\n```", nil},
		"fenced with a language":  {"```sh\n/nod run\n```\n/nod help", one("help", "")},
		"fenced with tildes":      {"~~~ `x`\n/nod run\n```\n/nod run\n~~~\n/nod help", one("help", "")},
		"longer fence":            {"````\n```\n/nod run\n````\n/nod help", one("help", "")},
		"fence closed by longer":  {"```\n/nod run\n`````\n/nod help", one("help", "")},
		"fence never closed":      {"```\n/nod run", nil},
		"closing needs no words":  {"```\n``` no\n/nod run", nil},
		"closing may be indented": {"```\nx\n   ```  \n/nod run", one("run", "")},
		"closing too far in":      {"```\nx\n    ```\n/nod run", nil},
		"inline code is no fence": {"```x``` y\n/nod run", one("run", "")},
		"two backticks":           {"``\n/nod run", one("run", "")},
		"hidden":                  {"<!--\n/nod run\n-->", nil},
		"hidden, one line":        {"<!-- x -->\n/nod run", one("run", "")},
		"hidden, empty":           {"<!-->\n/nod run", one("run", "")},
		"hidden, second opens":    {"<!-- a --> b <!-- c\n/nod run\n-->\n/nod help", one("help", "")},
		"hidden fence":            {"<!--\n```\n-->\n/nod run", one("run", "")},
		"fenced comment":          {"```\n<!--\n```\n/nod run", one("run", "")},
		"comment in mid-line":     {"see <!-- x\n/nod run\n--> y", nil},
		"empty":                   {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nod.ParseComment(tc.body)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// lines are pieces that matter to the parser.
var lines = []string{"/nod run", "/nod say x", "/NOD HELP", "text", "", "> quote", "```", "````", "~~~", "``` sh", "<!--", "-->", "<!-- a -->",
	"    /nod run", "- item", "\t", "   ```"}

func TestWrappedCommentsHoldNoCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom(lines)).Draw(t, "lines"), "\n")
		quoted := "> " + strings.ReplaceAll(body, "\n", "\n> ")
		indented := "    " + strings.ReplaceAll(body, "\n", "\n    ")
		fenced := "`````\n" + body + "\n`````"
		for _, wrapped := range []string{quoted, indented, fenced} {
			if got := nod.ParseComment(wrapped); got != nil {
				t.Fatalf("%q holds %v", wrapped, got)
			}
		}
	})
}

func FuzzParseComment(f *testing.F) {
	f.Add(strings.Join(lines, "\n"))
	f.Add("/nod \x00\xff\r/nod run")
	f.Fuzz(func(t *testing.T, body string) {
		got := nod.ParseComment(body)
		if len(got) > strings.Count(strings.ToLower(body), "/nod") {
			t.Fatalf("more commands than the text has: %v", got)
		}
		for _, c := range got {
			if c.Verb == "" || strings.ContainsAny(c.Verb, " \t\r\n") || c.Arg != strings.TrimSpace(c.Arg) {
				t.Fatalf("badly cut: %q", c)
			}
			if c.Verb != nod.VerbSay && strings.Contains(c.Arg, "\n") {
				t.Fatalf("spans lines: %q", c)
			}
		}
	})
}
