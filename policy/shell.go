package policy

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	workspace   = "/workspace" // where a command starts unless it says otherwise
	maxScript   = 16 << 10     // bytes; longer ones ask
	maxWrapping = 2            // shells within shells
)

// script judges a shell script: every simple command in it, wherever it stands,
// must be known to only read. What the parser does not understand, and what could
// change the meaning of a later command (assignments, functions, loops), asks.
func (r ToolRules) script(src string, depth int) Tree {
	switch {
	case len(src) > maxScript:
		return leaf(Ask, "longer than nod judges by itself")
	case strings.ContainsFunc(src, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }):
		return leaf(Ask, "holds control characters")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		return leaf(Ask, "does not parse as a shell command")
	}
	s := &shellJudge{rules: r, depth: depth}
	s.stmts(file.Stmts)
	if len(s.found) == 0 {
		return leaf(Ask, "no command")
	}
	return because("shell command", s.found...)
}

// shellJudge collects one leaf for each simple command, and one for each thing
// that asks.
type shellJudge struct {
	rules ToolRules
	depth int
	found []Tree
}

func (s *shellJudge) ask(why string) { s.found = append(s.found, leaf(Ask, why)) }

func (s *shellJudge) stmts(all []*syntax.Stmt) {
	for _, st := range all {
		s.stmt(st)
	}
}

func (s *shellJudge) stmt(st *syntax.Stmt) {
	if st.Background || st.Coprocess || st.Disown {
		s.ask("leaves a process in the background")
	}
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		s.call(c)
	case *syntax.BinaryCmd:
		s.stmt(c.X)
		s.stmt(c.Y)
	case *syntax.Subshell:
		s.stmts(c.Stmts)
	case *syntax.Block:
		s.stmts(c.Stmts)
	case nil:
		s.ask("redirects without a command")
	default:
		s.ask("uses more of the shell than pipelines and lists")
	}
}

func (s *shellJudge) call(c *syntax.CallExpr) {
	if len(c.Assigns) > 0 {
		s.ask("sets a variable")
	}
	if len(c.Args) == 0 {
		return
	}
	argv := make([]string, len(c.Args))
	fixed := true
	for i, w := range c.Args {
		s.parts(w.Parts)
		word, ok := static(w)
		argv[i] = word
		fixed = fixed && ok
	}
	name, ok := static(c.Args[0])
	switch {
	case !ok:
		s.ask("the name of a command is not plain")
	case fixed:
		s.found = append(s.found, s.rules.simple(argv, s.depth))
	case readsWhateverItIsTold(name):
		s.found = append(s.found, leaf(Auto, quote(name)+" only reads"))
	default:
		s.ask(quote(name) + " with arguments that are not known beforehand")
	}
}

// parts judges what is expanded inside a word.
func (s *shellJudge) parts(parts []syntax.WordPart) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if p.Dollar {
				s.ask("uses a translated string")
			}
			s.parts(p.Parts)
		case *syntax.ParamExp:
			if !plainParam(p) {
				s.ask("uses a parameter expansion that may do more than read")
			}
		case *syntax.CmdSubst:
			if p.TempFile || p.ReplyVar {
				s.ask("uses more of the shell than pipelines and lists")
			}
			s.stmts(p.Stmts)
		case *syntax.ProcSubst:
			if p.Op != syntax.CmdIn {
				s.ask("writes into a process")
			}
			s.stmts(p.Stmts)
		default: // arithmetic evaluates what variables hold; extended globs
			s.ask("uses an expansion that may do more than read")
		}
	}
}

func plainParam(p *syntax.ParamExp) bool {
	return p.Param != nil && p.NestedParam == nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.Split == syntax.OptUnset && p.GlobSubst == syntax.OptUnset && p.RcExpand == syntax.OptUnset &&
		p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

func (s *shellJudge) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		s.ask("sets a variable")
	}
	s.parts(r.Word.Parts)
	if r.Hdoc != nil {
		s.parts(r.Hdoc.Parts)
	}
	target, ok := static(r.Word)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
	case syntax.RdrIn:
		if !ok || strings.Contains(target, "/dev/") && target != "/dev/null" {
			s.ask("reads from a place that is not known or may be a connection")
		}
	case syntax.DplIn, syntax.DplOut:
		if !ok || target == "" || strings.Trim(target, "0123456789") != "" {
			s.ask("redirects into a file")
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll:
		if !ok || target != "/dev/null" {
			s.ask("redirects into a file")
		}
	default:
		s.ask("redirects into a file")
	}
}

// static returns the value of a word that is the same whatever the shell's
// variables and the directory hold.
func static(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\*?[]{}") || strings.HasPrefix(p.Value, "~") {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(lit.Value, "\\") {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// simple judges one command whose words are known. A shell that is given a script
// is judged by that script.
func (r ToolRules) simple(argv []string, depth int) Tree {
	name, args := argv[0], argv[1:]
	switch name {
	case "bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh":
		if len(args) != 2 || args[0] != "-c" && args[0] != "-lc" {
			return leaf(Ask, quote(name)+" with anything but one script")
		}
		if depth >= maxWrapping {
			return leaf(Ask, "too many shells within shells")
		}
		return r.script(args[1], depth+1)
	}
	for _, words := range r.allow {
		if matches(words, argv) {
			return leaf(Auto, quote(strings.Join(argv, " "))+" is allowed by the configuration")
		}
	}
	rule, ok := readOnly[name]
	if !ok {
		return leaf(Ask, quote(name)+" is not known to only read")
	}
	if why := rule(args); why != "" {
		return leaf(Ask, quote(name)+" "+why)
	}
	return leaf(Auto, quote(name)+" only reads")
}

// matches reports whether argv is what words allow: the same words, and any more
// when the last of words is "*".
func matches(words, argv []string) bool {
	last := len(words) - 1
	open := words[last] == "*"
	if open {
		words = words[:last]
	}
	if len(argv) < len(words) || !open && len(argv) > len(words) {
		return false
	}
	for i, w := range words {
		if argv[i] != w {
			return false
		}
	}
	return true
}

// allowWords compiles one allow rule.
func allowWords(line string) ([]string, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil, errors.New("is empty")
	case words[0] == "*":
		return nil, errors.New("allows everything; choose the tool preset in-box if that is meant")
	}
	for i, w := range words {
		if w == "*" && i == len(words)-1 {
			continue
		}
		if strings.ContainsAny(w, "*?[]{}~$`'\"\\;&|<>()!#") {
			return nil, fmt.Errorf("%s is not a plain word; only the last may be *", quote(w))
		}
	}
	return words, nil
}
