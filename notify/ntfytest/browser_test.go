package ntfytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"nod/runtime/runtimetest"
)

// TestPhoneUpdatesInARealBrowser shows the page in Chromium at the size of a
// phone and waits for a push to appear without a reload. With NOD_SHOTS set to a
// directory it leaves pictures there.
func TestPhoneUpdatesInARealBrowser(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		runtimetest.Missing(t, "chromium")
	}
	_, url := serve(t, phoneConfig())
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.WindowSize(390, 844))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	run := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	shot := func(name string) {
		t.Helper()
		dir := os.Getenv("NOD_SHOTS")
		if dir == "" {
			return
		}
		png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(chromedp.EmulateViewport(390, 844), chromedp.Navigate(url+"/phone"), chromedp.WaitVisible("#live.on"), chromedp.WaitVisible(".empty"))
	shot("phone-empty.png")
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"Ready to push?","message":"Task t3f9a12c waits for your review.","click":"https://nod.test/d/1","priority":3}`, nil)
	run(chromedp.WaitVisible(`a[href="https://nod.test/d/1"]`))
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"Allow a tool?","message":"Task t3f9a12c waits for your approval.","click":"https://nod.test/d/2","priority":4}`, nil)
	run(chromedp.WaitVisible(`.newest a[href="https://nod.test/d/2"]`))
	shot("phone.png")
}
