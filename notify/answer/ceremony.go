package answer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"nod"
)

// algorithms are the signature algorithms a passkey may use, best first.
var algorithms = [...]webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256}

func newWebAuthn(s site) (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{
		RPID: s.rpID, RPDisplayName: "nod", RPOrigins: []string{s.origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		},
	})
}

// owner is one passkey as the WebAuthn library wants to see its user. Each
// passkey has its own user handle, so that enrolling a second one on the same
// authenticator replaces nothing.
type owner struct {
	handle     []byte
	name       string
	credential []webauthn.Credential
}

func (o owner) WebAuthnID() []byte                         { return o.handle }
func (o owner) WebAuthnName() string                       { return o.name }
func (o owner) WebAuthnDisplayName() string                { return o.name }
func (o owner) WebAuthnCredentials() []webauthn.Credential { return o.credential }

func ownerOf(p nod.Passkey) (owner, error) {
	id, err := base64.RawURLEncoding.DecodeString(p.ID)
	if err != nil {
		return owner{}, nod.E(nod.Internal, "a stored passkey cannot be read", err)
	}
	return owner{handle: p.UserHandle, name: p.Name, credential: []webauthn.Credential{{
		ID: id, PublicKey: p.PublicKey,
		Flags:         webauthn.CredentialFlags{UserPresent: true, UserVerified: true, BackupEligible: p.BackupEligible, BackupState: p.BackedUp},
		Authenticator: webauthn.Authenticator{AAGUID: p.AAGUID, SignCount: p.SignCount},
	}}}, nil
}

// ceremony is what is kept with a challenge between begin and finish.
type ceremony struct {
	Session  string               `json:"session,omitempty"` // digest of the session that began it; answers only
	WebAuthn webauthn.SessionData `json:"webauthn"`
}

// newChallenge makes a challenge of kind with fresh randomness. The caller fills
// in what it is for.
func (s *Server) newChallenge(kind nod.ChallengeKind) (nod.Challenge, error) {
	id, err := s.random(16)
	if err != nil {
		return nod.Challenge{}, err
	}
	nonce, err := s.random(32)
	if err != nil {
		return nod.Challenge{}, err
	}
	return nod.Challenge{ID: hex.EncodeToString(id), Kind: kind, Nonce: hex.EncodeToString(nonce), Bytes: nonce,
		ExpiresAt: s.now().Add(nod.ChallengeLife)}, nil
}

// keep stores c with what the library needs to finish.
func (s *Server) keep(ctx context.Context, c nod.Challenge, k ceremony) error {
	var err error
	if c.Data, err = json.Marshal(k); err != nil {
		return nod.E(nod.Internal, "the challenge could not be kept", err)
	}
	return s.passkeys.SaveChallenge(ctx, c)
}

// begun returns the challenge id of kind, still unused, with its ceremony.
func (s *Server) begun(ctx context.Context, id string, kind nod.ChallengeKind) (nod.Challenge, ceremony, error) {
	var k ceremony
	gone := nod.E(nod.Expired, "this request is used up or too old", nil)
	gone.Hint = "begin again"
	c, err := s.passkeys.Challenge(ctx, id)
	switch {
	case nod.CodeOf(err) == nod.NotFound:
		return c, k, gone
	case err != nil:
		return c, k, err
	case c.Kind != kind || !s.now().Before(c.ExpiresAt):
		return c, k, gone
	}
	if err := json.Unmarshal(c.Data, &k); err != nil {
		return c, k, nod.E(nod.Internal, "the challenge cannot be read", err)
	}
	return c, k, nil
}

func (s *Server) random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.rand, b); err != nil {
		return nil, nod.E(nod.Unavailable, "no randomness", err)
	}
	return b, nil
}

// b64 is bytes as base64url without padding, in JSON.
type b64 []byte

func (b *b64) UnmarshalJSON(in []byte) error {
	var s string
	if err := json.Unmarshal(in, &s); err != nil {
		return err
	}
	out, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return err
	}
	*b = out
	return nil
}

// assertionBody is the assertion that a browser posts.
type assertionBody struct {
	ID       string `json:"id"`
	Response struct {
		ClientDataJSON    b64 `json:"clientDataJSON"`
		AuthenticatorData b64 `json:"authenticatorData"`
		Signature         b64 `json:"signature"`
		UserHandle        b64 `json:"userHandle"`
	} `json:"response"`
}

func (a assertionBody) parse() (*protocol.ParsedCredentialAssertionData, error) {
	raw, err := base64.RawURLEncoding.DecodeString(a.ID)
	if err != nil {
		return nil, nod.E(nod.Invalid, "the credential id cannot be read", err)
	}
	parsed, err := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{Credential: protocol.Credential{ID: a.ID, Type: "public-key"}, RawID: raw},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: protocol.URLEncodedBase64(a.Response.ClientDataJSON)},
			AuthenticatorData:     protocol.URLEncodedBase64(a.Response.AuthenticatorData),
			Signature:             protocol.URLEncodedBase64(a.Response.Signature), UserHandle: protocol.URLEncodedBase64(a.Response.UserHandle),
		},
	}.Parse()
	if err != nil {
		return nil, nod.E(nod.Invalid, "the assertion cannot be read", err)
	}
	return parsed, nil
}

// asserted validates an assertion against the passkeys that are not revoked and
// returns the passkey that made it, with its new counter and backup state.
func (s *Server) asserted(ctx context.Context, k ceremony, body assertionBody) (nod.Passkey, error) {
	var none nod.Passkey
	parsed, err := body.parse()
	if err != nil {
		return none, err
	}
	keys, err := s.passkeys.Passkeys(ctx)
	if err != nil {
		return none, err
	}
	for _, p := range keys {
		o, err := ownerOf(p)
		if err != nil {
			return none, err
		}
		if !p.RevokedAt.IsZero() || !bytes.Equal(o.credential[0].ID, parsed.RawID) {
			continue
		}
		k.WebAuthn.UserID = p.UserHandle
		got, err := s.webauthn.ValidateLogin(o, k.WebAuthn, parsed)
		if err != nil {
			return none, nod.E(nod.Forbidden, "the passkey's signature does not verify", err)
		}
		if got.Authenticator.CloneWarning {
			return none, nod.E(nod.Forbidden, "this passkey's counter went backwards: it may have been copied", nil)
		}
		p.SignCount, p.BackedUp = got.Authenticator.SignCount, got.Flags.BackupState
		return p, nil
	}
	return none, nod.E(nod.Forbidden, "this passkey is not enrolled here", nil)
}
