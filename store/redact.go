package store

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"nod"
)

// MinSecret is the shortest secret that can be registered, in bytes.
const MinSecret = 6

// mark stands where a secret was. It is what nod.Secret prints as.
var mark = nod.Secret{}.String()

// minLine is how long a line of a registered secret must be to count by itself: a
// private key may leave line by line.
const minLine = 20

// redactor takes secrets out of text before it is written.
type redactor struct {
	needles []string // longest first
	replace *strings.Replacer
	formats []format
}

// format is a kind of token that is known by its look. A text without any of
// hints is not searched.
type format struct {
	hints []string
	re    *regexp.Regexp // group 1 is what stands before the token
}

// formats lists token formats as their issuers document them: GitHub's, ntfy's
// access tokens, the keys of the two agents' vendors, and what developers' logs
// leak most.
func formats() []format {
	with := func(pattern string, hints ...string) format {
		return format{hints, regexp.MustCompile(pattern)}
	}
	const start = `(^|[^A-Za-z0-9])`
	return []format{
		with(`()-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`, "PRIVATE KEY"),
		with(`()gh[pousr]_[A-Za-z0-9_]{20,}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		with(`()github_pat_[A-Za-z0-9_]{20,}`, "github_pat_"),
		with(`()eC1hY2Nlc3MtdG9rZW46[A-Za-z0-9+/=_-]+`, "eC1hY2Nlc3MtdG9rZW46"), // base64 of "x-access-token:"
		with(start+`nod-run-[A-Z2-7]{20,}`, "nod-run-"),                         // the model gateway's own
		with(start+`sk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}`, "sk-"),
		with(start+`sk-[A-Za-z0-9]{20,}`, "sk-"),
		with(start+`tk_[a-z0-9]{29}`, "tk_"),
		with(start+`xox[abeoprs]-[A-Za-z0-9-]{10,}`, "xox"),
		with(start+`xapp-[A-Za-z0-9-]{10,}`, "xapp-"),
		with(start+`(?:AKIA|ASIA)[A-Z0-9]{16}`, "AKIA", "ASIA"),
		with(start+`AIza[A-Za-z0-9_-]{35}`, "AIza"),
		with(start+`npm_[A-Za-z0-9]{36}`, "npm_"),
		with(start+`glpat-[A-Za-z0-9_-]{20,}`, "glpat-"),
		with(start+`eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`, "eyJ"),
	}
}

func newRedactor(secrets []nod.Secret) (*redactor, error) {
	r := &redactor{formats: formats()}
	for _, s := range secrets {
		if s.Empty() {
			continue
		}
		value := strings.TrimSpace(s.Reveal())
		if len(value) < MinSecret {
			return nil, nod.E(nod.Invalid, "a secret is too short to be told from other text", nil)
		}
		r.needles = append(r.needles, forms(value)...)
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			for _, line := range lines {
				if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
					r.needles = append(r.needles, forms(line)...)
				}
			}
		}
	}
	slices.SortFunc(r.needles, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.needles = slices.Compact(r.needles)
	pairs := make([]string, 0, 2*len(r.needles))
	for _, n := range r.needles {
		pairs = append(pairs, n, mark)
	}
	r.replace = strings.NewReplacer(pairs...)
	return r, nil
}

// forms returns the ways in which a secret is written.
func forms(value string) []string {
	all := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if quoted, err := json.Marshal(value); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err == nil {
		quoted := strings.TrimSuffix(plain.String(), "\n")
		all = append(all, quoted[1:len(quoted)-1])
	}
	// Inside a longer base64 text a secret starts at any of three offsets. The
	// characters that also hold bits of its neighbours are left out of the needle.
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			coded := enc.EncodeToString(append(make([]byte, offset), value...))
			from, to := (offset*8+5)/6, (offset+len(value))*8/6
			if to-from >= MinSecret {
				all = append(all, coded[from:to])
			}
		}
	}
	return all
}

// registered takes the registered secrets out of s.
func (r *redactor) registered(s string) string {
	for _, n := range r.needles {
		if strings.Contains(s, n) {
			return r.replace.Replace(s)
		}
	}
	return s
}

// text takes every secret out of s: the registered ones and what looks like one.
func (r *redactor) text(s string) string {
	s = r.registered(s)
	for _, f := range r.formats {
		for _, h := range f.hints {
			if strings.Contains(s, h) {
				s = f.re.ReplaceAllString(s, "${1}"+mark)
				break
			}
		}
	}
	return s
}

// json takes every secret out of the strings of a valid JSON text and leaves its
// other bytes as they are. What is not valid JSON is treated as text.
func (r *redactor) json(raw []byte) []byte { return redactJSON(raw, r.text) }

// payload takes the registered secrets out of a delivery's body.
func (r *redactor) payload(raw []byte) []byte { return redactJSON(raw, r.registered) }

// redactJSON applies redact to each string of raw as decoded: a token right
// behind an escape such as \n is not seen in the raw bytes.
func redactJSON(raw []byte, redact func(string) string) []byte {
	if !json.Valid(raw) {
		return []byte(redact(string(raw)))
	}
	var out []byte // nil until something differs
	kept := 0      // raw[:kept] is in out
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, escaped := i+1, false
		for raw[end] != '"' {
			if raw[end] == '\\' {
				escaped = true
				end++
			}
			end++
		}
		literal := raw[i : end+1]
		value := string(literal[1 : len(literal)-1])
		if escaped {
			var decoded string
			if json.Unmarshal(literal, &decoded) == nil {
				value = decoded
			}
		}
		if clean := redact(value); clean != value {
			quoted, err := json.Marshal(clean)
			if err != nil { // a string always has a JSON form
				quoted = []byte(`"` + mark + `"`)
			}
			out = append(append(out, raw[kept:i]...), quoted...)
			kept = end + 1
		}
		i = end
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}
