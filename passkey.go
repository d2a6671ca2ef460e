package nod

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// ChallengeLife is how long a challenge for an answer may wait for its assertion.
const ChallengeLife = 2 * time.Minute

// ChallengeKind says what a passkey is asked to sign.
type ChallengeKind string

const (
	ChallengeSignIn ChallengeKind = "sign_in"
	ChallengeEnrol  ChallengeKind = "enrol"
	ChallengeAnswer ChallengeKind = "answer"
	ChallengeAct    ChallengeKind = "act"
)

// Challenge is a single-use WebAuthn challenge. It is consumed by the
// transaction that records what it was for.
type Challenge struct {
	ID        string        `json:"id"` // random, given back by the browser
	Kind      ChallengeKind `json:"kind"`
	Bytes     []byte        `json:"bytes"`              // what the authenticator signs over
	Nonce     string        `json:"nonce"`              // 32 random bytes in hex
	Decision  string        `json:"decision,omitempty"` // answer only
	Task      string        `json:"task,omitempty"`     // act only
	Answer    string        `json:"answer,omitempty"`   // answer, or kind of act
	Reason    string        `json:"reason,omitempty"`   // answer, or words of an act
	Enrolment string        `json:"enrolment,omitempty"`
	Data      []byte        `json:"-"` // what the WebAuthn library keeps between the two steps
	ExpiresAt time.Time     `json:"expires_at"`
}

// AnswerChallenge is the challenge that binds an answer to what was shown:
// SHA-256 over "nod.answer.v1" and the decision id, kind, bound value (see
// Decision.Bound), answer, reason and nonce, each preceded by its length as an
// unsigned 64-bit big-endian number.
func AnswerChallenge(d Decision, answer, reason, nonce string) []byte {
	return bind("nod.answer.v1", d.ID, string(d.Kind), d.Bound(), answer, reason, nonce)
}

// bind is SHA-256 over parts, each preceded by its length.
func bind(parts ...string) []byte {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// Passkey is an enrolled WebAuthn credential. Passkeys are enrolled and revoked
// from the host only.
type Passkey struct {
	ID             string    `json:"id"` // credential id, base64url without padding
	Name           string    `json:"name"`
	UserHandle     []byte    `json:"user_handle"`
	PublicKey      []byte    `json:"public_key"` // COSE_Key, RFC 9052
	SignCount      uint32    `json:"sign_count"`
	BackupEligible bool      `json:"backup_eligible"`
	BackedUp       bool      `json:"backed_up"`
	AAGUID         []byte    `json:"aaguid,omitempty"`
	Repos          []string  `json:"repos,omitempty"` // Repo.Key of what it may answer for and read; empty is everything
	CreatedAt      time.Time `json:"created_at"`
	RevokedAt      time.Time `json:"revoked_at,omitzero"`
}

// Covers reports whether p may read and answer what concerns the repository.
func (p Passkey) Covers(repo Repo) bool { return covers(p.Repos, repo) }

func covers(repos []string, repo Repo) bool {
	return len(repos) == 0 || slices.Contains(repos, repo.Key())
}

// Enrolment is a single-use permission to enrol one passkey, made on the host.
type Enrolment struct {
	TokenDigest string    `json:"token_digest"` // Digest of the token in the link
	Name        string    `json:"name"`         // what the passkey will be called
	Repos       []string  `json:"repos,omitempty"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// Session is a signed-in browser. It lets its holder read; each answer needs an
// assertion of its own.
type Session struct {
	TokenDigest string    `json:"token_digest"` // Digest of the cookie's value
	Passkey     string    `json:"passkey"`
	Device      string    `json:"device"` // a short name from the user agent, untrusted
	CreatedAt   time.Time `json:"created_at"`
	SeenAt      time.Time `json:"seen_at"`
	ExpiresAt   time.Time `json:"expires_at"`

	Idle  time.Duration `json:"idle"`            // it also ends when not seen for this long
	Repos []string      `json:"repos,omitempty"` // as of its passkey
}

// Covers reports whether the session may read what concerns the repository.
func (s Session) Covers(repo Repo) bool { return covers(s.Repos, repo) }

// Assertion is the evidence of one answer, kept in its audit event so that
// anyone with the public key can check it without nod.
type Assertion struct {
	Credential        string `json:"credential"`         // base64url
	AuthenticatorData []byte `json:"authenticator_data"` // WebAuthn level 3, section 6.1
	ClientDataJSON    []byte `json:"client_data_json"`   // section 5.8.1
	Signature         []byte `json:"signature"`
	SignCount         uint32 `json:"sign_count"`
	PublicKey         []byte `json:"public_key"` // as enrolled when it signed
	RPID              string `json:"rp_id"`
	Origin            string `json:"origin"`
	Nonce             string `json:"nonce"`
}

// Answer is one person's answer to one decision, ready to be recorded.
type Answer struct {
	Decision  string     `json:"decision"`
	Answer    string     `json:"answer"`
	Reason    string     `json:"reason,omitempty"`
	By        Actor      `json:"by"`
	Challenge string     `json:"challenge,omitempty"` // id of the challenge to consume; empty from the host
	Assertion *Assertion `json:"assertion,omitempty"` // nil from the host
}
