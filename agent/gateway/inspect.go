package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"nod"
)

// handed are the kinds of tools whose calls the agent carries out itself, where
// nod sees them. Every other kind runs at the model's API, which would reach out
// for the agent past the environment's own rules.
var handed = map[API][]string{
	Anthropic: {"", "custom", "bash_", "text_editor_", "memory_", "computer_", "tool_search_tool_"},
	OpenAI:    {"function", "custom", "local_shell", "shell", "apply_patch", "namespace", "tool_search"},
}

// elsewhere are members of a request that have the model's API use what is not in it.
var elsewhere = []string{"mcp_servers", "container", "prompt", "conversation"}

// fetched are members of a part that name something to be fetched.
var fetched = []string{"image_url", "file_url", "file_id", "url"}

// object is one JSON object. Unlike a struct it tells names apart by case.
type object map[string]json.RawMessage

// nested is how deep the parts of a message may lie in each other.
const nested = 8

// inspect refuses a request that would have the model's API reach out for the
// agent, and one that two readers may understand differently. Errors are Forbidden.
func inspect(api API, raw []byte) error {
	var request object
	if !unambiguous(raw) || json.Unmarshal(raw, &request) != nil {
		return nod.E(nod.Forbidden, "the request is not one JSON object whose names are all different", nil)
	}
	for _, name := range elsewhere {
		if request.some(name) {
			return nod.E(nod.Forbidden, "the request asks the model's API to use other servers, or what it has stored", nil)
		}
	}
	for _, tool := range list(request["tools"]) {
		kind := tool.text("type")
		if tool.some("server_url") || tool.some("connector_id") || !slices.ContainsFunc(handed[api], func(k string) bool {
			return kind == k || strings.HasSuffix(k, "_") && strings.HasPrefix(kind, k)
		}) {
			return nod.E(nod.Forbidden, "the request offers the model a tool that its own API would run", nil)
		}
	}
	parts := slices.Concat(list(request["messages"]), list(request["system"]), list(request["input"]))
	for depth := 0; len(parts) > 0; depth++ {
		if depth > nested {
			return nod.E(nod.Forbidden, "the request is nested too deeply", nil)
		}
		var deeper []object
		for _, p := range parts {
			if p.fetches() {
				return nod.E(nod.Forbidden, "the request asks the model's API to fetch something", nil)
			}
			var source object
			if json.Unmarshal(p["source"], &source) == nil {
				deeper = append(deeper, source)
			}
			deeper = append(append(deeper, list(p["content"])...), list(p["output"])...)
		}
		parts = deeper
	}
	return nil
}

// fetches reports whether a part names what it does not carry along.
func (o object) fetches() bool {
	for _, name := range fetched {
		if o.some(name) && !strings.HasPrefix(o.text(name), "data:") {
			return true
		}
	}
	return false
}

// some reports whether o has more than nothing under name.
func (o object) some(name string) bool {
	s := string(bytes.TrimSpace(o[name]))
	return s != "" && s != "null" && s != "[]"
}

// text is the string under name, or nothing.
func (o object) text(name string) string {
	var s string
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// list are the objects of a JSON array; text has none.
func list(raw json.RawMessage) []object {
	var all []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var out []object
	for _, one := range all {
		var o object
		if json.Unmarshal(one, &o) == nil && o != nil {
			out = append(out, o)
		}
	}
	return out
}

// unambiguous reports whether raw is one JSON object in which no name occurs twice:
// of two the model's API might take the other one.
func unambiguous(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !distinct(d, '}', 1) {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}

// distinct reads on to the closing delimiter.
func distinct(d *json.Decoder, until json.Delim, depth int) bool {
	if depth > 200 {
		return false
	}
	names := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if until == '}' {
			name, ok := t.(string)
			if !ok || names[name] {
				return false
			}
			names[name] = true
			if t, err = d.Token(); err != nil {
				return false
			}
		}
		if open, ok := t.(json.Delim); ok {
			if open == '{' && !distinct(d, '}', depth+1) || open == '[' && !distinct(d, ']', depth+1) {
				return false
			}
		}
	}
	t, err := d.Token()
	return err == nil && t == until
}
