package githubsim_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v66/github"

	"nod/bot/github/githubsim"
)

// jwt signs an App's token; change edits its parts first.
func (w *world) jwt(change func(head, claims map[string]any)) string {
	w.Helper()
	app := w.sim.App()
	block, _ := pem.Decode([]byte(app.PEM.Reveal()))
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	w.ok(err)
	now := w.clock.now()
	head := map[string]any{"alg": "RS256", "typ": "JWT"}
	claims := map[string]any{"iss": strconv.FormatInt(app.ID, 10), "iat": now.Add(-30 * time.Second).Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	if change != nil {
		change(head, claims)
	}
	var parts []string
	for _, v := range []any{head, claims} {
		raw, err := json.Marshal(v)
		w.ok(err)
		parts = append(parts, base64.RawURLEncoding.EncodeToString(raw))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ".")))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	w.ok(err)
	return strings.Join(append(parts, base64.RawURLEncoding.EncodeToString(sig)), ".")
}

func (w *world) installationToken(perms map[string]string) string {
	w.Helper()
	in, err := w.sim.Installation(full)
	w.ok(err)
	body, err := json.Marshal(map[string]any{"repositories": []string{"web"}, "permissions": perms})
	w.ok(err)
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.base+"/app/installations/"+strconv.FormatInt(in, 10)+"/access_tokens", bytes.NewReader(body))
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+w.jwt(nil))
	res, err := http.DefaultClient.Do(req)
	w.ok(err)
	defer func() { w.ok(res.Body.Close()) }()
	var got struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	w.ok(json.NewDecoder(res.Body).Decode(&got))
	if res.StatusCode != http.StatusCreated || !strings.HasPrefix(got.Token, "ghs_") {
		w.Fatalf("mint: %d", res.StatusCode)
	}
	if left := got.ExpiresAt.Sub(w.clock.now()); left > githubsim.TokenLife || left < githubsim.TokenLife-2*time.Second {
		w.Errorf("the token lives %v", left)
	}
	return got.Token
}

func statusOf(err error) int {
	var e *gh.ErrorResponse
	if errors.As(err, &e) {
		return e.Response.StatusCode
	}
	return 0
}

func TestAppTokenMustBeRight(t *testing.T) {
	w := newWorld(t)
	if _, _, err := w.withToken(w.jwt(nil)).Apps.Get(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(head, claims map[string]any){
		"other algorithm": func(h, _ map[string]any) { h["alg"] = "none" },
		"other app":       func(_, c map[string]any) { c["iss"] = "1" },
		"expired":         func(_, c map[string]any) { c["exp"] = w.clock.now().Add(-2 * time.Minute).Unix() },
		"from the future": func(_, c map[string]any) { c["iat"] = w.clock.now().Add(5 * time.Minute).Unix() },
		"too long":        func(_, c map[string]any) { c["exp"] = w.clock.now().Add(time.Hour).Unix() },
	} {
		if _, _, err := w.withToken(w.jwt(change)).Apps.Get(t.Context(), ""); statusOf(err) != http.StatusUnauthorized {
			t.Errorf("%s: got %v", name, err)
		}
	}
	forged := w.jwt(nil)
	if _, _, err := w.withToken(forged[:len(forged)-8]+"AAAAAAAA").Apps.Get(t.Context(), ""); statusOf(err) != http.StatusUnauthorized {
		t.Errorf("forged: got %v", err)
	}
	if _, _, err := w.withToken(w.jwt(nil)).Repositories.Get(t.Context(), "ada", "web"); statusOf(err) != http.StatusUnauthorized {
		t.Errorf("the App's own token is for the App's own calls: got %v", err)
	}
}

func TestInstallationTokenExpires(t *testing.T) {
	w := newWorld(t)
	c := w.asApp(map[string]string{"issues": "read"})
	if _, _, err := c.Issues.ListByRepo(t.Context(), "ada", "web", nil); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(githubsim.TokenLife + time.Second)
	if _, _, err := c.Issues.ListByRepo(t.Context(), "ada", "web", nil); statusOf(err) != http.StatusUnauthorized {
		t.Errorf("after an hour: got %v", err)
	}
}

func TestCallOutsidePermissionsIsRefusedAsByGitHub(t *testing.T) {
	w := newWorld(t)
	c := w.asApp(map[string]string{"issues": "read"})
	n, err := w.sim.CreateIssue("out", full, "t", "")
	w.ok(err)
	_, _, err = c.Issues.CreateComment(t.Context(), "ada", "web", n, &gh.IssueComment{Body: gh.String("x")})
	var e *gh.ErrorResponse
	if !errors.As(err, &e) || e.Response.StatusCode != http.StatusForbidden || e.Message != "Resource not accessible by integration" || e.DocumentationURL == "" {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.Git.GetRef(t.Context(), "ada", "web", "heads/main"); statusOf(err) != http.StatusForbidden {
		t.Errorf("contents: got %v", err)
	}
	if got := w.view(n).Comments; len(got) != 0 {
		t.Errorf("the comment was written: %+v", got)
	}
	reader := w.asUser("out")
	if _, _, err := reader.Issues.AddLabelsToIssue(t.Context(), "ada", "web", n, []string{"nod"}); statusOf(err) != http.StatusForbidden {
		t.Errorf("a stranger labels: got %v", err)
	}
	if _, _, err := reader.Issues.CreateComment(t.Context(), "ada", "web", n, &gh.IssueComment{Body: gh.String("hello")}); err != nil {
		t.Errorf("a stranger may comment on a public issue: got %v", err)
	}
}

func (w *world) view(n int) githubsim.IssueView {
	w.Helper()
	v, err := w.sim.View(full, n)
	w.ok(err)
	return v
}
