package nod

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// Secret is a string that does not print. Only Reveal gives it away, so that a
// search for Reveal finds every place where a secret leaves the program.
type Secret struct{ value string }

const redacted = "[redacted]"

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.value == "" }

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(redacted)) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
