package githubsim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"strings"

	"golang.org/x/crypto/ssh"
)

// webFlowEmail is the committer of what GitHub itself commits.
const webFlowEmail = "noreply@github.com"

const (
	sigArmor  = "SSH SIGNATURE"
	sigMagic  = "SSHSIG"
	namespace = "git"
)

// sigBlob is the signature format of OpenSSH's PROTOCOL.sshsig, after its magic.
type sigBlob struct {
	Version                         uint32
	PublicKey                       []byte
	Namespace, Reserved, HashMethod string
	Signature                       []byte
}

// signedBlob is what is signed, after the magic.
type signedBlob struct {
	Namespace, Reserved, HashMethod string
	Hash                            []byte
}

// verdict is what GitHub says of a commit's signature.
type verdict struct {
	ok     bool
	reason string
}

// verify judges the signature of c with the words of GitHub's API. It is verified
// only when the signature is right, its key is registered as somebody's signing
// key, and the committer's address is a verified one of that same account.
func (s *Server) verify(c commit) verdict {
	switch {
	case c.signature == "":
		return verdict{reason: "unsigned"}
	case strings.HasPrefix(c.signature, "-----BEGIN PGP"):
		return verdict{reason: "unknown_key"} // no PGP key can be registered here
	case !strings.HasPrefix(c.signature, "-----BEGIN "+sigArmor):
		return verdict{reason: "unknown_signature_type"}
	}
	key, ok := openSignature(c.signature, c.payload)
	if key == nil {
		return verdict{reason: "malformed_signature"}
	}
	owner := s.byKey(key)
	committer := s.byEmail(c.committer.email)
	switch {
	case committer == nil:
		return verdict{reason: "no_user"}
	case owner == nil:
		return verdict{reason: "unknown_key"}
	case owner != committer:
		return verdict{reason: "bad_email"}
	case !ok:
		return verdict{reason: "invalid"}
	}
	return verdict{ok: true, reason: "valid"}
}

// openSignature parses an armored signature and checks it over payload. The key is
// nil when there is nothing to check.
func openSignature(armored string, payload []byte) (ssh.PublicKey, bool) {
	block, _ := pem.Decode([]byte(armored + "\n"))
	if block == nil || block.Type != sigArmor || !bytes.HasPrefix(block.Bytes, []byte(sigMagic)) {
		return nil, false
	}
	var blob sigBlob
	if ssh.Unmarshal(block.Bytes[len(sigMagic):], &blob) != nil || blob.Version != 1 {
		return nil, false
	}
	key, err := ssh.ParsePublicKey(blob.PublicKey)
	if err != nil {
		return nil, false
	}
	var sig ssh.Signature
	if ssh.Unmarshal(blob.Signature, &sig) != nil {
		return nil, false
	}
	if blob.Namespace != namespace || sig.Format == ssh.KeyAlgoRSA { // the latter is SHA-1
		return key, false
	}
	signed, ok := toSign(blob.HashMethod, payload)
	return key, ok && key.Verify(signed, &sig) == nil
}

func toSign(method string, payload []byte) ([]byte, bool) {
	var hash []byte
	switch method {
	case "sha256":
		sum := sha256.Sum256(payload)
		hash = sum[:]
	case "sha512":
		sum := sha512.Sum512(payload)
		hash = sum[:]
	default:
		return nil, false
	}
	return append([]byte(sigMagic), ssh.Marshal(signedBlob{namespace, "", method, hash})...), true
}

// signer signs commits as GitHub's web-flow account does.
type signer struct{ key ssh.Signer }

func newSigner() (signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signer{}, err
	}
	key, err := ssh.NewSignerFromKey(private)
	return signer{key}, err
}

// sign returns an armored signature without a newline at the end.
func (s signer) sign(payload []byte) (string, error) {
	signed, _ := toSign("sha512", payload)
	sig, err := s.key.Sign(rand.Reader, signed)
	if err != nil {
		return "", err
	}
	blob := append([]byte(sigMagic), ssh.Marshal(sigBlob{1, s.key.PublicKey().Marshal(), namespace, "", "sha512", ssh.Marshal(sig)})...)
	return strings.TrimSuffix(string(pem.EncodeToMemory(&pem.Block{Type: sigArmor, Bytes: blob})), "\n"), nil
}

func (s *Server) byKey(key ssh.PublicKey) *user {
	for _, u := range s.users {
		for _, k := range u.keys {
			if bytes.Equal(k.Marshal(), key.Marshal()) {
				return u
			}
		}
	}
	return nil
}

func (s *Server) byEmail(email string) *user {
	for _, u := range s.users {
		if u.hasEmail(email) {
			return u
		}
	}
	return nil
}
