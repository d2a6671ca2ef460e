package agent

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestLinesAreCutWhereTheyEnd(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	in := NewLines(strings.NewReader("a\r\n\n" + long + "\nlast"))
	for _, want := range []string{"a", "", long, "last"} {
		if got, err := in.Next(); err != nil || string(got) != want {
			t.Errorf("%d bytes, %v, wants %d", len(got), err, len(want))
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	exact := NewLines(strings.NewReader(strings.Repeat("x", LineCap-1) + "\n"))
	if got, err := exact.Next(); err != nil || len(got) != LineCap-1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	over := NewLines(strings.NewReader(strings.Repeat("x", LineCap+1)))
	if _, err := over.Next(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("%v", err)
	}
}

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for _, c := range []struct {
		have, floor string
		want        bool
	}{{"2.1.332", "2.1.332", true}, {"2.1.1000", "2.1.332", true}, {"2.1.99", "2.1.332", false}, {"10.0.0", "2.1.332", true}, {"2.1.332-x", "2.1.332", true},
		{"2.1", "2.1.332", false}, {"", "2.1.332", false}, {"2.1.x", "2.1.332", false}, {"v3.0.0", "2.1.332", false}, {"2..1", "0.0.0", false}} {
		if got := AtLeast(c.have, c.floor); got != c.want {
			t.Errorf("%s at least %s: %v", c.have, c.floor, got)
		}
	}
}
