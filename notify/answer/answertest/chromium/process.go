package chromium

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"nod/runtime/runtimetest"
)

// process is a Chromium that all tests of a package share, started by the first that
// needs it.
type process struct {
	mu   sync.Mutex
	used bool // by a Main
	dir  string
	ctx  context.Context
	err  error
	end  func()
}

// shared cannot be handed from Main to the tests in any other way: package testing
// runs them.
var shared process

// Main runs the tests of a package, whose browsers are then profiles of one Chromium,
// and returns the exit code. It is called by TestMain: a start takes longer than most
// tests.
func Main(m *testing.M) int {
	shared.mu.Lock()
	shared.used = true
	shared.mu.Unlock()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "end chromium:", err)
		code = max(code, 1)
	}
	return code
}

// get returns the context of the shared Chromium, or nil when none is shared or there
// is no Chromium.
func (p *process) get() (context.Context, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	program := find()
	if !p.used || program == "" || p.ctx != nil || p.err != nil {
		return p.ctx, p.err
	}
	if p.dir, p.err = os.MkdirTemp("", "nod-chromium-"); p.err != nil {
		return nil, p.err
	}
	var ctx context.Context
	if ctx, p.end, p.err = launch(program, p.dir); p.err == nil {
		p.ctx = ctx
	}
	return p.ctx, p.err
}

func (p *process) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		p.end()
	}
	return remove(p.dir)
}

// remove removes a profile, in which Chromium's children write for a moment after it
// has ended.
func remove(dir string) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		if err := os.RemoveAll(dir); err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
}

// own starts a Chromium that ends with t.
func own(t testing.TB) context.Context {
	t.Helper()
	program := find()
	if program == "" {
		runtimetest.Missing(t, "chromium (or NOD_CHROMIUM)")
	}
	dir, err := os.MkdirTemp("", "nod-chromium-") // t.TempDir may be removed only once
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(dir); err != nil {
			t.Errorf("remove chromium's profile: %v", err)
		}
	})
	ctx, end, err := launch(program, dir)
	if err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	t.Cleanup(end)
	return ctx
}

// launch starts program with its profile in dir. end ends it in order.
func launch(program, dir string) (ctx context.Context, end func(), err error) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.WSURLReadTimeout(patience), chromedp.UserDataDir(dir), chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocator)
	end = func() {
		last, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := chromedp.Cancel(last); err != nil {
			fmt.Fprintln(os.Stderr, "close chromium:", err)
		}
		endBrowser()
		endAllocator()
	}
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}

func find() string {
	if named := os.Getenv("NOD_CHROMIUM"); named != "" {
		return named
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
