package nod_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"nod"
)

func TestSecretNeverPrints(t *testing.T) {
	s := nod.NewSecret("hunter2")
	raw, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s)
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%v %s %q %x %#v %d", s, s, s, s, s, s), string(raw), log.String()} {
		if strings.Contains(out, "hunter2") || strings.Contains(out, "68756e746572") {
			t.Errorf("secret printed: %s", out)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("Reveal does not give the secret")
	}
}

func TestErrorsKeepTheirCodeThroughWrapping(t *testing.T) {
	inner := errors.New("disk on fire")
	err := fmt.Errorf("open store: %w", nod.E(nod.Unavailable, "the store cannot be opened", inner))
	if nod.CodeOf(err) != nod.Unavailable || !errors.Is(err, inner) {
		t.Errorf("code %s, is inner %v", nod.CodeOf(err), errors.Is(err, inner))
	}
	if got := nod.PublicMessage(err); strings.Contains(got, "fire") || got != "the store cannot be opened" {
		t.Errorf("public message is %q", got)
	}
	if got := nod.PublicMessage(inner); strings.Contains(got, "fire") {
		t.Errorf("a foreign error is shown to strangers: %q", got)
	}
	if nod.CodeOf(nil) != nod.Internal || nod.Code("new").HTTPStatus() != 500 || nod.Code("new").ExitCode() != 1 {
		t.Error("an unknown code must read as internal")
	}
}

func TestTiersAreOrderedAndUnknownIsAStranger(t *testing.T) {
	order := []nod.Tier{nod.Outsider, nod.Triager, nod.Writer, nod.Owner}
	for i := 1; i < len(order); i++ {
		if order[i].Rank() <= order[i-1].Rank() {
			t.Errorf("%s does not rank above %s", order[i], order[i-1])
		}
	}
	for _, tier := range []nod.Tier{"", "admin", nod.Bot, nod.Outsider, nod.Triager} {
		if tier.Trusted() {
			t.Errorf("tier %q is trusted", tier)
		}
	}
}

func TestActorKeyIgnoresTheLogin(t *testing.T) {
	a := nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: 7, Login: "ada"}
	b := a
	b.Login = "renamed"
	if a.Key() != b.Key() {
		t.Errorf("%s and %s are one account", a.Key(), b.Key())
	}
	b.ID = 8
	if a.Key() == b.Key() {
		t.Error("two accounts share a key")
	}
}

func TestAttestationHoldsOnlyWhenEveryFactDoes(t *testing.T) {
	good := nod.Attestation{Isolation: "namespaces", UID: 1000, GID: 1000, Capabilities: "0000000000000000", NoNewPrivs: true,
		Seccomp: true, Interfaces: []string{"lo"}, RootReadOnly: true, EgressRefused: true, DirectRefused: true}
	if err := good.Holds(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*nod.Attestation){
		"isolation":  func(a *nod.Attestation) { a.Isolation = "none" },
		"uid":        func(a *nod.Attestation) { a.UID = 0 },
		"caps":       func(a *nod.Attestation) { a.Capabilities = "0000000000000001" },
		"no caps":    func(a *nod.Attestation) { a.Capabilities = "" },
		"nnp":        func(a *nod.Attestation) { a.NoNewPrivs = false },
		"seccomp":    func(a *nod.Attestation) { a.Seccomp = false },
		"interfaces": func(a *nod.Attestation) { a.Interfaces = []string{"lo", "eth0"} },
		"no network": func(a *nod.Attestation) { a.Interfaces = nil },
		"root":       func(a *nod.Attestation) { a.RootReadOnly = false },
		"egress":     func(a *nod.Attestation) { a.EgressRefused = false },
		"direct":     func(a *nod.Attestation) { a.DirectRefused = false },
	} {
		bad := good
		spoil(&bad)
		if nod.CodeOf(bad.Holds()) != nod.Unsupported {
			t.Errorf("%s spoilt, and the attestation still holds", name)
		}
	}
}
