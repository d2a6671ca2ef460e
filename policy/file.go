package policy

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// pathFields are where the file tools name a file or a directory.
var pathFields = []string{"file_path", "notebook_path", "path"}

// Links says where paths lead once links are followed, by the path without them. A
// path that is not in it is taken as it is; one that leads nowhere nod can tell is "".
type Links map[string]string

// Paths are the absolute paths in an environment that a call of a file tool names,
// links not followed.
func Paths(tool string, input json.RawMessage) []string {
	if !slices.Contains(readers, tool) {
		return nil
	}
	fields, err := object(input)
	if err != nil {
		return nil
	}
	paths, _ := named(tool, fields)
	return paths
}

// named are the paths that fields name; false when one of them is not understood.
func named(tool string, fields map[string]json.RawMessage) (paths []string, ok bool) {
	for _, name := range pathFields {
		raw, given := fields[name]
		if !given || string(raw) == "null" {
			continue
		}
		p, ok := absolute(raw, "")
		if !ok {
			return nil, false
		}
		paths = append(paths, p)
	}
	for _, name := range []string{"pattern", "glob"} {
		raw, given := fields[name]
		if !given || name == "pattern" && tool != "Glob" {
			continue
		}
		base := workspace
		if len(paths) > 0 {
			base = paths[0]
		}
		p, ok := absolute(raw, base)
		if !ok {
			return nil, false
		}
		paths = append(paths, p)
	}
	return paths, true
}

// absolute resolves a path that input names; with a base it is a pattern below it,
// of which only what stands before the first wildcard is certain.
func absolute(raw json.RawMessage, base string) (string, bool) {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == "" || strings.ContainsAny(s, "\x00") || strings.HasPrefix(s, "~") {
		return "", false
	}
	if base != "" {
		if i := strings.IndexAny(s, "*?[{"); i >= 0 {
			if strings.Contains(s[i:], "..") {
				return "", false
			}
			s = s[:strings.LastIndexByte(s[:i], '/')+1]
		}
	} else {
		base = workspace
	}
	if !path.IsAbs(s) {
		s = base + "/" + s
	}
	return path.Clean(s), true
}

// reader judges a tool that only reads: by itself it goes on where everything that it
// names lies in the workspace, links followed.
func (l Links) reader(tool string, fields map[string]json.RawMessage) Tree {
	paths, ok := named(tool, fields)
	if !ok {
		return leaf(Ask, "names a path that is not understood")
	}
	for _, p := range paths {
		leads, known := l[p]
		if !known {
			leads = p
		}
		if leads != workspace && !strings.HasPrefix(leads, workspace+"/") {
			return leaf(Ask, "reads "+quote(p)+", outside "+workspace)
		}
	}
	return leaf(Auto, "only reads inside "+workspace)
}
