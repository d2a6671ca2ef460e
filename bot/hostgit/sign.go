package hostgit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"nod"
)

// GenerateSigningKey writes a new Ed25519 key in OpenSSH's format to path, which
// must not exist, with mode 0600. It returns the public key as a line for
// authorized_keys, which is also what GitHub takes as a signing key.
func GenerateSigningKey(path string) (string, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nod.E(nod.Internal, "make a signing key", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "nod")
	if err != nil {
		return "", nod.E(nod.Internal, "make a signing key", err)
	}
	line, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", nod.E(nod.Internal, "make a signing key", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", nod.E(nod.Conflict, "there is a signing key already", err)
	}
	if err != nil {
		return "", nod.E(nod.Internal, "write the signing key", err)
	}
	_, err = f.Write(pem.EncodeToMemory(block))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", nod.E(nod.Internal, "write the signing key", err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))), nil
}

func loadSigningKey(path string) (ed25519.PrivateKey, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, nod.E(nod.NotFound, "the signing key cannot be read", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, &nod.Error{Code: nod.Forbidden, Msg: "the signing key can be read by others", Hint: "chmod 600 its file"}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nod.E(nod.NotFound, "the signing key cannot be read", err)
	}
	raw, err := ssh.ParseRawPrivateKey(b)
	if err != nil {
		return nil, nod.E(nod.Invalid, "the signing key is not an OpenSSH private key without a passphrase", err)
	}
	key, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return nil, nod.E(nod.Invalid, "the signing key is not an Ed25519 key", nil)
	}
	return *key, nil
}

// sshsig signs payload as OpenSSH's PROTOCOL.sshsig says, in git's namespace. It is
// written here so that no signing program ever runs.
func sshsig(key ed25519.PrivateKey, payload []byte) (string, error) {
	const namespace, hash = "git", "sha512"
	sum := sha512.Sum512(payload)
	signed := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", hash, string(sum[:])})...)
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", nod.E(nod.Internal, "sign a commit", err)
	}
	sig, err := signer.Sign(rand.Reader, signed)
	if err != nil {
		return "", nod.E(nod.Internal, "sign a commit", err)
	}
	blob := append([]byte("SSHSIG"), ssh.Marshal(struct {
		Version                                   uint32
		PublicKey, Namespace, Reserved, Hash, Sig string
	}{1, string(signer.PublicKey().Marshal()), namespace, "", hash, string(ssh.Marshal(sig))})...)
	text := base64.StdEncoding.EncodeToString(blob)
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for len(text) > 0 {
		n := min(70, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----")
	return b.String(), nil
}

// signedCommit is the body of a commit object with its signature: the object
// without the gpgsig header is what is signed.
func signedCommit(key ed25519.PrivateKey, head []byte, message string) ([]byte, error) {
	payload := append(bytes.Clone(head), "\n"+message...)
	sig, err := sshsig(key, payload)
	if err != nil {
		return nil, err
	}
	whole := append(bytes.Clone(head), "gpgsig "+strings.ReplaceAll(sig, "\n", "\n ")+"\n"...)
	return append(whole, "\n"+message...), nil
}
