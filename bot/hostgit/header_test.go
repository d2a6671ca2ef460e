package hostgit

import (
	"bufio"
	"bytes"
	"context"
	"strings"
	"testing"

	"nod"
)

func FuzzBundleHeader(f *testing.F) {
	sha := strings.Repeat("0a", 20)
	f.Add([]byte("# v2 git bundle\n-" + sha + " subject\n" + sha + " HEAD\n\nPACK"))
	f.Add([]byte("# v3 git bundle\n@object-format=sha256\n"))
	f.Add([]byte("# v2 git bundle\n" + sha + " refs/heads/x\n" + sha + " y\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		h, err := readHeader(r)
		if err != nil {
			if c := nod.CodeOf(err); c != nod.Invalid {
				t.Fatalf("code %s", c)
			}
			return
		}
		if !hexID.MatchString(h.head) || len(h.prerequisites) > maxPrerequisites {
			t.Fatalf("accepted %+v", h)
		}
		rest := len(b) - bytes.Index(b, []byte("\n\n")) - 2
		if r.Buffered() > rest {
			t.Fatalf("%d bytes are left, at most %d follow the header", r.Buffered(), rest)
		}
	})
}

func FuzzPackScan(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31x\x9c\x03\x00\x00\x00\x00\x01aaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := Limits{AddedEntries: 100, Commits: 1, AddedBytes: 1 << 16, BlobBytes: 1 << 12}
		err := scanPack(context.Background(), bufio.NewReader(bytes.NewReader(b)), int64(len(b)), l)
		if c := nod.CodeOf(err); err != nil && c != nod.Invalid && c != nod.TooLarge {
			t.Fatalf("code %s: %v", c, err)
		}
	})
}
