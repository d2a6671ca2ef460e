package githubsim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

func refJSON(c *call, ref, sha string) obj {
	return obj{"ref": ref, "node_id": "REF_" + ref, "url": c.repoURL(c.repo) + "/git/" + ref,
		"object": obj{"type": "commit", "sha": sha, "url": c.repoURL(c.repo) + "/git/commits/" + sha}}
}

func getRef(c *call) (int, any, error) {
	ref := "refs/" + c.r.PathValue("ref")
	refs, err := c.refs(c.repo)
	if err != nil {
		return 0, nil, err
	}
	if refs[ref] == "" {
		return 0, nil, errNotFound
	}
	return http.StatusOK, refJSON(c, ref, refs[ref]), nil
}

func matchingRefs(c *call) (int, any, error) {
	refs, err := c.refs(c.repo)
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(name, "refs/"+c.r.PathValue("ref")) {
			out = append(out, refJSON(c, name, refs[name]))
		}
	}
	return http.StatusOK, paginate(c, out), nil
}

func createRef(c *call) (int, any, error) {
	var in struct{ Ref, SHA string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if c.refAt(c.repo, in.Ref) != "" {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Reference already exists"}
	}
	if err := c.moveRef(c.repo, c.by, in.Ref, in.SHA, false); err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, refJSON(c, in.Ref, in.SHA), nil
}

func updateRef(c *call) (int, any, error) {
	ref := "refs/" + c.r.PathValue("ref")
	var in struct {
		SHA   string
		Force bool
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.SHA == "" || c.refAt(c.repo, ref) == "" {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Reference does not exist"}
	}
	if err := c.moveRef(c.repo, c.by, ref, in.SHA, in.Force); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, refJSON(c, ref, in.SHA), nil
}

func deleteRef(c *call) (int, any, error) {
	if err := c.moveRef(c.repo, c.by, "refs/"+c.r.PathValue("ref"), "", false); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}

func listBranches(c *call) (int, any, error) {
	refs, err := c.refs(c.repo)
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for ref, sha := range refs {
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			out = append(out, obj{"name": name, "protected": false, "commit": obj{"sha": sha, "url": c.repoURL(c.repo) + "/commits/" + sha}})
		}
	}
	slices.SortFunc(out, func(a, b obj) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return http.StatusOK, paginate(c, out), nil
}

func getBranch(c *call) (int, any, error) {
	name := c.r.PathValue("branch")
	sha := c.head(c.repo, name)
	if sha == "" {
		return 0, nil, &apiError{status: http.StatusNotFound, msg: "Branch not found"}
	}
	cm, err := c.commit(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, obj{"name": name, "protected": false, "commit": c.commitJSON(c.repo, cm)}, nil
}

func getCommit(c *call) (int, any, error) {
	rev := c.r.PathValue("ref")
	sha, err := c.resolve(c.repo, "refs/heads/"+rev)
	if err != nil {
		sha, err = c.resolve(c.repo, rev)
	}
	if err != nil {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "No commit found for SHA: " + rev}
	}
	cm, err := c.commit(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.commitJSON(c.repo, cm), nil
}

func getGitCommit(c *call) (int, any, error) {
	cm, err := c.commit(c.repo, c.r.PathValue("sha"))
	if err != nil || !hexSHA(cm.sha) {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.gitCommitJSON(c.repo, cm), nil
}

func hexSHA(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

func createBlob(c *call) (int, any, error) {
	var in struct{ Content, Encoding string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	raw := []byte(in.Content)
	if in.Encoding == "base64" {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(in.Content, "\n", "")); err != nil {
			return 0, nil, invalid("Blob", "content", "invalid", "")
		}
	}
	out, err := c.git(c.repo.dir, raw, "hash-object", "-w", "--stdin")
	if err != nil {
		return 0, nil, err
	}
	sha := strings.TrimSpace(string(out))
	return http.StatusCreated, obj{"sha": sha, "url": c.repoURL(c.repo) + "/git/blobs/" + sha}, nil
}

// createTree edits base_tree entry by entry in an index of its own; a null sha
// removes the path.
func createTree(c *call) (int, any, error) {
	var in struct {
		Base string `json:"base_tree"`
		Tree []struct {
			Path, Mode, Type string
			SHA, Content     *string
		}
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Base != "" && !hexSHA(in.Base) {
		return 0, nil, invalid("Tree", "base_tree", "invalid", "")
	}
	var feed strings.Builder
	for _, e := range in.Tree {
		if e.Path == "" || strings.ContainsAny(e.Path, "\x00") {
			return 0, nil, invalid("Tree", "path", "invalid", "")
		}
		switch {
		case e.SHA != nil && hexSHA(*e.SHA) && slices.Contains([]string{"100644", "100755", "120000", "160000"}, e.Mode):
			fmt.Fprintf(&feed, "%s %s\t%s\x00", e.Mode, *e.SHA, e.Path)
		case e.SHA == nil && e.Content == nil:
			fmt.Fprintf(&feed, "0 %s\t%s\x00", zeroSHA, e.Path)
		case e.SHA == nil && slices.Contains([]string{"100644", "100755", "120000"}, e.Mode):
			out, err := c.git(c.repo.dir, []byte(*e.Content), "hash-object", "-w", "--stdin")
			if err != nil {
				return 0, nil, err
			}
			fmt.Fprintf(&feed, "%s %s\t%s\x00", e.Mode, strings.TrimSpace(string(out)), e.Path)
		default:
			return 0, nil, invalid("Tree", "tree", "invalid", "tree entries need a mode, and a sha or content")
		}
	}
	sha, err := c.editTree(c.repo, in.Base, feed.String())
	if err != nil {
		return 0, nil, invalid("Tree", "tree", "invalid", "the tree cannot be written")
	}
	return http.StatusCreated, obj{"sha": sha, "url": c.repoURL(c.repo) + "/git/trees/" + sha, "truncated": false, "tree": []obj{}}, nil
}

// createGitCommit is signed by GitHub's own key when an App leaves author,
// committer and signature out, and is not otherwise.
func createGitCommit(c *call) (int, any, error) {
	type who struct {
		Name, Email string
		Date        time.Time
	}
	var in struct {
		Message, Tree     string
		Parents           []string
		Author, Committer *who
		Signature         string
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Message == "" || !hexSHA(in.Tree) || in.Signature != "" {
		return 0, nil, invalid("Commit", "message", "missing_field", "")
	}
	if _, err := c.git(c.repo.dir, nil, "cat-file", "-e", in.Tree+"^{tree}"); err != nil {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Tree SHA does not exist"}
	}
	for _, p := range in.Parents {
		if got, err := c.resolve(c.repo, p); err != nil || got != p {
			return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Parent SHA does not exist or is not a commit object"}
		}
	}
	cm := commit{tree: in.Tree, parents: in.Parents, message: in.Message,
		author: person{c.by.login, c.by.noreply(), c.stamp()}, committer: person{"GitHub", webFlowEmail, c.stamp()}}
	sign := &c.webFlow
	if in.Author != nil || in.Committer != nil || c.by.kind != "Bot" || c.unsigned {
		sign, cm.committer = nil, cm.author
	}
	if in.Author != nil {
		cm.author = person{in.Author.Name, in.Author.Email, orNow(in.Author.Date, c.stamp())}
		cm.committer = cm.author
	}
	if in.Committer != nil {
		cm.committer = person{in.Committer.Name, in.Committer.Email, orNow(in.Committer.Date, c.stamp())}
	}
	sha, err := c.writeCommit(c.repo, cm, sign)
	if err != nil {
		return 0, nil, err
	}
	made, err := c.commit(c.repo, sha)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.gitCommitJSON(c.repo, made), nil
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}
