package webhooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/store"
	"nod/webhooks"
)

// childDir names, in the environment of this test binary, the directory that makes
// it a receiver which is there to be killed.
const childDir = "NOD_WEBHOOKS_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child receives deliveries and makes a task of each label event, until it is killed.
func child(dir string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(dir, "nod.db")})
	if err != nil {
		return err
	}
	rc, err := webhooks.New(webhooks.Config{Secrets: []nod.Secret{nod.NewSecret("s3cret")}, Accept: s, AppID: 4242, Host: "github.com",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "address")); err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- http.Serve(l, rc) }()
	for range 2 {
		go func() { failed <- work(ctx, s) }()
	}
	return <-failed
}

// work makes a task of each label event, in the change that finishes its delivery.
func work(ctx context.Context, s *store.Store) error {
	parse := webhooks.Parser("github.com")
	for {
		d, err := s.LeaseDelivery(ctx, time.Second)
		if code := nod.CodeOf(err); err != nil && (code == nod.NotFound || code == nod.Unavailable) { // nothing is due, or another process opens the file
			<-time.After(5 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		o, err := parse(d)
		if err != nil {
			return err
		}
		d.State = nod.DeliveryDone
		t := nod.Task{ID: fmt.Sprintf("t%016x", d.ID), Repo: o.Repo, Installation: o.Installation, Issue: o.Issue, Title: "t", State: nod.TaskQueued,
			Agent: "scripted", RequestedBy: o.Sender, InputDigest: nod.Digest([]byte("{}")), BaseRef: "main", Branch: fmt.Sprintf("nod/%d", d.ID)}
		err = s.Apply(ctx, &nod.Change{By: o.Sender, Tasks: []*nod.Task{&t}, Deliveries: []*nod.Delivery{&d}, Blobs: [][]byte{[]byte("{}")}})
		if err != nil && nod.CodeOf(err) != nod.Conflict { // a conflict: the lease ran out, another worker has it
			return err
		}
	}
}

// TestEveryLabelEventStartsOnceWhileTheProcessIsKilled holds invariants 1, 2 and 13 at
// the door: deliveries with 30 % duplicates (R01: the same GUID, R02: another one), in
// any order, from 64 connections, while the receiver is killed over and over.
func TestEveryLabelEventStartsOnceWhileTheProcessIsKilled(t *testing.T) {
	total, kills := 400, 4
	if os.Getenv("NOD_TEST_LONG") != "" {
		total, kills = 10_000, 20
	}
	distinct := total * 7 / 10
	type sent struct{ event, guid int }
	var all []sent
	for i := range total {
		one := sent{i % distinct, i % distinct}
		if i >= distinct && i%2 == 0 {
			one.guid = i
		}
		all = append(all, one)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })

	r := newVictim(t)
	defer r.kill()
	var next, answered, lost atomic.Int64
	due := make(chan struct{}, kills)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(total); i = next.Add(1) - 1 {
				guid := fmt.Sprintf("00000000-0000-4000-8000-%012d", all[i].guid)
				for r.post(t.Context(), guid, labelled(all[i].event, 0)) != nil {
					if lost.Add(1); t.Context().Err() != nil {
						return
					}
				}
				if n := answered.Add(1); n%int64(total/(kills+1)) == 0 && n < int64(total) {
					select {
					case due <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	killed := 0
	for running := true; running; {
		select {
		case <-due:
			if killed == kills {
				continue
			}
			r.kill()
			r.start()
			killed++
		case <-ended:
			running = false
		}
	}
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(r.dir, "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		by, err := s.DeliveriesByState(t.Context())
		if err != nil && nod.CodeOf(err) != nod.Unavailable { // the other process may be recovering the file
			t.Fatal(err)
		}
		if err == nil && by[nod.DeliveryPending]+by[nod.DeliveryLeased] == 0 {
			t.Logf("%d deliveries of %d events, %d answered, %d answers lost, %d kills: %v", total, distinct, answered.Load(), lost.Load(), killed, by)
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("never done")
		}
	}
	tasks, err := s.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	issues := map[int]int{}
	for _, task := range tasks {
		issues[task.Issue]++
	}
	if len(tasks) != distinct || len(issues) != distinct || killed == 0 {
		t.Errorf("%d tasks of %d issues after %d kills, want %d", len(tasks), len(issues), killed, distinct)
	}
	if report, err := s.VerifyChain(t.Context(), ""); err != nil || !report.Verified {
		t.Errorf("audit chain: %+v, %v", report, err)
	}
}

// victim is a receiver in another process.
type victim struct {
	t      *testing.T
	dir    string
	client *http.Client
	mu     sync.Mutex
	cmd    *exec.Cmd
	url    string
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	r := &victim{t: t, dir: t.TempDir(), client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	r.start()
	return r
}

func (r *victim) start() {
	r.t.Helper()
	address := filepath.Join(r.dir, "address")
	if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), self)
	cmd.Env = append(os.Environ(), childDir+"="+r.dir)
	cmd.Stderr = r.t.Output()
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for {
		if raw, err := os.ReadFile(address); err == nil {
			r.mu.Lock()
			r.cmd, r.url = cmd, "http://"+string(raw)
			r.mu.Unlock()
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.t.Context().Done():
			r.t.Fatal("the receiver never came up")
		}
	}
}

func (r *victim) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
	_ = r.cmd.Wait() // it was killed, and says so
}

// post sends a delivery and returns nil when it was taken.
func (r *victim) post(ctx context.Context, guid string, body []byte) error {
	r.mu.Lock()
	url := r.url
	r.mu.Unlock()
	from := delivery(guid, "issues", body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = from.Header
	res, err := r.client.Do(req)
	if err != nil {
		select { // it is being started anew
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		return err
	}
	if res.StatusCode >= 300 {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return errors.Join(err, res.Body.Close())
}
