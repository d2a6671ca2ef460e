package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"nod"
)

// The first part of every hash, so that it can mean nothing else.
const (
	eventLabel = "nod.audit.event.v1"
	chainLabel = "nod.audit.v1"
)

// eventHash is the hash of what an event says: SHA-256 over eventLabel and the
// event's tier, kind, actor (JSON as stored), time (UTC milliseconds), data (JSON
// as stored) and commit.
func eventHash(e nod.Event, actor string) string {
	return hash(eventLabel, string(e.Tier), string(e.Kind), actor, strconv.FormatInt(e.At.UnixMilli(), 10), string(e.Data), e.Commit)
}

// chainHash is the hash of one entry: SHA-256 over chainLabel, the previous hash
// (empty for the first entry), the event's id, stream and seq, and its eventHash.
// So an entry can be followed, and its place in its stream be known, by somebody
// who is not shown what the event says.
func chainHash(previous string, id int64, stream string, seq int64, event string) string {
	return hash(chainLabel, previous, strconv.FormatInt(id, 10), stream, strconv.FormatInt(seq, 10), event)
}

// hash is SHA-256 in hex over parts, each preceded by its length in bytes as an
// unsigned 64-bit big-endian number. Numbers are decimal.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
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
	_, err = t.exec(`INSERT INTO audit_chain (event, previous, hash) VALUES (?, ?, ?)`, e.ID, previous,
		chainHash(previous, e.ID, e.Stream, e.Seq, eventHash(e, actor)))
	return err
}
