package githubsim

import (
	"regexp"
	"strings"
	"testing"
)

// refs knows two numbers.
func refs(n int) string { return map[int]string{1: "/a/b/issues/1", 2: "/a/b/pull/2"}[n] }

func TestMarkdownIsShownAsGitHubShowsIt(t *testing.T) {
	for body, want := range map[string]string{
		"one\ntwo\n\nthree":                                    "<p>one<br>two</p><p>three</p>",
		"`a*b*` *c* **d**":                                     "<p><code>a*b*</code> <em>c</em> <b>d</b></p>",
		"[`t1`](http://localhost:1/t1)":                        `<p><a rel="noreferrer" href="http://localhost:1/t1"><code>t1</code></a></p>`,
		"[x](javascript:alert(1))":                             "<p>[x](javascript:alert(1))</p>",
		"For #1, #2, #3 and a#1":                               `<p>For <a href="/a/b/issues/1">#1</a>, <a href="/a/b/pull/2">#2</a>, #3 and a#1</p>`,
		"| | |\n|---|---|\n| Task | *x* |\n| Run | 1 |\nend":   "<table><tr><td>Task</td><td><em>x</em></td></tr><tr><td>Run</td><td>1</td></tr></table><p>end</p>",
		"| A |\n|---|\n| b |":                                  "<table><tr><td>A</td></tr><tr><td>b</td></tr></table>",
		"# Head\n- a\n- b\n\n> q\n> r\n\n---":                  "<h3>Head</h3><ul><li>a</li><li>b</li></ul><blockquote> q<br> r</blockquote><hr>",
		"```sh\n<b> `x` <!-- y -->\n```\nafter":                "<pre>&lt;b&gt; `x` &lt;!-- y --&gt;</pre><p>after</p>",
		"<!-- nod:task:t1 -->\n**nod** · merged":               "<p><b>nod</b> · merged</p>",
		"seen <!-- not\nseen --> seen\n\n<!-- no\n\nno -->yes": "<p>seen  seen</p><p>yes</p>",
		"<!-- never closed\n\nno":                              "",
		`<img src=x onerror="a">`:                              "<p>&lt;img src=x onerror=&#34;a&#34;&gt;</p>",
		"```\nopen":                                            "<pre>open</pre>",
		"|":                                                    "<p>|</p>",
	} {
		if got := string(markdown(body, refs)); got != want {
			t.Errorf("%q\n got %s\nwant %s", body, got, want)
		}
	}
}

var allowed = regexp.MustCompile(`</?(?:p|hr|h3|pre|blockquote|ul|li|table|tr|td|code|b|em|br)>|</a>|<a rel="noreferrer" href="https?://[^"<>]*">|<a href="/[a-z0-9/]*">`)

func FuzzMarkdownWritesOnlyItsOwnTags(f *testing.F) {
	for _, body := range []string{"`a` **b** *c* [d](https://e) #1\n\n| a |\n|---|\n| b |", "<script>x</script>", `[a](http://b"onclick=c)`, "<!-- a", "> <b>\n- *x\n```", "[<i>](http://x)"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rest := allowed.ReplaceAllString(string(markdown(body, refs)), "")
		if strings.ContainsAny(rest, `<>"`) {
			t.Errorf("%q leaves %q", body, rest)
		}
	})
}
