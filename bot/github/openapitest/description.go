package openapitest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Description is one published file. The file is large and few of its operations
// are used, so each is compiled, with what it refers to, when it is first needed.
type Description struct {
	name       string
	version    string
	templates  []template
	paths      map[string]map[string]json.RawMessage
	components map[string]map[string]json.RawMessage

	mu       sync.Mutex // guards what follows
	compiled map[string]*openapi3.T
	used     map[string]bool
}

// template is a path of the description, such as /repos/{owner}/{repo}.
type template struct {
	path     string
	segments []string
	literals int
}

// manySegments are the parameters at the end of a path that may hold slashes.
var manySegments = []string{"{ref}", "{branch}", "{path}", "{basehead}"}

// Load reads a description.
func Load(file string) (*Description, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		OpenAPI    string                                `json:"openapi"`
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	d := &Description{name: file, version: doc.OpenAPI, paths: doc.Paths, components: doc.Components, compiled: map[string]*openapi3.T{}, used: map[string]bool{}}
	for path := range doc.Paths {
		t := template{path: path, segments: strings.Split(path, "/")}
		for _, s := range t.segments {
			if !strings.HasPrefix(s, "{") {
				t.literals++
			}
		}
		d.templates = append(d.templates, t)
	}
	return d, nil
}

// Used lists the operations that exchanges were held against, sorted.
func (d *Description) Used() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for op := range d.used {
		all = append(all, op)
	}
	slices.Sort(all)
	return all
}

// match finds the template of an escaped path, the most literal one where several
// fit, and the values of its parameters.
func (d *Description) match(method, escaped string) (string, map[string]string, error) {
	segments := strings.Split(escaped, "/")
	best, bestParams := template{literals: -1}, map[string]string(nil)
	for _, t := range d.templates {
		if t.literals <= best.literals || d.paths[t.path][strings.ToLower(method)] == nil {
			continue
		}
		if params, ok := t.match(segments); ok {
			best, bestParams = t, params
		}
	}
	if best.literals < 0 {
		return "", nil, fmt.Errorf("%s %s is not declared", method, escaped)
	}
	return best.path, bestParams, nil
}

func (t template) match(segments []string) (map[string]string, bool) {
	last := len(t.segments) - 1
	if len(segments) > len(t.segments) && slices.Contains(manySegments, t.segments[last]) {
		segments = append(slices.Clone(segments[:last]), strings.Join(segments[last:], "/"))
	}
	if len(segments) != len(t.segments) {
		return nil, false
	}
	params := map[string]string{}
	for i, s := range t.segments {
		switch {
		case strings.HasPrefix(s, "{"):
			value, err := url.PathUnescape(segments[i])
			if err != nil || value == "" {
				return nil, false
			}
			params[strings.Trim(s, "{}")] = value
		case s != segments[i]:
			return nil, false
		}
	}
	return params, true
}

var reference = regexp.MustCompile(`"\$ref"\s*:\s*"#/components/([^/"]+)/([^"]+)"`)

// operation compiles one operation.
func (d *Description) operation(method, path string) (*openapi3.T, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := method + " " + path
	d.used[key] = true
	if doc := d.compiled[key]; doc != nil {
		return doc, nil
	}
	op := d.paths[path][strings.ToLower(method)]
	components := map[string]map[string]json.RawMessage{}
	var follow func(raw json.RawMessage)
	follow = func(raw json.RawMessage) {
		for _, m := range reference.FindAllSubmatch(raw, -1) {
			kind, name := string(m[1]), string(m[2])
			if kind == "examples" || components[kind][name] != nil || d.components[kind][name] == nil {
				continue
			}
			if components[kind] == nil {
				components[kind] = map[string]json.RawMessage{}
			}
			components[kind][name] = d.components[kind][name]
			follow(d.components[kind][name])
		}
	}
	follow(op)
	raw, err := json.Marshal(map[string]any{"openapi": d.version, "info": map[string]string{"title": "part", "version": "1"},
		"paths": map[string]any{path: map[string]json.RawMessage{strings.ToLower(method): op}}, "components": components})
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(mend(tree)); err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", key, err)
	}
	d.compiled[key] = doc
	return doc, nil
}

// mend drops the examples, which are most of the description and say nothing about
// what is allowed, and repairs the one mistake in it that is known: the account of a
// listed installation would have to be a user and an enterprise at once, where every
// other installation's is one of them.
func mend(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = mend(v[i])
		}
	case map[string]any:
		if all, ok := v["allOf"].([]any); ok && len(all) == 2 && titled(all[0], "Simple User") && titled(all[1], "Enterprise") {
			delete(v, "allOf")
			v["anyOf"] = all
		}
		for k, child := range v {
			if held, isMap := child.(map[string]any); k == "examples" && isMap && held["type"] == nil && held["$ref"] == nil {
				delete(v, k)
				continue
			}
			v[k] = mend(child)
		}
	}
	return v
}

func titled(v any, title string) bool {
	m, ok := v.(map[string]any)
	return ok && m["title"] == title
}
