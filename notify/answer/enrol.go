package answer

import (
	"encoding/base64"
	"net/http"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"nod"
)

// beginning is the answer to every begin request: what to give back, and what to
// hand to the browser's credential API.
type beginning struct {
	Challenge string `json:"challenge"`
	Options   any    `json:"options"`
}

type enrolView struct {
	frame
	Token, Name string
	Repos       []string
	Valid       bool
}

func (s *Server) enrolPage(w http.ResponseWriter, r *http.Request) error {
	token := r.PathValue("token")
	v := enrolView{frame: s.frame("Add a passkey", false), Token: token}
	e, err := s.enrolment(r, token)
	status := http.StatusOK
	switch {
	case nod.CodeOf(err) == nod.NotFound:
		status = http.StatusNotFound
	case err != nil:
		return err
	default:
		v.Name, v.Repos, v.Valid = e.Name, e.Repos, true
	}
	return s.render(w, status, "enrol", v)
}

func (s *Server) enrolment(r *http.Request, token string) (nod.Enrolment, error) {
	if token == "" || len(token) > 128 {
		return nod.Enrolment{}, nod.E(nod.NotFound, "this link is used up or too old", nil)
	}
	e, err := s.passkeys.Enrolment(r.Context(), nod.Digest([]byte(token)))
	if err == nil && !s.now().Before(e.ExpiresAt) {
		err = nod.E(nod.NotFound, "this link is used up or too old", nil)
	}
	return e, err
}

func (s *Server) enrolBegin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Token string `json:"token"`
		Ahead bool   `json:"ahead"` // nobody has pressed anything yet
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if err := s.stranger(); err != nil {
		return err
	}
	e, err := s.enrolment(r, in.Token)
	if err != nil {
		return err
	}
	existing, err := s.descriptors(r)
	if err != nil {
		return err
	}
	c, err := s.newChallenge(nod.ChallengeEnrol)
	if err != nil {
		return err
	}
	c.Enrolment = e.TokenDigest
	handle, err := s.random(32)
	if err != nil {
		return err
	}
	params := make([]protocol.CredentialParameter, len(algorithms))
	for i, alg := range algorithms {
		params[i] = protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: alg}
	}
	options, session, err := s.webauthn.BeginRegistration(owner{handle: handle, name: e.Name},
		webauthn.WithCredentialParameters(params), webauthn.WithExclusions(existing),
		func(o *protocol.PublicKeyCredentialCreationOptions) error { o.Challenge = c.Bytes; return nil })
	if err != nil {
		return nod.E(nod.Internal, "the passkey could not be begun", err)
	}
	if err := s.keep(r.Context(), c, ceremony{WebAuthn: *session}); err != nil {
		return err
	}
	return reply(w, beginning{c.ID, options.Response})
}

// attestationBody is the new credential that a browser posts.
type attestationBody struct {
	ID       string `json:"id"`
	Response struct {
		ClientDataJSON    b64 `json:"clientDataJSON"`
		AttestationObject b64 `json:"attestationObject"`
	} `json:"response"`
}

func (a attestationBody) parse() (*protocol.ParsedCredentialCreationData, error) {
	raw, err := base64.RawURLEncoding.DecodeString(a.ID)
	if err != nil {
		return nil, nod.E(nod.Invalid, "the credential id cannot be read", err)
	}
	parsed, err := protocol.CredentialCreationResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{Credential: protocol.Credential{ID: a.ID, Type: "public-key"}, RawID: raw},
		AttestationResponse: protocol.AuthenticatorAttestationResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: protocol.URLEncodedBase64(a.Response.ClientDataJSON)},
			AttestationObject:     protocol.URLEncodedBase64(a.Response.AttestationObject),
		},
	}.Parse()
	if err != nil {
		return nil, nod.E(nod.Invalid, "the new passkey cannot be read", err)
	}
	return parsed, nil
}

func (s *Server) enrolFinish(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Challenge  string          `json:"challenge"`
		Credential attestationBody `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, k, err := s.begun(r.Context(), in.Challenge, nod.ChallengeEnrol)
	if err != nil {
		return err
	}
	e, err := s.passkeys.Enrolment(r.Context(), c.Enrolment)
	if err != nil {
		return err
	}
	parsed, err := in.Credential.parse()
	if err != nil {
		return err
	}
	got, err := s.webauthn.CreateCredential(owner{handle: k.WebAuthn.UserID, name: e.Name}, k.WebAuthn, parsed)
	if err != nil {
		return nod.E(nod.Forbidden, "the new passkey does not verify", err)
	}
	err = s.passkeys.Enrol(r.Context(), c.ID, nod.Passkey{
		ID: base64.RawURLEncoding.EncodeToString(got.ID), Name: e.Name, UserHandle: k.WebAuthn.UserID,
		PublicKey: got.PublicKey, SignCount: got.Authenticator.SignCount,
		BackupEligible: got.Flags.BackupEligible, BackedUp: got.Flags.BackupState, AAGUID: got.Authenticator.AAGUID, CreatedAt: s.now(),
	})
	if err != nil {
		return err
	}
	return reply(w, struct {
		Next string `json:"next"`
	}{"/signin"})
}

// descriptors lists every passkey that may answer.
func (s *Server) descriptors(r *http.Request) ([]protocol.CredentialDescriptor, error) {
	keys, err := s.passkeys.Passkeys(r.Context())
	if err != nil {
		return nil, err
	}
	list := make([]protocol.CredentialDescriptor, 0, len(keys))
	for _, p := range keys {
		o, err := ownerOf(p)
		if err != nil {
			return nil, err
		}
		list = append(list, protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: o.credential[0].ID})
	}
	return list, nil
}
