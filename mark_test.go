package nod_test

import (
	"bytes"
	"image/png"
	"os"
	"strings"
	"testing"
)

// TestOneMark: page, README, the demo's phone and the icon of a push show the same
// sign in the same colour.
func TestOneMark(t *testing.T) {
	read := func(path string) []byte {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	mark := read("notify/answer/assets/mark.svg")
	for _, path := range []string{"docs/mark.svg", "notify/ntfytest/assets/phone.svg"} {
		if !bytes.Equal(read(path), mark) {
			t.Errorf("%s is another mark", path)
		}
	}
	if !strings.Contains(string(read("README.md")), "docs/mark.svg") {
		t.Error("the README shows no mark")
	}
	icon, err := png.Decode(bytes.NewReader(read("notify/answer/assets/mark.png")))
	if err != nil {
		t.Fatal(err)
	}
	// The ring's leftmost point has the mark's colour, the middle above the smile none.
	r, g, b, _ := icon.At(icon.Bounds().Dx()*26/320, icon.Bounds().Dy()/2).RGBA()
	if _, _, _, a := icon.At(icon.Bounds().Dx()/2, icon.Bounds().Dy()/3).RGBA(); r>>8 != 0x14 || g>>8 != 0x9a || b>>8 != 0x6b || a != 0 {
		t.Errorf("the icon is #%02x%02x%02x on the ring, opaque %d inside", r>>8, g>>8, b>>8, a)
	}
}
