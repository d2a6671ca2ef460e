package notify

import (
	"strings"
	"testing"

	"nod"
)

func TestNoteSaysOnlyFixedWordsAndIDs(t *testing.T) {
	for note, want := range map[nod.Note]string{
		nod.NoteBudgetSoft: "A budget is nearly used up: Task t3f9a12c goes on.",
		nod.NoteBudgetHard: "A budget is used up: Task t3f9a12c was stopped.",
		"unheard of":       "Something happened: Task t3f9a12c has news.",
	} {
		p := ForTask(note, hostileTask(), "https://nod.test/")
		if err := check(p); err != nil {
			t.Errorf("%s: %v", note, err)
		}
		if got := p.Title + ": " + p.Message; got != want || p.Click != "https://nod.test/t/"+taskID || strings.Contains(p.Tag, "evil") {
			t.Errorf("%s: %q, %+v", note, got, p)
		}
	}
}
