package hook

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"nod"
)

// CheckAnswer fails the test unless an allow of input gives back input.
func CheckAnswer(t *testing.T, input []byte) {
	if !bytes.Equal(canonical(input), canonical(canonical(input))) {
		t.Errorf("%q has two canonical forms", input)
	}
	if !json.Valid(input) {
		return
	}
	raw, err := encode(line{N: 1, Answer: decision(nod.ApprovalAnswer{Allow: true}, input)})
	if err != nil || bytes.ContainsAny(raw, "\n") {
		t.Fatalf("%q, %v", raw, err)
	}
	var got struct {
		Answer struct {
			Specific struct {
				Decision struct {
					Input json.RawMessage `json:"updatedInput"`
				} `json:"decision"`
			} `json:"hookSpecificOutput"`
		} `json:"answer"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(input, &a) == nil && json.Unmarshal(got.Answer.Specific.Decision.Input, &b) == nil && !reflect.DeepEqual(a, b) {
		t.Errorf("asked about %s, allowed %s", input, raw)
	}
}
