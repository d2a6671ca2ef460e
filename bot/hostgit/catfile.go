package hostgit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"nod"
)

// objects reads objects from one long-lived git cat-file.
type objects struct {
	ctx    context.Context
	cancel context.CancelFunc
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errs   *tail
	limit  int64 // of one object
}

func (m *mirror) objects(ctx context.Context, quarantine string, limit int64) (*objects, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &objects{ctx: ctx, cancel: cancel, errs: &tail{limit: stderrCap}, limit: limit}
	o.cmd = m.g.command(ctx, m.in(call{objects: quarantine}), "cat-file", "--batch-command")
	o.cmd.Stderr = o.errs
	in, err1 := o.cmd.StdinPipe()
	out, err2 := o.cmd.StdoutPipe()
	err := errors.Join(err1, err2)
	if err == nil {
		err = o.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nod.E(nod.Internal, "start git cat-file", err)
	}
	o.in, o.out = in, bufio.NewReaderSize(out, 64<<10)
	return o, nil
}

// close ends the process; what it says at the end no longer matters.
func (o *objects) close() {
	_ = o.in.Close()
	o.cancel()
	_ = o.cmd.Wait()
}

func (o *objects) fail(err error) error {
	return failed(o.ctx, "cat-file", err, string(o.errs.b))
}

// answer reads one header line: the object's type and size.
func (o *objects) answer(id oid) (kind string, size int64, err error) {
	line, err := o.out.ReadString('\n')
	if err != nil {
		return "", 0, o.fail(err)
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return "", 0, refuse("the object "+id.String()+" is missing", nil)
	}
	if len(f) != 3 || f[0] != id.String() {
		return "", 0, o.fail(fmt.Errorf("answered %q", line))
	}
	size, err = strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return "", 0, o.fail(err)
	}
	return f[1], size, nil
}

// read returns the contents of an object that must be of the given kind. After an
// error o is of no more use.
func (o *objects) read(kind string, id oid) ([]byte, error) {
	if _, err := io.WriteString(o.in, "contents "+id.String()+"\n"); err != nil {
		return nil, o.fail(err)
	}
	is, size, err := o.answer(id)
	if err != nil {
		return nil, err
	}
	if is != kind {
		return nil, refuse("the object "+id.String()+" is a "+is+" where a "+kind+" must be", nil)
	}
	if size > o.limit {
		return nil, tooBig("one of its objects is over the size that one file may have")
	}
	b := make([]byte, size+1)
	if _, err := io.ReadFull(o.out, b); err != nil {
		return nil, o.fail(err)
	}
	return b[:size], nil
}

// sizes returns the sizes of blobs. Questions are sent in portions that fit the
// pipe, so that neither side waits for the other for ever.
func (o *objects) sizes(ids []oid) ([]int64, error) {
	const portion = 256
	sizes := make([]int64, 0, len(ids))
	for len(ids) > 0 {
		n := min(portion, len(ids))
		var b strings.Builder
		for _, id := range ids[:n] {
			b.WriteString("info " + id.String() + "\n")
		}
		if _, err := io.WriteString(o.in, b.String()); err != nil {
			return nil, o.fail(err)
		}
		for _, id := range ids[:n] {
			kind, size, err := o.answer(id)
			if err != nil {
				return nil, err
			}
			if kind != "blob" {
				return nil, refuse("the object "+id.String()+" is a "+kind+" where a file must be", nil)
			}
			sizes = append(sizes, size)
		}
		ids = ids[n:]
	}
	return sizes, nil
}
