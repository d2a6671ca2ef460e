package answer_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"nod"
)

func TestSessionEndsAfterTwelveHoursAtMost(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.UserAgent = "Mozilla/5.0 (X11; Linux x86_64)"
	w.must(c.Enrol(t.Context(), w.invite("desk")))
	w.must(c.SignIn(t.Context()))
	for range 12 {
		if _, err := c.Page(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour - time.Second)
	}
	if _, err := c.Page(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	w.pass(13 * time.Second)
	_, err := c.Page(t.Context(), "/")
	w.wantCode(err, nod.Unauthenticated)
}

func TestIdlePhoneIsSignedOut(t *testing.T) {
	w := newWorld(t)
	phone, desk := w.client(), w.client()
	phone.UserAgent, desk.UserAgent = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X)", "Mozilla/5.0 (X11; Linux x86_64)"
	w.must(phone.Enrol(t.Context(), w.invite("phone")))
	w.must(desk.Enrol(t.Context(), w.invite("desk")))
	w.must(phone.SignIn(t.Context()))
	w.must(desk.SignIn(t.Context()))
	w.pass(14 * time.Minute)
	_, err := phone.Page(t.Context(), "/")
	w.must(err)
	w.pass(14 * time.Minute)
	_, err = phone.Page(t.Context(), "/")
	w.must(err)
	w.pass(15 * time.Minute)
	_, err = phone.Page(t.Context(), "/")
	w.wantCode(err, nod.Unauthenticated)
	_, err = desk.Page(t.Context(), "/")
	w.must(err)
}

var sessionField = regexp.MustCompile(`name="session" value="([0-9a-f]{64})"`)

// TestDeviceListSignsOthersOut: with the session alone, by POST from this site, and
// only what the list shows.
func TestDeviceListSignsOthersOut(t *testing.T) {
	w := newReal(t)
	ada, lost := w.approver("ada"), w.approver("lost")
	limited := w.approver("web only", "github.com/acme/web")
	if got := sessionField.FindAllString(w.page_(limited, "/devices"), -1); len(got) != 1 {
		t.Errorf("a limited passkey sees %d sessions", len(got))
	}
	html := w.page_(ada, "/devices")
	all := sessionField.FindAllStringSubmatch(html, -1)
	if len(all) != 3 || !strings.Contains(html, "this one") {
		t.Fatalf("%d sessions are listed", len(all))
	}
	sessions, err := w.Sessions(t.Context())
	w.must(err)
	id := ""
	for _, s := range sessions {
		if s.Passkey == lost.Key.ID() {
			id = s.TokenDigest
		}
	}
	if err := limited.Form(t.Context(), "/devices/signout", map[string]string{"session": id}); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("signing out a session that is not listed: %v", err)
	}
	w.must(ada.Form(t.Context(), "/devices/signout", map[string]string{"session": id}))
	if _, err := lost.Page(t.Context(), "/"); nod.CodeOf(err) != nod.Unauthenticated {
		t.Errorf("the lost phone still reads: %v", err)
	}
	if _, err := ada.Page(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

func TestSignOutOfADeviceFromAnotherSiteIsRefused(t *testing.T) {
	w := newWorld(t)
	resp, _ := w.do(http.MethodPost, "/devices/signout", http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"},
		"Content-Type": {"application/x-www-form-urlencoded"}}, "session=x")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", resp.StatusCode)
	}
}
