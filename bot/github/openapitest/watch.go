package openapitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"nod/bot/github/githubsim"
	"nod/runtime/runtimetest"
)

// The files that exchanges are held against: GitHub's own, and the newest
// GitHub Enterprise Server's.
var files = []string{"api.github.com.json", "ghes-3.19.json"}

var load = sync.OnceValues(func() ([]*Description, error) {
	dir := os.Getenv("NOD_OPENAPI")
	if dir == "" {
		return nil, nil
	}
	var all []*Description
	for _, f := range files {
		d, err := Load(filepath.Join(dir, f))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
})

// Descriptions returns the published descriptions, or skips the test where
// NOD_OPENAPI does not say where they are.
func Descriptions(t testing.TB) []*Description {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if all == nil {
		runtimetest.Missing(t, "GitHub's OpenAPI description: NOD_OPENAPI is not set")
	}
	return all
}

// Watch returns a transport over next that fails t for each exchange with the API
// at base that the descriptions do not allow; injected faults are not judged. Where
// there are no descriptions it returns next.
func Watch(t testing.TB, next http.RoundTripper, base string) http.RoundTripper {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if all == nil {
		return next
	}
	return watcher{t, next, base, all}
}

type watcher struct {
	t    testing.TB
	next http.RoundTripper
	base string
	all  []*Description
}

func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.String(), w.base) {
		return w.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := w.next.RoundTrip(r)
	if err != nil {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil { // cut in the middle: there is no answer to judge, but the caller gets what came
		res.Body = broken{io.MultiReader(bytes.NewReader(body), failing{err}), res.Body}
		return res, nil
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if res.Header.Get(githubsim.FaultHeader) != "" {
		return res, nil
	}
	for _, d := range w.all {
		if err := d.Check(r, sent, res, body); err != nil {
			w.t.Errorf("%s: %s %s → %d: %v\nsent: %.2000s\ngot: %.2000s", filepath.Base(d.name), r.Method, r.URL, res.StatusCode, err, sent, body)
		}
	}
	return res, nil
}

type broken struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Check holds one exchange against d: the path and the method are declared, so are
// all query parameters, and the request's and the answer's bodies are as declared.
// An error status that is not declared needs the body of any GitHub error; one of
// 500 and above may come from any box on the way and is not judged.
func (d *Description) Check(r *http.Request, sent []byte, res *http.Response, body []byte) error {
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v3")
	path, params, err := d.match(r.Method, escaped)
	if err != nil {
		return err
	}
	doc, err := d.operation(r.Method, path)
	if err != nil {
		return err
	}
	item := doc.Paths.Value(path)
	op := item.GetOperation(r.Method)
	for name := range r.URL.Query() {
		paging := name == "page" || name == "per_page" // go-github sends them with every list
		if op.Parameters.GetByInAndName("query", name) == nil && !paging {
			return fmt.Errorf("the query parameter %q is not declared", name)
		}
	}
	again := r.Clone(context.Background())
	again.Body = io.NopCloser(bytes.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{Request: again, PathParams: params,
		Route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: r.Method, Operation: op},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}}
	in.Options.WithCustomSchemaErrorFunc(func(e *openapi3.SchemaError) string { // the usual text brings whole schemas along
		return fmt.Sprintf("Error at /%s: %s", strings.Join(e.JSONPointer(), "/"), e.Reason)
	})
	if len(sent) == 0 && op.RequestBody != nil && !op.RequestBody.Value.Required {
		in.Options.ExcludeRequestBody = true
	}
	err = openapi3filter.ValidateRequest(again.Context(), in)
	if err != nil && (res.StatusCode < 400 || !refusedFor(err)) {
		return fmt.Errorf("request: %w", err)
	}
	status := res.StatusCode
	if status >= 500 {
		return nil
	}
	if status == http.StatusNotModified { // every GET may be conditional, says GitHub, and declares it for some
		if r.Method != http.MethodGet || r.Header.Get("If-None-Match") == "" || len(body) > 0 {
			return errors.New("answer: 304 to a request that was not conditional, or with a body")
		}
		return nil
	}
	if status >= 400 && op.Responses.Status(status) == nil {
		return basicError(body)
	}
	err = openapi3filter.ValidateResponse(again.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status,
		Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: in.Options})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// refusedFor reports whether a request is wrong in a way that GitHub itself
// refuses, as tests do on purpose.
func refusedFor(err error) bool {
	var e *openapi3.SchemaError
	return errors.As(err, &e)
}

func basicError(body []byte) error {
	if !bytes.Contains(body, []byte(`"message"`)) {
		return errors.New("answer: an undeclared status without the body of a GitHub error")
	}
	return nil
}
