package policy

import (
	"slices"
	"strings"
)

// A readRule returns why a command with these arguments may do more than read, or
// nothing.
type readRule func(args []string) string

// whatever is the rule of commands that only read, however they are called. Their
// arguments need not even be known.
func whatever([]string) string { return "" }

// plainReaders write nothing, start nothing and change no state of the
// shell under any argument of their GNU, BSD or BusyBox forms.
var plainReaders = []string{
	":", "basename", "cat", "cmp", "comm", "cut", "df", "diff", "dirname", "du", "echo", "egrep", "false", "fgrep", "fold", "grep",
	"head", "id", "ls", "md5sum", "nl", "od", "paste", "pwd", "readlink", "realpath", "rev", "seq", "sha1sum", "sha256sum",
	"sha512sum", "stat", "tac", "tail", "tr", "true", "uname", "wc", "which", "whoami",
}

// readOnly is the allow list of "balanced". Commands that can also write have a
// rule that names what they may be given, never what they may not, except git's,
// whose options are too many.
var readOnly = func() map[string]readRule {
	rules := map[string]readRule{
		"cd": func(args []string) string { return only(len(args) == 1 && args[0] == workspace, "leaves "+workspace) },
		"date": func(args []string) string {
			return each(args, func(a string) bool { return strings.HasPrefix(a, "+") || a == "-u" })
		},
		"file": options("bikLhs", "--mime-type", "--mime", "--brief"),
		"find": find,
		"git":  git,
		"go": func(args []string) string {
			return only(slices.Equal(args, []string{"version"}), "does more than tell its version")
		},
		"printf": func(args []string) string {
			return only(len(args) > 0 && !strings.HasPrefix(args[0], "-"), "takes an option")
		},
		"rg":   options("nilwvcFHShIegtTm0123456789ABC", "--files", "--hidden", "--no-heading", "--line-number", "--ignore-case", "--count", "--files-with-matches", "--fixed-strings"),
		"sed":  sed,
		"sort": options("bdfghiMnRrVuzsckt0123456789,.", "--reverse", "--unique", "--numeric-sort", "--human-numeric-sort", "--version-sort", "--ignore-case"),
		"uniq": uniq,
		"tree": options("adfshpLI", "--dirsfirst", "--noreport"),
	}
	for _, name := range plainReaders {
		rules[name] = whatever
	}
	return rules
}()

// readsWhateverItIsTold reports whether name only reads under any arguments.
func readsWhateverItIsTold(name string) bool { return slices.Contains(plainReaders, name) }

func only(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

func each(args []string, ok func(string) bool) string {
	for _, a := range args {
		if !ok(a) {
			return "is given " + quote(a)
		}
	}
	return ""
}

// options allows clusters of the short options and exactly the long ones, and any
// operand.
func options(short string, long ...string) readRule {
	return func(args []string) string {
		return each(args, func(a string) bool {
			switch {
			case !strings.HasPrefix(a, "-") || a == "-" || a == "--":
				return true
			case strings.HasPrefix(a, "--"):
				return slices.Contains(long, a)
			default:
				return strings.Trim(a[1:], short) == ""
			}
		})
	}
}

// uniq allows one operand: a second one is written.
func uniq(args []string) string {
	operands := 0
	for _, a := range args {
		if !strings.HasPrefix(a, "-") || a == "-" {
			operands++
		}
	}
	return only(operands <= 1 && !slices.Contains(args, "--"), "may be given a file to write")
}

var findTests = []string{
	"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype", "-size", "-empty", "-mtime", "-mmin", "-newer",
	"-perm", "-user", "-group", "-links", "-readable", "-writable", "-executable", "-maxdepth", "-mindepth", "-depth", "-prune", "-not", "-a", "-and", "-o", "-or",
	"-print", "-print0", "-printf", "-ls", "-quit", "-true", "-false", "-follow", "-xdev", "-mount", "-L", "-P", "-H",
}

// find allows the tests and actions that only read.
func find(args []string) string {
	return each(args, func(a string) bool { return !strings.HasPrefix(a, "-") || a == "-" || slices.Contains(findTests, a) })
}

// sed allows printing of lines by number.
func sed(args []string) string {
	if len(args) < 2 || args[0] != "-n" {
		return "does more than print lines by number"
	}
	from, to, _ := strings.Cut(strings.TrimSuffix(args[1], "p"), ",")
	number := func(s string) bool { return s == "$" || s != "" && strings.Trim(s, "0123456789") == "" }
	if !strings.HasSuffix(args[1], "p") || !number(from) || strings.Contains(args[1], ",") && !number(to) {
		return "does more than print lines by number"
	}
	return each(args[2:], func(a string) bool { return !strings.HasPrefix(a, "-") })
}

// gitReads are the subcommands that only read. Those with a value take nothing but
// the options in it.
var gitReads = map[string][]string{
	"blame": nil, "cat-file": nil, "describe": nil, "diff": nil, "grep": nil, "log": nil, "ls-files": nil, "ls-tree": nil,
	"merge-base": nil, "name-rev": nil, "rev-list": nil, "rev-parse": nil, "shortlog": nil, "show": nil, "status": nil,
	"branch": {"-a", "--all", "-r", "--remotes", "-v", "-vv", "--list", "--show-current"},
	"remote": {"-v", "--verbose"},
	"stash":  {"list"},
	"tag":    {"-l", "--list"},
}

// gitWrites are the options of those subcommands that write or start a program.
// git takes an option by any of its beginnings.
var gitWrites = []string{"--output", "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--show-signature", "--output-directory"}

// git allows subcommands that only read, without options before them: -C, -c and
// --git-dir choose another configuration, and a configuration can name programs.
func git(args []string) string {
	if len(args) == 0 {
		return "without a subcommand"
	}
	some, ok := gitReads[args[0]]
	if !ok {
		return quote(args[0]) + " is not known to only read"
	}
	if args[0] == "stash" && len(args) != 2 {
		return "stash does more than list"
	}
	return each(args[1:], func(a string) bool {
		if some != nil {
			return slices.Contains(some, a)
		}
		option, _, _ := strings.Cut(a, "=")
		switch {
		case strings.Contains(a, "%G"): // formats that have a signature checked
			return false
		case strings.HasPrefix(a, "--") && len(a) > 2:
			return !slices.ContainsFunc(gitWrites, func(w string) bool { return strings.HasPrefix(w, option) || strings.HasPrefix(option, w) })
		case strings.HasPrefix(a, "-O"): // grep: opens a pager
			return args[0] != "grep"
		case strings.HasPrefix(a, "-") && args[0] == "grep": // -O may stand in a cluster
			return !strings.Contains(a, "O")
		}
		return true
	})
}
