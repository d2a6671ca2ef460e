package hostgit

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"nod"
)

const (
	bundleSignature  = "# v2 git bundle"
	maxPrerequisites = 1024
	maxHeaderLine    = 4096
)

// header is what a bundle says of itself.
type header struct {
	prerequisites []string // commits that whoever reads it must have
	head          string   // the commit of its one ref
}

// readHeader reads a version 2 bundle header and leaves r at the first byte of the
// pack. The format is git's gitformat-bundle(5).
func readHeader(r *bufio.Reader) (header, error) {
	var h header
	first, err := headerLine(r)
	if err != nil {
		return h, err
	}
	if first == "# v3 git bundle" {
		return h, version3(r)
	}
	if first != bundleSignature {
		return h, refuse("it is not a version 2 git bundle", nil)
	}
	for {
		line, err := headerLine(r)
		if err != nil {
			return h, err
		}
		if line == "" {
			break
		}
		if pre, ok := strings.CutPrefix(line, "-"); ok {
			sha, _, _ := strings.Cut(pre, " ")
			if !hexID.MatchString(sha) || h.head != "" {
				return h, refuse("its header is malformed", nil)
			}
			if h.prerequisites = append(h.prerequisites, sha); len(h.prerequisites) > maxPrerequisites {
				return h, refuse("it builds on too many commits", nil)
			}
			continue
		}
		sha, name, ok := strings.Cut(line, " ")
		switch {
		case !ok || !hexID.MatchString(sha) || name == "":
			return h, refuse("its header is malformed", nil)
		case h.head != "":
			return h, refuse("it carries more than one ref", nil)
		}
		h.head = sha
	}
	if h.head == "" {
		return h, refuse("it carries no ref", nil)
	}
	return h, nil
}

// version3 says what asks for the newer version, which nothing that is taken needs:
// other object names, or objects left out.
func version3(r *bufio.Reader) error {
	for {
		line, err := headerLine(r)
		if err != nil {
			return err
		}
		capability, ok := strings.CutPrefix(line, "@")
		switch {
		case !ok:
			return refuse("it is a version 3 git bundle, and only version 2 is taken", nil)
		case strings.HasPrefix(capability, "object-format=") && capability != "object-format=sha1":
			return refuse("its objects are named by another hash than SHA-1", nil)
		case strings.HasPrefix(capability, "filter="):
			return refuse("it leaves out objects", nil)
		}
	}
}

// headerLine reads one line of bounded length without its newline.
func headerLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		c, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return "", refuse("it is cut short", io.ErrUnexpectedEOF)
		case err != nil:
			return "", nod.E(nod.Internal, "read the bundle", err)
		case c == '\n':
			return b.String(), nil
		case b.Len() == maxHeaderLine:
			return "", refuse("it is not a version 2 git bundle", nil)
		}
		b.WriteByte(c)
	}
}

// refuse is the error for work that is not taken; "it" in why is its bundle.
func refuse(why string, err error) error {
	return nod.E(nod.Invalid, "the work is refused: "+why, err)
}

// tooBig is the error for work that is over one of the limits.
func tooBig(why string) error {
	return nod.E(nod.TooLarge, "the work is refused: "+why, nil)
}
