package answertest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"nod"
)

// Algorithm is a COSE signature algorithm, by its IANA number.
type Algorithm int

const (
	ES256 Algorithm = -7
	EdDSA Algorithm = -8
	RS256 Algorithm = -257
)

// Authenticator is a passkey in software: resident keys, a user who is always there
// and always verified, and one counter for all keys. It is safe for concurrent use.
type Authenticator struct {
	// Unverified leaves the flag out that says the user was verified.
	Unverified bool
	// Synced says that the keys are backed up elsewhere, as phones do.
	Synced bool
	// Frozen keeps the counter where it is, as a copied key would.
	Frozen bool

	alg     Algorithm
	mu      sync.Mutex
	counter uint32
	keys    []residentKey
}

type residentKey struct {
	id, userHandle []byte
	rpID           string
	signer         crypto.Signer
}

// NewAuthenticator makes an authenticator without keys that signs with ES256.
func NewAuthenticator() *Authenticator { return NewAuthenticatorFor(ES256) }

// NewAuthenticatorFor makes an authenticator without keys that signs with alg.
func NewAuthenticatorFor(alg Algorithm) *Authenticator { return &Authenticator{alg: alg} }

// Flags of authenticator data, WebAuthn level 3, section 6.1.
const (
	flagPresent        = 0x01
	flagVerified       = 0x04
	flagBackupEligible = 0x08
	flagBackedUp       = 0x10
	flagAttested       = 0x40
)

// creationOptions is what a server asks for when a passkey is enrolled.
type creationOptions struct {
	Challenge string `json:"challenge"`
	RP        struct {
		ID string `json:"id"`
	} `json:"rp"`
	User struct {
		ID string `json:"id"`
	} `json:"user"`
	Params []struct {
		Alg Algorithm `json:"alg"`
	} `json:"pubKeyCredParams"`
	Exclude []descriptor `json:"excludeCredentials"`
}

// requestOptions is what a server asks for when something is signed.
type requestOptions struct {
	Challenge string       `json:"challenge"`
	RPID      string       `json:"rpId"`
	Allow     []descriptor `json:"allowCredentials"`
}

type descriptor struct {
	ID string `json:"id"`
}

// Create makes a resident key for the options of an enrolment, as the browser at
// origin would, and returns the credential to post.
func (a *Authenticator) Create(origin string, options json.RawMessage) (json.RawMessage, error) {
	var o creationOptions
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, nod.E(nod.Invalid, "the options cannot be read", err)
	}
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil {
		return nil, nod.E(nod.Invalid, "the user handle cannot be read", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		if slices.ContainsFunc(o.Exclude, func(d descriptor) bool { return d.ID == encode(k.id) }) {
			return nil, nod.E(nod.Conflict, "this authenticator has a key for that site already", nil)
		}
	}
	if !slices.ContainsFunc(o.Params, func(p struct {
		Alg Algorithm `json:"alg"`
	}) bool {
		return p.Alg == a.alg
	}) {
		return nil, nod.E(nod.Unsupported, "the site does not take this authenticator's algorithm", nil)
	}
	signer, cose, err := newKey(a.alg)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 32)
	if _, err := rand.Read(id); err != nil {
		return nil, fmt.Errorf("make credential id: %w", err)
	}
	attested := slices.Concat(make([]byte, 16), binary.BigEndian.AppendUint16(nil, uint16(len(id))), id, cose)
	object, err := webauthncbor.Marshal(map[string]any{
		"fmt": "none", "attStmt": map[string]any{}, "authData": append(a.data(o.RP.ID, flagAttested), attested...),
	})
	if err != nil {
		return nil, fmt.Errorf("encode attestation: %w", err)
	}
	client, err := clientData("webauthn.create", o.Challenge, origin)
	if err != nil {
		return nil, err
	}
	a.keys = append(a.keys, residentKey{id: id, userHandle: handle, rpID: o.RP.ID, signer: signer})
	return json.Marshal(map[string]any{"id": encode(id), "response": map[string]string{
		"clientDataJSON": encode(client), "attestationObject": encode(object)}})
}

// ID is the credential id of the newest key, as nod.Passkey has it; empty when there
// is none.
func (a *Authenticator) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) == 0 {
		return ""
	}
	return encode(a.keys[len(a.keys)-1].id)
}

// Sign signs the options of a sign-in or an answer with the newest key that suits
// them, as the browser at origin would, and returns the credential to post.
func (a *Authenticator) Sign(origin string, options json.RawMessage) (json.RawMessage, error) {
	var o requestOptions
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, nod.E(nod.Invalid, "the options cannot be read", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range slices.Backward(a.keys) {
		allowed := len(o.Allow) == 0 || slices.ContainsFunc(o.Allow, func(d descriptor) bool { return d.ID == encode(k.id) })
		if k.rpID != o.RPID || !allowed {
			continue
		}
		if !a.Frozen {
			a.counter++
		}
		client, err := clientData("webauthn.get", o.Challenge, origin)
		if err != nil {
			return nil, err
		}
		data := a.data(o.RPID, 0)
		hash := sha256.Sum256(client)
		signature, err := sign(k.signer, append(bytes.Clone(data), hash[:]...))
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"id": encode(k.id), "response": map[string]string{
			"clientDataJSON": encode(client), "authenticatorData": encode(data), "signature": encode(signature), "userHandle": encode(k.userHandle)}})
	}
	return nil, nod.E(nod.NotFound, "this authenticator has no key for that site", nil)
}

// data is authenticator data without attested keys.
func (a *Authenticator) data(rpID string, flags byte) []byte {
	flags |= flagPresent
	if !a.Unverified {
		flags |= flagVerified
	}
	if a.Synced {
		flags |= flagBackupEligible | flagBackedUp
	}
	hash := sha256.Sum256([]byte(rpID))
	return binary.BigEndian.AppendUint32(append(hash[:], flags), a.counter)
}

func clientData(kind, challenge, origin string) ([]byte, error) {
	return json.Marshal(struct {
		Type        string `json:"type"`
		Challenge   string `json:"challenge"`
		Origin      string `json:"origin"`
		CrossOrigin bool   `json:"crossOrigin"`
	}{kind, challenge, origin, false})
}

func sign(signer crypto.Signer, message []byte) ([]byte, error) {
	if _, pure := signer.(ed25519.PrivateKey); pure {
		return signer.Sign(rand.Reader, message, crypto.Hash(0))
	}
	digest := sha256.Sum256(message)
	return signer.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// newKey makes a key pair and the COSE form of its public half.
func newKey(alg Algorithm) (crypto.Signer, []byte, error) {
	head := webauthncose.PublicKeyData{Algorithm: int64(alg)}
	switch alg {
	case ES256:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, fmt.Errorf("make key: %w", err)
		}
		point, err := key.PublicKey.Bytes() // 4, x, y
		if err != nil {
			return nil, nil, fmt.Errorf("encode key: %w", err)
		}
		head.KeyType = int64(webauthncose.EllipticKey)
		cose, err := webauthncbor.Marshal(webauthncose.EC2PublicKeyData{PublicKeyData: head, Curve: int64(webauthncose.P256), XCoord: point[1:33], YCoord: point[33:]})
		return key, cose, err
	case EdDSA:
		public, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, nil, fmt.Errorf("make key: %w", err)
		}
		head.KeyType = int64(webauthncose.OctetKey)
		cose, err := webauthncbor.Marshal(webauthncose.OKPPublicKeyData{PublicKeyData: head, Curve: int64(webauthncose.Ed25519), XCoord: public})
		return key, cose, err
	case RS256:
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, nil, fmt.Errorf("make key: %w", err)
		}
		head.KeyType = int64(webauthncose.RSAKey)
		cose, err := webauthncbor.Marshal(webauthncose.RSAPublicKeyData{PublicKeyData: head, Modulus: key.N.Bytes(),
			Exponent: []byte{byte(key.E >> 16), byte(key.E >> 8), byte(key.E)}})
		return key, cose, err
	}
	return nil, nil, nod.E(nod.Unsupported, "this algorithm is not known", nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
