package hostgit

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" // the hash of git's object names, not a defence
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"nod"
)

// commit is a parsed commit object.
type commit struct {
	id, tree string
	parents  []string
	authored time.Time // zero when it cannot be read
	encoding string
	message  string
}

func (o *objects) commit(id string) (commit, error) {
	b, err := o.read("commit", parseOID(id))
	if err != nil {
		return commit{}, err
	}
	return parseCommit(id, b)
}

func parseCommit(id string, b []byte) (commit, error) {
	c := commit{id: id}
	head, message, _ := bytes.Cut(b, []byte("\n\n"))
	c.message = string(message)
	for line := range strings.SplitSeq(string(head), "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			if c.tree == "" {
				c.tree = value
			}
		case "parent":
			if !hexID.MatchString(value) {
				return c, refuse("a commit is malformed", nil)
			}
			c.parents = append(c.parents, value)
		case "author":
			c.authored = when(value)
		case "encoding":
			c.encoding = value
		}
	}
	if !hexID.MatchString(c.tree) {
		return c, refuse("a commit is malformed", nil)
	}
	return c, nil
}

var stamp = regexp.MustCompile(`> ([0-9]{1,11}) ([+-])([0-9]{2})([0-9]{2})$`)

// when reads the time at the end of an author line.
func when(author string) time.Time {
	f := stamp.FindStringSubmatch(author)
	if f == nil {
		return time.Time{}
	}
	var n [3]int
	for i, s := range []string{f[1], f[3], f[4]} {
		v, err := strconv.Atoi(s)
		if err != nil {
			return time.Time{}
		}
		n[i] = v
	}
	offset := n[1]*3600 + n[2]*60
	if n[2] > 59 || offset > 14*3600 {
		offset = 0
	}
	if f[2] == "-" {
		offset = -offset
	}
	return time.Unix(int64(n[0]), 0).In(time.FixedZone("", offset))
}

// sane keeps an agent's author date where it can be true, or takes now.
func sane(t, now time.Time) time.Time {
	if t.IsZero() || t.After(now) || t.Before(time.Date(2005, 4, 7, 0, 0, 0, 0, time.UTC)) {
		return now.UTC()
	}
	return t
}

func (i Identity) at(t time.Time) string {
	return fmt.Sprintf("%s <%s> %d %s", i.Name, i.Email, t.Unix(), t.Format("-0700"))
}

// text returns the message when it is UTF-8 without control characters, which are
// dropped but for tabs and newlines.
func (c commit) text() (string, error) {
	enc := strings.ToLower(c.encoding)
	if enc != "" && enc != "utf-8" && enc != "utf8" || !utf8.ValidString(c.message) {
		return "", nod.E(nod.Invalid, "the message of commit "+c.id[:12]+" is not UTF-8", nod.ErrMessages)
	}
	s := strings.ReplaceAll(c.message, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r == 0x7f) {
			return -1
		}
		return r
	}, s), nil
}

// writeObject puts a loose object into the object directory and returns its id.
func writeObject(dir, kind string, body []byte) (string, error) {
	whole := append([]byte(kind+" "+strconv.Itoa(len(body))+"\x00"), body...)
	sum := sha1.Sum(whole)
	id := hex.EncodeToString(sum[:])
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err1 := z.Write(whole)
	err := errors.Join(err1, z.Close(), os.MkdirAll(filepath.Join(dir, id[:2]), 0o700))
	if err != nil {
		return "", nod.E(nod.Internal, "write a git object", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, id[:2], id[2:]), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return id, nil
	}
	if err == nil {
		_, err = f.Write(b.Bytes())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", nod.E(nod.Internal, "write a git object", err)
	}
	return id, nil
}
