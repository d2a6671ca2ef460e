package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
)

func TestKnownTokenFormatsAreTakenOut(t *testing.T) {
	r, err := newRedactor(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{
		"ghp_" + strings.Repeat("a1B2", 9), "gho_" + strings.Repeat("a1B2", 9), "ghu_" + strings.Repeat("a1B2", 9),
		"ghs_" + strings.Repeat("a1B2", 9), "ghr_" + strings.Repeat("a1B2", 9), "github_pat_" + strings.Repeat("a1_B2", 16),
		"sk-ant-api03-" + strings.Repeat("aB1-_", 18), "sk-proj-" + strings.Repeat("aB1", 16), "sk-" + strings.Repeat("aB1", 16),
		"tk_" + strings.Repeat("a", 29), "xoxb-1234567890-abcdef", "xapp-1-A1234567890", "AKIA" + strings.Repeat("A2", 8), "ASIA" + strings.Repeat("A2", 8),
		"AIza" + strings.Repeat("a", 35), "npm_" + strings.Repeat("a1", 18), "glpat-" + strings.Repeat("a1", 10),
		"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjM0NSJ9." + strings.Repeat("a-_", 20),
		base64.StdEncoding.EncodeToString([]byte("x-access-token:whatever")),
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA", // cut short
	} {
		for _, around := range []string{"%", "a %", "a\n% b", "token=% ", `"%"`, "(%)", "x:%@host"} {
			text := strings.ReplaceAll(around, "%", token)
			if got := r.text(text); strings.Contains(got, token) || !strings.Contains(got, mark) {
				t.Errorf("text %q became %q", text, got)
			}
			raw, err := json.Marshal(map[string]string{"text": text})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.json(raw); bytes.Contains(got, []byte(token)) || !bytes.Contains(got, []byte(mark)) || !json.Valid(got) {
				t.Errorf("JSON %s became %s", raw, got)
			}
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	r, err := newRedactor([]nod.Secret{nod.NewSecret("a-registered-secret")})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", "task-scheduler-for-everything-we-do-here", "risk-assessment-of-the-whole-project", "scikit: sk-learn-contrib", "the ghp_ prefix", "disk-utilisation",
		strings.Repeat("a1b2c3d4", 5), "sha256:" + strings.Repeat("0a", 32), "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
		"AKIAlowercase", "eyJhbGciOiJSUzI1NiJ9", `{"a": "\u0041\n", "b": [1, 2.50, true, null]}`,
	} {
		if got := r.text(text); got != text {
			t.Errorf("text %q became %q", text, got)
		}
		if got := string(r.json([]byte(text))); got != text {
			t.Errorf("JSON %q became %q", text, got)
		}
	}
}

func TestPrivateKeyIsTakenOutLineByLine(t *testing.T) {
	line := strings.Repeat("MIIEowIBAAKCAQEA", 4)
	r, err := newRedactor([]nod.Secret{nod.NewSecret("-----BEGIN RSA PRIVATE KEY-----\n" + line + "\nshort\n-----END RSA PRIVATE KEY-----\n")})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.text("debug: " + line + " end, short"); got != "debug: "+mark+" end, short" {
		t.Errorf("became %q", got)
	}
}

// TestRegisteredSecretIsTakenOutInEveryForm: whatever stands around it.
func TestRegisteredSecretIsTakenOutInEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9+/=&"<> äé'\\-]{12,40}`).Filter(func(s string) bool {
			return strings.TrimSpace(s) == s && !strings.Contains(mark, s)
		}).Draw(t, "secret")
		before, after := rapid.StringN(0, 20, -1).Draw(t, "before"), rapid.StringN(0, 20, -1).Draw(t, "after")
		r, err := newRedactor([]nod.Secret{nod.NewSecret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{before + secret + after, url.QueryEscape(before + secret + after), url.PathEscape(secret)} {
			got := r.text(form)
			if strings.Contains(got, secret) || !strings.Contains(got, mark) {
				t.Fatalf("%q became %q", form, got)
			}
			if again := r.text(got); again != got {
				t.Fatalf("%q became %q when redacted again", got, again)
			}
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if got := r.text(enc.EncodeToString([]byte(before + secret + after))); !strings.Contains(got, mark) {
				t.Fatalf("base64 was left as %q", got)
			}
		}
		nested, err := json.Marshal(before + secret + after)
		if err != nil {
			t.Fatal(err)
		}
		outer, err := json.Marshal(map[string]any{"log": string(nested), "list": []string{secret}, secret: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range [][]byte{nested, outer} {
			got := r.json(raw)
			var back any
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatalf("%s became %s: %v", raw, got, err)
			}
			if !bytes.Contains(got, []byte(mark)) || bytes.Contains(got, nested[1:len(nested)-1]) && before+after == "" {
				t.Fatalf("%s became %s", raw, got)
			}
		}
	})
}

// FuzzRedactJSON: what was JSON stays JSON, and a second pass changes nothing.
func FuzzRedactJSON(f *testing.F) {
	r, err := newRedactor([]nod.Secret{nod.NewSecret("hunter2hunter2"), nod.NewSecret(`qu"ote\d-secret`)})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{`{"a":"hunter2hunter2"}`, `"\u0068unter2hunter2"`, `["\\\"",{"k":"ghp_aaaaaaaaaaaaaaaaaaaaaaaa"}]`, `"\n\u0000hunter2hunter2\ud800"`, `12`, `nope "`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		got := r.json(raw)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the input was changed")
		}
		if json.Valid(raw) && !json.Valid(got) {
			t.Fatalf("%s became %s", raw, got)
		}
		if bytes.Contains(got, []byte("hunter2hunter2")) {
			t.Fatalf("%s became %s", raw, got)
		}
		if again := r.json(got); json.Valid(raw) && !bytes.Equal(again, got) {
			t.Fatalf("%s became %s, then %s", raw, got, again)
		}
	})
}
