package githubsim

import (
	"regexp"
	"strconv"
	"strings"
)

type fileView struct {
	Path           string
	Added, Deleted int
	Lines          []lineView
}

type lineView struct {
	Kind string // add, del, same or hunk
	No   int    // line number; 0 for none
	Text string
}

var hunkShape = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// parseDiff reads git's unified diff. A line inside a hunk is content, whatever it
// looks like: the hunk's own header says how many there are.
func parseDiff(diff string) []fileView {
	var files []fileView
	var old, now, oldLeft, nowLeft int
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, "diff --git "); ok && oldLeft == 0 && nowLeft == 0 {
			files = append(files, fileView{Path: pathOf(name)})
			continue
		}
		if len(files) == 0 {
			continue
		}
		f := &files[len(files)-1]
		if m := hunkShape.FindStringSubmatch(line); m != nil && oldLeft == 0 && nowLeft == 0 {
			old, now, oldLeft, nowLeft = atoi(m[1]), atoi(m[3]), count(m[2]), count(m[4])
			f.Lines = append(f.Lines, lineView{"hunk", 0, line})
			continue
		}
		if oldLeft == 0 && nowLeft == 0 {
			if strings.HasPrefix(line, "Binary ") || strings.HasPrefix(line, "rename ") || strings.Contains(line, " mode ") {
				f.Lines = append(f.Lines, lineView{"hunk", 0, line})
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "+"):
			f.Lines = append(f.Lines, lineView{"add", now, line})
			f.Added, now, nowLeft = f.Added+1, now+1, nowLeft-1
		case strings.HasPrefix(line, "-"):
			f.Lines = append(f.Lines, lineView{"del", old, line})
			f.Deleted, old, oldLeft = f.Deleted+1, old+1, oldLeft-1
		case strings.HasPrefix(line, `\`): // no newline at the end
		default:
			f.Lines = append(f.Lines, lineView{"same", now, line})
			old, now, oldLeft, nowLeft = old+1, now+1, oldLeft-1, nowLeft-1
		}
	}
	return files
}

func count(s string) int {
	if s == "" {
		return 1
	}
	return atoi(s)
}

// pathOf takes the new path out of "a/x b/x", quoted or not.
func pathOf(names string) string {
	if at := strings.LastIndex(names, ` "b/`); at >= 0 {
		if plain, err := strconv.Unquote(names[at+1:]); err == nil {
			return strings.TrimPrefix(plain, "b/")
		}
	}
	if at := strings.LastIndex(names, " b/"); at >= 0 {
		return names[at+len(" b/"):]
	}
	return names
}
