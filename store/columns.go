package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// moment is what is left of a time once it was stored: UTC, whole milliseconds.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// millis is the column of a time that may be unset.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// toTime scans such a column.
type toTime struct{ t *time.Time }

func (d toTime) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*d.t = time.Time{}
	case int64:
		*d.t = time.UnixMilli(v).UTC()
	default:
		return fmt.Errorf("a time is stored as %T", v)
	}
	return nil
}

// toJSON scans a column that holds JSON.
type toJSON struct{ v any }

func (d toJSON) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return json.Unmarshal([]byte(v), d.v)
	case []byte:
		return json.Unmarshal(v, d.v)
	}
	return fmt.Errorf("JSON is stored as %T", v)
}

// toRaw scans JSON that is kept as it is; NULL is nil.
type toRaw struct{ v *json.RawMessage }

func (d toRaw) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*d.v = nil
	case string:
		*d.v = json.RawMessage(v)
	case []byte:
		*d.v = append(json.RawMessage(nil), v...)
	default:
		return fmt.Errorf("JSON is stored as %T", v)
	}
	return nil
}

// toText scans a text that may be NULL.
type toText struct{ s *string }

func (d toText) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*d.s = ""
	case string:
		*d.s = v
	default:
		return fmt.Errorf("a text is stored as %T", v)
	}
	return nil
}

// text is the column of a reference that may be unset.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// asJSON is the column of one of nod's own types.
func asJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write %T as JSON: %w", v, err)
	}
	return string(raw), nil
}

// toInt scans a number that may be NULL.
type toInt struct{ n *int64 }

func (d toInt) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*d.n = 0
	case int64:
		*d.n = v
	default:
		return fmt.Errorf("a number is stored as %T", v)
	}
	return nil
}
