package answer

import (
	"path"
	"strconv"
	"strings"
)

// fileDiff is one file of a unified diff by git.
type fileDiff struct {
	Old, New string // paths, unquoted; equal unless renamed or copied
	Notes    []string
	Flags    []string // why this file deserves a second look
	Binary   bool
	Added    int
	Deleted  int
	Rows     []diffRow
}

// Path is the name the file has afterwards.
func (f fileDiff) Path() string {
	if f.New != "" {
		return f.New
	}
	return f.Old
}

// diffRow is one line of a diff. Kind is ' ', '+' or '-' inside a hunk, '@' for a
// hunk header, 'n' for "no newline at end of file", 'h' for a header line of git,
// and '?' for anything else.
type diffRow struct {
	Kind byte
	Line int    // number in the old file for '-', in the new one otherwise; 0 is none
	Text string // the whole line as it was, its marker included, no newline
}

// told reports whether the head of a file's section says all that r says: names and
// object ids, which the digest of the whole diff covers.
func (r diffRow) told() bool {
	if r.Kind != 'h' {
		return false
	}
	for _, p := range []string{"diff --git ", "index ", "--- ", "+++ "} {
		if strings.HasPrefix(r.Text, p) {
			return true
		}
	}
	return false
}

// parseDiff reads what git diff writes. It drops nothing: the rows of all files,
// joined by newlines, are diff. What it does not understand becomes rows of kind '?'.
func parseDiff(diff string) []fileDiff {
	if diff == "" {
		return nil
	}
	var files []fileDiff
	var f *fileDiff
	var oldLeft, newLeft, oldLine, newLine int
	for _, line := range strings.Split(diff, "\n") {
		inHunk := oldLeft > 0 || newLeft > 0
		if f == nil || !inHunk && strings.HasPrefix(line, "diff --git ") {
			files = append(files, fileDiff{})
			f = &files[len(files)-1]
			f.Old, f.New = gitHeaderPaths(line)
		}
		row := diffRow{Kind: '?', Text: line}
		switch {
		case inHunk && strings.HasPrefix(line, "+") && newLeft > 0:
			row.Kind, row.Line = '+', newLine
			newLine, newLeft, f.Added = newLine+1, newLeft-1, f.Added+1
		case inHunk && strings.HasPrefix(line, "-") && oldLeft > 0:
			row.Kind, row.Line = '-', oldLine
			oldLine, oldLeft, f.Deleted = oldLine+1, oldLeft-1, f.Deleted+1
		case inHunk && (line == "" || line[0] == ' ') && oldLeft > 0 && newLeft > 0:
			row.Kind, row.Line = ' ', newLine
			oldLine, newLine, oldLeft, newLeft = oldLine+1, newLine+1, oldLeft-1, newLeft-1
		case strings.HasPrefix(line, `\ `):
			row.Kind = 'n'
		case strings.HasPrefix(line, "@@ "):
			if h, ok := parseHunk(line); ok {
				row.Kind = '@'
				oldLine, oldLeft, newLine, newLeft = h[0], h[1], h[2], h[3]
			}
		case !inHunk:
			row.Kind = f.header(line)
		}
		f.Rows = append(f.Rows, row)
	}
	for i := range files {
		files[i].flag()
	}
	return files
}

// parseHunk reads "@@ -a,b +c,d @@".
func parseHunk(line string) (h [4]int, ok bool) {
	body, _, found := strings.Cut(strings.TrimPrefix(line, "@@ "), " @@")
	oldRange, newRange, two := strings.Cut(body, " ")
	if !found || !two || !strings.HasPrefix(oldRange, "-") || !strings.HasPrefix(newRange, "+") {
		return h, false
	}
	for i, part := range []string{oldRange[1:], newRange[1:]} {
		first, count, counted := strings.Cut(part, ",")
		if !counted {
			count = "1"
		}
		a, errA := strconv.ParseUint(first, 10, 31)
		b, errB := strconv.ParseUint(count, 10, 31)
		if errA != nil || errB != nil {
			return h, false
		}
		h[2*i], h[2*i+1] = int(a), int(b)
	}
	return h, true
}

// header reads one of git's header lines into f and returns its row kind.
func (f *fileDiff) header(line string) byte {
	for _, p := range []struct {
		prefix string
		take   func(rest string)
	}{
		{"diff --git ", func(string) {}},
		{"index ", func(string) {}},
		{"old mode ", func(m string) { f.Notes = append(f.Notes, "was "+modeName(m)) }},
		{"new mode ", func(m string) { f.Notes = append(f.Notes, "becomes "+modeName(m)) }},
		{"new file mode ", func(m string) { f.Notes = append(f.Notes, "new, "+modeName(m)) }},
		{"deleted file mode ", func(m string) { f.Notes = append(f.Notes, "deleted, was "+modeName(m)) }},
		{"similarity index ", func(string) {}},
		{"dissimilarity index ", func(string) {}},
		{"rename from ", func(s string) { f.Old = unquoteGit(s); f.Notes = append(f.Notes, "renamed") }},
		{"rename to ", func(s string) { f.New = unquoteGit(s) }},
		{"copy from ", func(s string) { f.Old = unquoteGit(s); f.Notes = append(f.Notes, "copied") }},
		{"copy to ", func(s string) { f.New = unquoteGit(s) }},
		{"--- ", func(s string) { f.takeSide(&f.Old, s, "a/") }},
		{"+++ ", func(s string) { f.takeSide(&f.New, s, "b/") }},
		{"Binary files ", func(string) { f.Binary = true }},
		{"GIT binary patch", func(string) { f.Binary = true }},
	} {
		if rest, ok := strings.CutPrefix(line, p.prefix); ok {
			p.take(rest)
			return 'h'
		}
	}
	return '?'
}

func (f *fileDiff) takeSide(side *string, s, prefix string) {
	s = unquoteGit(strings.TrimSuffix(s, "\t"))
	if s == "/dev/null" {
		return
	}
	if name, ok := strings.CutPrefix(s, prefix); ok {
		*side = name
	}
}

// gitHeaderPaths reads the names of "diff --git a/x b/x". Where both names differ
// the lines that follow say so, so only equal halves need to be told apart here.
func gitHeaderPaths(line string) (before, after string) {
	rest, ok := strings.CutPrefix(line, "diff --git ")
	if !ok {
		return "", ""
	}
	if strings.HasPrefix(rest, `"`) {
		if end := strings.Index(rest, `" `); end > 0 {
			return strings.TrimPrefix(unquoteGit(rest[:end+1]), "a/"), strings.TrimPrefix(unquoteGit(rest[end+2:]), "b/")
		}
	}
	if half := len(rest) / 2; len(rest)%2 == 1 && rest[half] == ' ' {
		a, b := strings.TrimPrefix(rest[:half], "a/"), strings.TrimPrefix(rest[half+1:], "b/")
		if a == b {
			return a, b
		}
	}
	a, b, _ := strings.Cut(rest, " b/")
	return strings.TrimPrefix(a, "a/"), b
}

// unquoteGit undoes git's C-style quoting of a path; what is not quoted, or not
// well, is returned as it is.
func unquoteGit(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var b strings.Builder
	for in := s[1 : len(s)-1]; in != ""; {
		c := in[0]
		in = in[1:]
		if c != '\\' || in == "" {
			b.WriteByte(c)
			continue
		}
		if n := strings.IndexByte(`abtnvfr`, in[0]); n >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[n])
			in = in[1:]
			continue
		}
		if len(in) >= 3 {
			if v, err := strconv.ParseUint(in[:3], 8, 8); err == nil {
				b.WriteByte(byte(v))
				in = in[3:]
				continue
			}
		}
		b.WriteByte(in[0])
		in = in[1:]
	}
	return b.String()
}

// modeName says what a git file mode means.
func modeName(mode string) string {
	switch mode {
	case "100644":
		return "a plain file"
	case "100755":
		return "an executable file"
	case "120000":
		return "a symbolic link"
	case "160000":
		return "a submodule"
	}
	return "mode " + mode
}

// flag notes what makes the file worth a second look.
func (f *fileDiff) flag() {
	for _, name := range []string{f.Path(), f.Old} {
		if why := flagOf(name); why != "" && len(f.Flags) == 0 {
			f.Flags = append(f.Flags, why)
		}
	}
	if f.Binary {
		f.Flags = append(f.Flags, "binary: its content is not shown")
	}
	for _, n := range f.Notes {
		if strings.Contains(n, "executable") || strings.Contains(n, "link") || strings.Contains(n, "submodule") {
			f.Flags = append(f.Flags, n)
		}
	}
}

var lockFiles = map[string]bool{
	"package-lock.json": true, "npm-shrinkwrap.json": true, "yarn.lock": true, "pnpm-lock.yaml": true, "bun.lock": true, "bun.lockb": true,
	"go.sum": true, "cargo.lock": true, "poetry.lock": true, "pdm.lock": true, "uv.lock": true, "pipfile.lock": true,
	"gemfile.lock": true, "composer.lock": true, "flake.lock": true, "mix.lock": true, "packages.lock.json": true,
}

func flagOf(name string) string {
	lower := strings.ToLower(name)
	switch {
	case strings.HasPrefix(lower, ".github/workflows/"), strings.HasPrefix(lower, ".github/actions/"):
		return "workflow: runs with the repository's rights"
	case lockFiles[path.Base(lower)]:
		return "lock file: decides which code is installed"
	case lower == ".gitmodules", path.Base(lower) == ".gitattributes":
		return "changes how git reads the repository"
	case path.Base(lower) == "codeowners":
		return "decides who must review"
	}
	return ""
}
