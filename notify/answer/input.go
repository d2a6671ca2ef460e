package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"nod"
)

// material is what a decision is about, whole, and proven to be what the answer
// will be bound to.
type material struct {
	Input    string // empty for a review without one
	Diff     string // reviews only
	Revision nod.Revision
	Case     nod.Case
}

// shown reads all that d is about and compares it with the digests that an answer
// would sign. Anything missing or different is an error: then nothing may be
// allowed here.
func (s *Server) shown(ctx context.Context, d nod.Decision) (material, error) {
	var m material
	var err error
	if m.Case, err = s.decisions.Case(ctx, d.Task); err != nil {
		return m, err
	}
	if d.InputDigest != "" {
		if m.Input, err = s.proven(ctx, d.InputDigest); err != nil {
			return m, err
		}
	}
	if d.Kind != nod.Review {
		return m, nil
	}
	if m.Case.Revision == nil || m.Case.Revision.SHA != d.CommitSHA {
		return m, nod.E(nod.Conflict, "the result is not the one that was asked about any more", nil)
	}
	m.Revision = *m.Case.Revision
	if m.Diff, err = s.proven(ctx, m.Revision.DiffDigest); d.InputDigest == m.Revision.DiffDigest {
		m.Input = "" // the diff itself, shown as one
	}
	return m, err
}

// proven returns the blob under digest after computing that digest anew.
func (s *Server) proven(ctx context.Context, digest string) (string, error) {
	b, err := s.decisions.Blob(ctx, digest)
	if nod.CodeOf(err) == nod.NotFound {
		return "", nod.E(nod.Conflict, "what was asked about is not stored any more", err)
	}
	if err != nil {
		return "", err
	}
	if nod.Digest(b) != digest {
		return "", nod.E(nod.Conflict, "what is stored is not what was asked about, perhaps because a secret was taken out", nil)
	}
	return string(b), nil
}

// block is a labelled piece of untrusted text.
type block struct {
	Label string
	Prose bool // set as prose; otherwise monospaced, in logical order
	Short bool // a number or the like, beside its label
	Spans []span
}

func code(label, text string) block { return block{Label: label, Spans: visible(text)} }

// blocks lays the input of d out for reading. Everything in it is shown: known
// fields first, whatever else there is after them. What is not one plain JSON
// object, with each key once, is shown as the text it is.
func blocks(d nod.Decision, input string) []block {
	if d.Cause == nod.CauseUntrustedStart {
		if b := snapshotBlocks(input); b != nil {
			return b
		}
		return []block{{Spans: hiddenOnGitHub(input)}}
	}
	fields, ok := object(input)
	if !ok {
		return []block{code("", indented(input))}
	}
	var out []block
	take := func(label, key string) {
		for i, f := range fields {
			if text, isText := f.text(); f.key == key && isText {
				out = append(out, code(label, text))
				fields = slices.Delete(fields, i, i+1)
				return
			}
		}
	}
	switch {
	case d.Cause == nod.CauseTool && d.Subject == "Bash":
		take("", "command")
		if len(out) == 1 {
			take("the agent’s description of it", "description")
			out[len(out)-1].Prose = len(out) == 2
		}
	case d.Cause == nod.CauseTool:
		take("file", "file_path")
		take("content", "content")
		take("replaces", "old_string")
		take("with", "new_string")
		take("address", "url")
	case d.Cause == nod.CausePlan:
		take("", "plan")
	}
	if len(out) == 0 {
		return []block{code("", indented(input))}
	}
	for _, f := range fields {
		if text, isText := f.text(); isText {
			out = append(out, code(f.key, text))
		} else {
			b := code(f.key, indented(string(f.raw)))
			b.Short = len(f.raw) < 40 && f.raw[0] != '{' && f.raw[0] != '['
			out = append(out, b)
		}
	}
	return out
}

type field struct {
	key string
	raw json.RawMessage
}

// text returns the string that f holds. One that JSON readers disagree on, because
// of half a surrogate pair, is not taken for text.
func (f field) text() (string, bool) {
	var s *string
	if json.Unmarshal(f.raw, &s) != nil || s == nil {
		return "", false
	}
	if strings.ContainsRune(*s, utf8.RuneError) && !strings.ContainsRune(string(f.raw), utf8.RuneError) {
		return "", false
	}
	return *s, true
}

// object splits a JSON object into its fields, in order. It is not ok when text is
// anything else, holds a key twice, or has something after it: readers differ on
// what such a thing means.
func object(text string) (fields []field, ok bool) {
	if !utf8.ValidString(text) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		key, isKey := t.(string)
		if err != nil || !isKey || seen[key] {
			return nil, false
		}
		seen[key] = true
		f := field{key: key}
		if err := d.Decode(&f.raw); err != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	return fields, true
}

// indented indents JSON without changing any value; other text stays as it is.
func indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		return text
	}
	return b.String()
}

// snapshotBlocks lays out a frozen issue, or returns nil when input is not one.
func snapshotBlocks(input string) []block {
	var s nod.Snapshot
	d := json.NewDecoder(strings.NewReader(input))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil || s.Repo.Name == "" {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	by := func(what string, st nod.Standing) string {
		return what + " by " + st.Actor.Show() + ", " + string(st.Tier)
	}
	var out []block
	if s.Changed != "" {
		out = append(out, block{Label: "changed since the label was set (− before, + now)", Spans: hiddenOnGitHub(s.Changed)})
	}
	out = append(out, []block{
		{Label: by("title", s.Author), Prose: true, Spans: visible(s.Title)},
		{Label: by("body", s.Author), Spans: hiddenOnGitHub(s.Body)},
	}...)
	if s.Labeller.Actor.Kind != "" {
		out = append(out, block{Label: "labelled by", Short: true, Spans: visible(s.Labeller.Actor.Show() + ", " + string(s.Labeller.Tier))})
	}
	for _, c := range s.Comments {
		out = append(out, block{Label: by("comment", c.Author), Spans: hiddenOnGitHub(c.Body)})
	}
	return out
}
