package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T, kind int) (host, guest int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

// serveWith runs the control loop with a spawn that always refuses.
func serveWith(t *testing.T, spawned *int) (host int, ended chan error) {
	t.Helper()
	host, control := pair(t, unix.SOCK_SEQPACKET)
	s := &server{control: control, runners: map[int]uint64{}, spawn: func(int) (int, error) {
		*spawned++
		return 0, errors.New("not here")
	}}
	ended = make(chan error, 1)
	go func() { ended <- errors.Join(s.loop(), unix.Close(control)) }()
	return host, ended
}

func TestExecServerSurvivesGarbage(t *testing.T) {
	spawned := 0
	host, ended := serveWith(t, &spawned)
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	stray := unix.UnixRights(int(null.Fd()), int(null.Fd()))
	for _, packet := range [][]byte{
		[]byte("x"), []byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{0xff}, 5000), {'n', 1, 200, 0, 0, 0, 0, 0},
		{'n', 1, byte(FrameExec), 0, 0, 0, 0, 9}, {'n', 2, byte(FrameExec), 0, 0, 0, 0, 0}, {'n', 1, byte(FrameBoot), 0, 0, 0, 0, 1, 'x'},
		{'n', 1, byte(FrameExec), 0, 0, 0, 0, 0}, // an exec without its number
	} {
		for _, rights := range [][]byte{nil, stray} {
			if err := unix.Sendmsg(host, packet, rights, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	own, other := pair(t, unix.SOCK_STREAM)
	if err := sendPacket(host, FrameExec, make([]byte, 8), other); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(other); err != nil {
		t.Fatal(err)
	}
	answer := os.NewFile(uintptr(own), "exec")
	typ, payload, err := ReadFrame(answer)
	var s Started
	if err == nil {
		err = json.Unmarshal(payload, &s)
	}
	if err != nil || typ != FrameStarted || s.Err == "" {
		t.Errorf("the exec after the garbage was answered %d %s %v", typ, payload, err)
	}
	if _, _, err := ReadFrame(answer); err != io.EOF {
		t.Errorf("behind the answer: %v", err)
	}
	if err := errors.Join(answer.Close(), unix.Close(host)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errClosed) {
		t.Errorf("the loop ended with %v", err)
	}
	if spawned != 1 {
		t.Errorf("%d runners were started, 1 was asked for", spawned)
	}
}

func FuzzControlPacket(f *testing.F) {
	f.Add([]byte{'n', 1, byte(FrameGo), 0, 0, 0, 0, 0})
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) == 0 || len(packet) > 64<<10 || bytes.HasPrefix(packet, []byte{'n', 1, byte(FrameSweep)}) {
			return // an end of file, a packet that the kernel refuses, or a sweep of this machine
		}
		spawned := 0
		host, ended := serveWith(t, &spawned)
		if err := errors.Join(unix.Send(host, packet, 0), unix.Close(host)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, errClosed) || spawned != 0 {
			t.Fatalf("the loop ended with %v, %d runners", err, spawned)
		}
	})
}

func TestStatIsReadPastAnyName(t *testing.T) {
	for in, want := range map[string]struct {
		state  byte
		parent int
		ok     bool
	}{
		"12 (sh) S 7 12 12":      {'S', 7, true},
		"12 (a) R 1 (b)) Z 9 12": {'Z', 9, true},
		"12 (a\n) X 1) S 3 1":    {'S', 3, true},
		"":                       {},
		"12 sh S 7":              {},
		"12 (sh) S":              {},
		"12 (sh) SS 4":           {},
		"12 (sh) S x":            {'S', 0, false},
	} {
		state, parent, ok := parseStat([]byte(in))
		if ok != want.ok || ok && (state != want.state || parent != want.parent) {
			t.Errorf("%q: %c %d %v", in, state, parent, ok)
		}
	}
}

func TestDescentEndsInALoop(t *testing.T) {
	parents := map[int]int{2: 1, 3: 2, 4: 5, 5: 4, 6: 6}
	for pid, want := range map[int]bool{2: true, 3: true, 4: false, 5: false, 6: false, 7: false} {
		if got := descendsFrom(pid, parents, map[int]bool{1: true}); got != want {
			t.Errorf("%d descends from 1: %v", pid, got)
		}
	}
}

func TestInletRefusesMoreThanItsWindow(t *testing.T) {
	r, w := io.Pipe()
	in := newInlet(w)
	for range Window / MaxData {
		if !in.push(make([]byte, MaxData)) {
			t.Fatal("what was credited is refused")
		}
	}
	if in.push([]byte{0}) {
		t.Error("more than the window is taken")
	}
	in.finish()
	if in.push(nil) {
		t.Error("input is taken after its end")
	}
	credited := 0
	go in.drain(func(n int) error { credited += n; return nil })
	if n, err := io.Copy(io.Discard, r); err != nil || n != Window {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
	if credited != Window {
		t.Errorf("%d bytes were credited", credited)
	}
}
