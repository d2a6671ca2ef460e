package egress

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func TestRulesAreExactHostsOrPins(t *testing.T) {
	for in, want := range map[string]Rule{
		"api.example.com":                         {Host: "api.example.com", Port: 443},
		"API.example.com.":                        {Host: "api.example.com", Port: 443},
		"api.example.com:8443":                    {Host: "api.example.com", Port: 8443},
		"api.example.com:443=127.0.0.1:9000":      {Host: "api.example.com", Port: 443, Upstream: "127.0.0.1:9000"},
		"gateway:443=[::1]:9000":                  {Host: "gateway", Port: 443, Upstream: "[::1]:9000"},
		"api.example.com:443=[2606:4700::1]:8443": {Host: "api.example.com", Port: 443, Upstream: "[2606:4700::1]:8443"},
	} {
		got, err := ParseRule(in)
		if err != nil {
			t.Errorf("ParseRule(%q): %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseRule(%q) (-want +got):\n%s", in, diff)
		}
		again, err := ParseRule(got.String())
		if err != nil || again != got {
			t.Errorf("ParseRule(%q) = %v, %v; want %v", got.String(), again, err, got)
		}
	}
	for _, in := range []string{
		"", ".", ":443", "*.example.com", "*", "https://example.com", "example.com/x", "user@example.com", "bücher.example",
		"127.0.0.1", "127.0.0.1:443", "[::1]:443", "::1", "0x7f.1", "10.0.0.0/8", "localhost", "localhost:8080",
		"example.com:", "example.com:0", "example.com:65536", "example.com:https", "example.com:443:443",
		"example.com=127.0.0.1:1", "example.com:443=", "example.com:443=localhost:1", "example.com:443=127.0.0.1",
		"example.com:443=127.0.0.1:0", "example.com:443=0.0.0.0:1", "example.com:443=[fe80::1%lo]:1", "example.com:443=::1:1",
	} {
		if r, err := ParseRule(in); nod.CodeOf(err) != nod.Invalid || err == nil {
			t.Errorf("ParseRule(%q) = %v, %v; want an Invalid error", in, r, err)
		}
	}
}

func TestOneBadRuleRefusesThePolicy(t *testing.T) {
	for name, rules := range map[string][]Rule{
		"address":       {{Host: "example.com"}, {Host: "10.0.0.1"}},
		"wildcard":      {{Host: "*.example.com"}},
		"negative port": {{Host: "example.com", Port: -1}},
		"large port":    {{Host: "example.com", Port: 1 << 16}},
		"two upstreams": {{Host: "example.com"}, {Host: "EXAMPLE.com", Port: 443, Upstream: "127.0.0.1:1"}},
	} {
		if p, err := NewPolicy(rules); err == nil || p != nil || nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: NewPolicy = %v, %v; want an Invalid error", name, p, err)
		}
	}
}

func TestNoPolicyDeniesEverything(t *testing.T) {
	empty, err := NewPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Policy{"nil": nil, "zero": {}, "empty": empty} {
		if _, ok := p.permits(target{"example.com", 443}); ok {
			t.Errorf("%s policy permits", name)
		}
	}
}

func TestAllowlistIsExact(t *testing.T) {
	p, err := NewPolicy([]Rule{{Host: "api.example.com"}, {Host: "git.example.com", Port: 8443}, {Host: "api.example.com", Port: 443}})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[target]bool{
		{"api.example.com", 443}:   true,
		{"git.example.com", 8443}:  true,
		{"api.example.com", 80}:    false,
		{"git.example.com", 443}:   false,
		{"example.com", 443}:       false,
		{"x.api.example.com", 443}: false,
		{"xapi.example.com", 443}:  false,
		{"api.example.co", 443}:    false,
	} {
		if _, ok := p.permits(k); ok != want {
			t.Errorf("permits(%v) = %v; want %v", k, ok, want)
		}
	}
}
