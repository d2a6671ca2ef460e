package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"nod"
)

const signatureHeader = "X-Hub-Signature-256"

// claimed returns the HMAC that a request says its body has. A request that has
// none, or one of another form, is refused before its body is read.
func claimed(h http.Header) ([]byte, error) {
	values := h.Values(signatureHeader)
	if len(values) == 0 {
		return nil, nod.E(nod.Unauthenticated, "there is no "+signatureHeader+": set a secret for the webhook", nil)
	}
	digits, ok := strings.CutPrefix(values[0], "sha256=")
	mac, err := hex.DecodeString(digits)
	if !ok || err != nil || len(mac) != sha256.Size || len(values) > 1 {
		return nil, nod.E(nod.Unauthenticated, signatureHeader+" is not one HMAC-SHA256", nil)
	}
	return mac, nil
}

// signedByAny reports whether mac is the HMAC-SHA256 of body under one of secrets.
// How long it takes depends on the number of secrets and the length of body only.
func signedByAny(secrets []nod.Secret, body, mac []byte) bool {
	ok := false
	for _, s := range secrets {
		h := hmac.New(sha256.New, []byte(s.Reveal()))
		h.Write(body)
		if hmac.Equal(h.Sum(nil), mac) {
			ok = true
		}
	}
	return ok
}
