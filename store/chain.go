package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"nod"
)

// chainLabel is the first part of every hash, so that it can mean nothing else.
const chainLabel = "nod.audit.v1"

// chainHash is the hash of one entry: SHA-256 over chainLabel, the previous hash
// (empty for the first entry) and the event's id, stream, seq, tier, kind, actor
// (JSON as stored), time (UTC milliseconds), data (JSON as stored) and commit.
// Numbers are decimal; each part is preceded by its length in bytes as an
// unsigned 64-bit big-endian number.
func chainHash(previous string, e nod.Event, actor string) string {
	h := sha256.New()
	for _, part := range []string{chainLabel, previous, strconv.FormatInt(e.ID, 10), e.Stream, strconv.FormatInt(e.Seq, 10),
		string(e.Tier), string(e.Kind), actor, strconv.FormatInt(e.At.UnixMilli(), 10), string(e.Data), e.Commit} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

const headQuery = `SELECT hash FROM audit_chain ORDER BY event DESC LIMIT 1`

// link adds an audit event that was just inserted to the chain.
func (t *txn) link(e nod.Event, actor string) error {
	var previous string
	err := t.row(headQuery).Scan(&previous)
	if err != nil && !isNone(err) {
		return err
	}
	_, err = t.exec(`INSERT INTO audit_chain (event, previous, hash) VALUES (?, ?, ?)`, e.ID, previous, chainHash(previous, e, actor))
	return err
}
