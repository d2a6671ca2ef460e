package answer

import (
	"embed"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"nod"
)

//go:embed assets
var assetFiles embed.FS

type asset struct {
	kind, digest string
	body         []byte
}

func loadAssets() (map[string]asset, error) {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, nod.E(nod.Internal, "the assets cannot be read", err)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png"}
	all := make(map[string]asset, len(entries))
	for _, e := range entries {
		body, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, nod.E(nod.Internal, "the assets cannot be read", err)
		}
		kind := kinds[path.Ext(e.Name())]
		if _, _, err := mime.ParseMediaType(kind); err != nil {
			return nil, nod.E(nod.Internal, "an asset has no media type", err)
		}
		all[e.Name()] = asset{kind: kind, digest: nod.Digest(body)[:16], body: body}
	}
	return all, nil
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	a, ok := s.assets[r.PathValue("name")]
	if !ok {
		return nod.E(nod.NotFound, "there is nothing here", nil)
	}
	if r.URL.Query().Get("v") == a.digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	return send(w, http.StatusOK, a.kind, a.body)
}

// frame is what every page needs.
type frame struct {
	Title  string // constant text, never untrusted
	Signed bool
	Wide   bool
	Page   string // which part of the script runs
}

func (s *Server) frame(title string, signed bool) frame { return frame{Title: title, Signed: signed} }

func (s *Server) funcs() template.FuncMap {
	return template.FuncMap{
		"asset":   func(name string) string { return "/assets/" + name + "?v=" + s.assets[name].digest },
		"visible": visible,
		"short":   func(sha string) string { return sha[:min(7, len(sha))] },
		"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
		"signed": func(added, deleted int) string {
			return "+" + strconv.Itoa(added) + " −" + strconv.Itoa(deleted)
		},
		"join": strings.Join,
	}
}
