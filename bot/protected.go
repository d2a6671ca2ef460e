package bot

import (
	"path"
	"slices"
	"strings"

	"nod"
)

// ProtectedDefaults are the paths that decide how a repository is built, released or
// guarded: a change to one is named to whoever is asked.
var ProtectedDefaults = []string{
	".github/workflows/**", ".github/actions/**", ".github/dependabot.yml", ".gitlab-ci.yml",
	"**/CODEOWNERS", "**/.gitattributes", ".gitmodules", "**/.npmrc", "**/.pypirc",
	"**/go.sum", "**/package-lock.json", "**/npm-shrinkwrap.json", "**/yarn.lock", "**/pnpm-lock.yaml", "**/bun.lock", "**/Cargo.lock",
	"**/poetry.lock", "**/uv.lock", "**/Pipfile.lock", "**/Gemfile.lock", "**/composer.lock", "**/gradle.lockfile", "**/flake.lock",
	".envrc", ".vscode/**", ".idea/**", ".devcontainer/**",
}

// Protection is what is done about protected files.
type Protection struct {
	Paths  []string // patterns; nil takes ProtectedDefaults
	Forbid bool     // a result that touches one is refused instead of named
}

// ValidPattern reports whether p can be a pattern of Protection: slash-separated,
// each part as path.Match takes it, or ** for any number of parts.
func ValidPattern(p string) bool {
	_, err := path.Match(strings.ReplaceAll(p, "**", "*"), "")
	return err == nil && p != "" && p[0] != '/' && !slices.Contains(strings.Split(p, "/"), "")
}

func (p Protection) paths() []string {
	if p.Paths == nil {
		return ProtectedDefaults
	}
	return p.Paths
}

// touched returns the protected paths among files, sorted. Case does not matter:
// some file systems have none.
func (p Protection) touched(files []nod.FileChange) []string {
	patterns := p.paths()
	var hit []string
	for _, f := range files {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, f.Path) }) {
			hit = append(hit, f.Path)
		}
	}
	slices.Sort(hit)
	return hit
}

func matches(pattern, name string) bool {
	return matchParts(strings.Split(strings.ToLower(pattern), "/"), strings.Split(strings.ToLower(name), "/"))
}

func matchParts(pattern, parts []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for n := range len(parts) + 1 {
				if matchParts(pattern[1:], parts[n:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], parts[0]); err != nil || !ok {
			return false
		}
		pattern, parts = pattern[1:], parts[1:]
	}
	return len(parts) == 0
}
