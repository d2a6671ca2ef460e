package answer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"nod"
)

// Flags of authenticator data, WebAuthn level 3, section 6.1.
const (
	flagUserPresent  = 0x01
	flagUserVerified = 0x04
)

// VerifyAssertion checks offline that the passkey of a.Assertion signed exactly
// the answer a to the decision d, as WebAuthn level 3, section 7.2 asks: type,
// challenge, origin, RP ID hash, user presence and verification, and the
// signature over the authenticator data and the hash of the client data. It
// needs nothing but its arguments. Whether the public key was enrolled is for the
// caller to compare. Every failure is Forbidden and names the check.
func VerifyAssertion(d nod.Decision, a nod.Answer) error {
	s := a.Assertion
	if s == nil {
		return unproven("carries no assertion", nil)
	}
	if a.Decision != d.ID || !d.Takes(a.Answer) {
		return unproven("is not an answer to this decision", nil)
	}
	if a.By.Kind != nod.ActorPasskey || a.By.Passkey != s.Credential || s.Credential == "" {
		return unproven("names another actor than the passkey that signed", nil)
	}
	return verifySignature(s, nod.AnswerChallenge(d, a.Answer, a.Reason, s.Nonce))
}

// VerifyAct is VerifyAssertion for an act.
func VerifyAct(a nod.Act) error {
	s := a.Assertion
	if s == nil {
		return unproven("carries no assertion", nil)
	}
	if a.By.Kind != nod.ActorPasskey || a.By.Passkey != s.Credential || s.Credential == "" {
		return unproven("names another actor than the passkey that signed", nil)
	}
	return verifySignature(s, nod.ActChallenge(a, s.Nonce))
}

// verifySignature checks that s is an assertion over challenge.
func verifySignature(s *nod.Assertion, challenge []byte) error {
	if err := verifyClientData(s, challenge); err != nil {
		return err
	}
	data := s.AuthenticatorData
	if len(data) < 37 {
		return unproven("has authenticator data that is too short", nil)
	}
	rpHash := sha256.Sum256([]byte(s.RPID))
	if !bytes.Equal(data[:32], rpHash[:]) {
		return unproven("was signed for another site", nil)
	}
	if data[32]&flagUserPresent == 0 || data[32]&flagUserVerified == 0 {
		return unproven("was signed without verifying the person", nil)
	}
	if binary.BigEndian.Uint32(data[33:37]) != s.SignCount {
		return unproven("has another counter than the one recorded", nil)
	}
	key, err := webauthncose.ParsePublicKey(s.PublicKey)
	if err != nil {
		return unproven("has a public key that cannot be read", err)
	}
	clientHash := sha256.Sum256(s.ClientDataJSON)
	ok, err := webauthncose.VerifySignature(key, append(bytes.Clone(data), clientHash[:]...), s.Signature)
	if err != nil || !ok {
		return unproven("has a signature that does not verify", err)
	}
	return nil
}

// verifyClientData checks what the browser wrote for the authenticator to sign.
func verifyClientData(s *nod.Assertion, challenge []byte) error {
	var client struct {
		Type        string `json:"type"`
		Challenge   string `json:"challenge"`
		Origin      string `json:"origin"`
		CrossOrigin bool   `json:"crossOrigin"`
		TopOrigin   string `json:"topOrigin"`
	}
	if err := json.Unmarshal(s.ClientDataJSON, &client); err != nil {
		return unproven("has client data that cannot be read", err)
	}
	origin, err := url.Parse(s.Origin)
	if err != nil {
		return unproven("has an origin that cannot be read", err)
	}
	host := origin.Hostname()
	switch {
	case client.Type != "webauthn.get":
		return unproven("is of another type", nil)
	case client.Challenge != base64.RawURLEncoding.EncodeToString(challenge):
		return unproven("signed something else than this answer", nil)
	case client.Origin != s.Origin || client.CrossOrigin || client.TopOrigin != "":
		return unproven("was made on another site", nil)
	case s.RPID == "" || host != s.RPID && !strings.HasSuffix(host, "."+s.RPID):
		return unproven("has an origin that is not of its site", nil)
	}
	return nil
}

func unproven(what string, err error) error {
	return nod.E(nod.Forbidden, "the answer "+what, err)
}
