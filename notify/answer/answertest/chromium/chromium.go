// Package chromium drives a real Chromium with a virtual passkey authenticator, for
// tests of the answer page. It is apart from answertest so that no program links a
// browser driver.
package chromium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// Size is a viewport in CSS pixels.
type Size struct {
	Name          string
	Width, Height int64
	Phone         bool // touch, and two device pixels to a CSS pixel
}

var (
	phone = Size{Name: "phone", Width: 390, Height: 844, Phone: true}
	desk  = Size{Name: "desk", Width: 1280, Height: 800}
)

// Phone is a usual phone, held upright.
func Phone() Size { return phone }

// Desk is a small laptop.
func Desk() Size { return desk }

// patience is how long one step may take.
const patience = 2 * time.Minute

// Browser is a fresh profile of a Chromium, with one tab.
type Browser struct {
	t    testing.TB
	ctx  context.Context
	size Size

	mu       sync.Mutex
	problems []string
}

// Start opens a tab in a profile of its own, with a passkey authenticator that verifies
// its user at once. The test is skipped when there is no Chromium. The tab ends with
// the test, and so does its Chromium unless the package's tests share one; see Main.
func Start(t testing.TB, size Size) *Browser {
	t.Helper()
	parent, err := shared.get()
	if err == nil && parent == nil {
		parent = own(t)
	}
	if err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	ctx, end := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	b := &Browser{t: t, ctx: ctx, size: size}
	t.Cleanup(end)
	b.must("listen", chromedp.Listen(ctx, b.hear))
	for _, enable := range []func(context.Context) error{
		func(c context.Context) error { _, err := chromedp.Call(c, log.Enable, cdp.Empty{}); return err },
		func(c context.Context) error { _, err := chromedp.Call(c, runtime.Enable, cdp.Empty{}); return err },
		func(c context.Context) error {
			_, err := chromedp.Call(c, webauthn.Enable, webauthn.EnableParams{})
			return err
		},
		func(c context.Context) error {
			_, err := chromedp.Call(c, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
				Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
				HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
			return err
		},
	} {
		b.must("start chromium", enable(ctx))
	}
	// Of several tabs only one has the focus, and passkeys are for a page that has it.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.must("focus", err)
	b.Zoom(100)
	return b
}

// Zoom shows pages at a percentage of their size, as the browser's own zoom does: fewer
// CSS pixels on the same screen.
func (b *Browser) Zoom(percent int64) {
	b.t.Helper()
	scale := 1.0
	var emulate []chromedp.EmulateViewportOption
	if b.size.Phone {
		scale, emulate = 2, append(emulate, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	emulate = append(emulate, chromedp.EmulateScale(scale*float64(percent)/100))
	b.Do(chromedp.EmulateViewport(b.size.Width*100/percent, b.size.Height*100/percent, emulate...))
}

// hear collects what the browser complains about.
func (b *Browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // refusals are part of the tests
			b.problems = append(b.problems, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	}
}

// Problems returns what the browser has complained about so far: policy violations,
// script errors, deprecations. Failed requests are not among them.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.problems)
}

func (b *Browser) must(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v (chromium said %q)", what, err, b.Problems())
	}
}

// Do runs steps, all of them within two minutes.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	b.must("chromium", chromedp.Do(ctx, steps...))
}

// Open loads a page.
func (b *Browser) Open(url string) { b.t.Helper(); b.Do(chromedp.Navigate(url)) }

// Wait waits until something that matches the CSS selector can be seen.
func (b *Browser) Wait(css string) { b.t.Helper(); b.Do(chromedp.WaitVisible(chromedp.CSS(css))) }

// Click clicks what matches css once it can be seen and is enabled.
func (b *Browser) Click(css string) {
	b.t.Helper()
	b.Do(chromedp.WaitVisible(chromedp.CSS(css)), chromedp.WaitEnabled(chromedp.CSS(css)), chromedp.Click(chromedp.CSS(css)))
}

// Type types text into what matches css.
func (b *Browser) Type(css, text string) {
	b.t.Helper()
	b.Do(chromedp.WaitVisible(chromedp.CSS(css)), chromedp.SendKeys(chromedp.CSS(css), text))
}

// Text returns the visible text of what matches css.
func (b *Browser) Text(css string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := again(ctx, chromedp.Text(chromedp.CSS(css)))
	b.must("read "+css, err)
	return text
}

// Eval evaluates a JavaScript expression in the page and returns its value.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := again(ctx, chromedp.Evaluate[T](expression))
	b.must("evaluate", err)
	return v
}

// again reads from a page until it holds still: one that goes on to another, or loads
// itself anew, breaks off what is read from it at that moment.
func again[T any](ctx context.Context, read chromedp.Action[T]) (T, error) {
	for {
		v, err := chromedp.Run(ctx, read)
		var gone *cdproto.Error
		if !errors.As(err, &gone) || gone.Code != -32000 { // a server error of JSON-RPC
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Until waits until a JavaScript expression is true in the page.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range patience / (20 * time.Millisecond) {
		if Eval[bool](b, "Boolean("+expression+")") {
			return
		}
		<-tick.C
	}
	b.t.Fatalf("never: %s (chromium said %q)", expression, b.Problems())
}

// BeforeEachPage runs script in every page before the page's own.
func (b *Browser) BeforeEachPage(script string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	b.must("add script", err)
}

// WithoutScripts turns JavaScript off for pages opened from now on.
func (b *Browser) WithoutScripts() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.must("disable scripts", err)
}

// Without makes requests for addresses that match pattern fail.
func (b *Browser) Without(pattern string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	b.must("watch requests", err)
	_, err = chromedp.Call(b.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: pattern, Block: true}}})
	b.must("block requests", err)
}

// Hold keeps requests for addresses that match pattern waiting for ever.
func (b *Browser) Hold(pattern string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: pattern}}})
	b.must("hold requests", err)
	_, err = chromedp.Call(b.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	b.must("forget what was loaded", err)
}

// Begin starts to load a page and does not wait for it.
func (b *Browser) Begin(url string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.Navigate, page.NavigateParams{URL: url})
	b.must("open", err)
}

// Press presses keys, as kb of chromedp names them, on whatever has the focus.
func (b *Browser) Press(keys string) { b.t.Helper(); b.Do(chromedp.KeyEvent(keys)) }

// Dark makes the browser prefer dark pages, or light ones.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
	b.must("set colours", err)
}

// Screenshot writes what is on the screen to $NOD_SCREENSHOTS/name-size.png; it does
// nothing when that is not set.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("NOD_SCREENSHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	b.must("take screenshot", err)
	b.must("make folder", os.MkdirAll(dir, 0o755))
	b.must("write screenshot", os.WriteFile(filepath.Join(dir, name+"-"+b.size.Name+".png"), png, 0o644))
}
